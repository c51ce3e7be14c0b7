"""The official Python SDK's client on a visit to a workshop: every feature once, and what came of it, in order.

A visit neither knows nor asks whether the workshop is reached directly or through a hub, nor in
which era the workshop itself speaks: a client of one era must see the same in all those cases.
What was seen is a plain mapping by feature; `expected.py` says what it must be.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.interop.foreign import JUDGES
from tests.interop.python_client import text_of
from tests.interop.traffic import Place, Traffic

PATIENCE_S = 60.0
FEATURE_S = 60.0
LEGACY, MODERN = "2025-11-25", "2026-07-28"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
Seen = dict[str, Any]


@dataclass(frozen=True)
class Stand:
    """A workshop as a client finds it."""

    place: Place
    room: str
    journal: Path
    prefix: str = ""
    """Before the names of its tools and prompts, where others have the same."""

    @property
    def uri(self) -> str:
        return f"memo://{self.room}"


@dataclass
class Visit:
    """One connected client, with everything that reaches it unasked, in order."""

    stand: Stand
    era: str
    client: Client = field(init=False)
    events: list[Any] = field(default_factory=list)
    answers: list[types.ElicitResult] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_modern(self) -> bool:
        return self.era == MODERN

    def hear(self, *event: Any) -> None:
        self.events.append(event)
        self.arrived.set()

    def has_heard_more_than(self, count: int) -> bool:
        return len(self.events) > count

    async def until(self, is_wanted: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_wanted():
                self.arrived.clear()
                await self.arrived.wait()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.hear("progress", progress, total, message)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.hear("log", params.level, params.data, params.logger)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.hear("elicitation", params.message, params.requested_schema)
        return self.answers.pop(0)

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked = [message.model_dump(by_alias=True, exclude_none=True) for message in params.messages]
        self.hear("sampling", asked, params.system_prompt, params.max_tokens, params.temperature)
        text = types.TextContent(type="text", text="old pond")
        return types.CreateMessageResult(role="assistant", content=text, model="basho")

    async def note(self, message: Any) -> None:
        assert not isinstance(message, Exception), message
        if self.is_modern:
            return  # what `listen` yields is told here too
        match message:
            case types.ToolListChangedNotification():
                self.hear("changed", "tool")
            case types.PromptListChangedNotification():
                self.hear("changed", "prompt")
            case types.ResourceListChangedNotification():
                self.hear("changed", "resource")
            case types.ResourceUpdatedNotification():
                self.hear("updated", str(message.params.uri))

    async def call(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        return await self.client.call_tool(self.stand.prefix + tool, arguments)

    async def traced(self, tool: str, arguments: Any = None, meta: Any = None) -> list[Any]:
        """What was heard during a call, with its text at the end."""
        self.events.clear()
        named = self.stand.prefix + tool
        result = await self.client.call_tool(named, arguments or {}, progress_callback=self.progress, meta=meta)
        return [*self.events, text(result)]


@asynccontextmanager
async def connected(stand: Stand, era: str) -> AsyncIterator[Visit]:
    """A client of one era that can answer everything, connected."""
    visit = Visit(stand, era)
    async with AsyncExitStack() as stack:
        traffic = Traffic()
        if isinstance(stand.place, list):
            command, *arguments = stand.place
            environment = os.environ | {"JUDGES": str(JUDGES)}
            server: Any = StdioServerParameters(command=command, args=arguments, env=environment)
        else:
            http = await stack.enter_async_context(traffic.client())
            server = streamable_http_client(stand.place, http_client=http)
        visit.client = Client(
            server,
            mode="auto" if visit.is_modern else "legacy",
            read_timeout_seconds=FEATURE_S,
            elicitation_callback=visit.elicit,
            sampling_callback=visit.sample,
            logging_callback=visit.log,
            message_handler=visit.note,
        )
        await stack.enter_async_context(visit.client)
        if isinstance(stand.place, str) and not visit.is_modern:
            await traffic.until("GET")  # nothing can be told to a session before
        yield visit


async def see(stand: Stand, era: str) -> Seen:
    """Visit; what came of each feature, or the exception that it ended with."""
    seen: Seen = {}
    async with connected(stand, era) as visit:
        seen["version"] = visit.client.protocol_version
        for name, feature in FEATURES.items():
            visit.events.clear()
            try:
                async with asyncio.timeout(FEATURE_S):
                    seen[name] = await feature(visit)
            except Exception as error:  # told by the test of that feature
                error.add_note(f"heard until then: {visit.events}")
                seen[name] = error
    return seen


# -- tools ---------------------------------------------------------------------------------------


async def listed_tools(visit: Visit) -> list[types.Tool]:
    """All that there are, page after page."""
    found: list[types.Tool] = []
    cursor = None
    while True:
        page = await visit.client.list_tools(cursor=cursor, cache_mode="bypass")
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found


async def own_tools(visit: Visit) -> dict[str, types.Tool]:
    """Those of this workshop, by the names that it gave them."""
    prefix = visit.stand.prefix
    found = [tool for tool in await listed_tools(visit) if tool.name.startswith(prefix)]
    return {tool.name.removeprefix(prefix): tool for tool in found if "hub." not in tool.name}


async def tools(visit: Visit) -> Seen:
    found = await own_tools(visit)
    texts = [f"text {number}" for number in range(5)]
    many = await asyncio.gather(*(visit.call("echo", text=text) for text in texts))
    return {
        "names": list(found),
        "echo": plain(found["echo"]) | {"name": "echo"},
        "called": plain(await visit.call("echo", text="grüß dich\n\u0000 🎲")),
        "gallery": plain(await visit.call("gallery"))["content"],
        "failing": plain(await visit.call("failing")),
        "unknown": await outcome(visit.call("missing")),
        "many": [text(result) for result in many] == texts,
    }


async def structured(visit: Visit) -> Seen:
    schemas = {name: tool.output_schema for name, tool in (await own_tools(visit)).items()}
    added, series = await visit.call("add", a=2, b=3), await visit.call("series", count=3)
    return {
        "schemas": (schemas["add"], schemas["series"]),
        "add": (added.structured_content, text(added)),
        "series": series.structured_content,
    }


async def progress(visit: Visit) -> list[Any]:
    return await visit.traced("slow", {"steps": 5})


async def cancellation(visit: Visit) -> Seen:
    token = uuid.uuid4().hex
    name = visit.stand.prefix + "wait"
    waiting = asyncio.create_task(visit.client.call_tool(name, {"token": token}, progress_callback=visit.progress))
    await visit.until(lambda: ("progress", 1, None, "waiting") in visit.events)
    waiting.cancel()
    await asyncio.wait([waiting])
    await journaled(visit.stand.journal, f"cancelled {token}")
    lines = visit.stand.journal.read_text().splitlines()
    return {
        "was_cancelled": waiting.cancelled(),
        "journal": [line for line in lines if token in line],
        "afterwards": text(await visit.call("echo", text="still there")),
    }


async def journaled(journal: Path, line: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while line not in journal.read_text().splitlines():
            await asyncio.sleep(0.01)


async def logs(visit: Visit) -> Seen:
    seen: Seen = {}
    for level in ("warning", "debug"):
        if visit.is_modern:
            seen[level] = await visit.traced("chatty", meta={LOG_LEVEL: level})
        else:
            await visit.client.set_logging_level(level)
            seen[level] = await visit.traced("chatty")
    return seen


# -- questions -----------------------------------------------------------------------------------


async def elicitation(visit: Visit) -> Seen:
    visit.answers = [accept(name="Ada", age=36), accept(sure=True)]
    seen: Seen = {"accepted": await visit.traced("interview")}
    visit.answers = [types.ElicitResult(action="decline")]
    seen["declined"] = await visit.traced("interview")
    if visit.is_modern:
        seen["rounds"] = await by_hand(visit)
    return seen


async def by_hand(visit: Visit) -> list[Any]:
    """The rounds of one call as they are on the wire: each answer is the same request once more."""
    name, call = visit.stand.prefix + "interview", visit.client.session.call_tool
    rounds: list[Any] = []
    state: str | None = None
    answers: Any = None
    for answer in (accept(name="Ada", age=36), accept(sure=False), None):
        result = await call(name, {}, input_responses=answers, request_state=state, allow_input_required=True)
        if not isinstance(result, types.InputRequiredResult):
            rounds.append(text(result))
            break
        ((key, question),) = (result.input_requests or {}).items()
        assert isinstance(question, types.ElicitRequest)
        rounds.append((question.method, question.params.message, result.request_state))
        state, answers = result.request_state, {key: answer}
    rounds.append(await outcome(call(name, {}, input_responses=answers, request_state="forged")))
    return rounds


async def sampling(visit: Visit) -> Seen:
    seen: Seen = {"haiku": await visit.traced("haiku", {"topic": "frogs"})}
    visit.answers = [accept(name="Ada", age=36)]
    seen["both"] = await visit.traced("both")
    return seen


def accept(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


# -- resources, prompts, completion --------------------------------------------------------------


async def resources(visit: Visit) -> Seen:
    uri = visit.stand.uri
    listed = (await visit.client.list_resources(cache_mode="bypass")).resources
    templates = (await visit.client.list_resource_templates(cache_mode="bypass")).resource_templates
    return {
        "listed": [
            plain(entry) for entry in listed if str(entry.uri).startswith(f"{uri}/") and "added" not in entry.uri
        ],
        "templates": [plain(entry) for entry in templates if entry.uri_template.startswith(f"{uri}/")],
        "static": await read(visit, f"{uri}/static"),
        "bytes": await read(visit, f"{uri}/bytes"),
        "person": await read(visit, f"{uri}/people/ada"),
        "missing": await outcome(visit.client.read_resource(f"{uri}/nowhere", cache_mode="bypass")),
        "watched": await watch(visit, f"{uri}/watched"),
    }


async def read(visit: Visit, uri: str) -> list[Any]:
    found = await visit.client.read_resource(uri, cache_mode="bypass")
    return [plain(entry) for entry in found.contents]


async def watch(visit: Visit, uri: str) -> Seen:
    """Hear of one change while subscribed, and of none afterwards."""
    async with subscribed(visit, uri) as honored:
        visit.events.clear()
        touched = text(await visit.call("touch"))
        await visit.until(lambda: ("updated", uri) in visit.events)
        (entry,) = await read(visit, uri)
    visit.events.clear()
    await visit.call("touch")
    await visit.call("echo", text="so that whatever was told has arrived")
    return {"is_new": entry["text"] == touched, "honored": honored, "afterwards": list(visit.events)}


@asynccontextmanager
async def subscribed(visit: Visit, uri: str) -> AsyncIterator[Any]:
    if not visit.is_modern:
        await visit.client.subscribe_resource(uri)
        yield None
        await visit.client.unsubscribe_resource(uri)
        return
    async with visit.client.listen(resource_subscriptions=[uri]) as events, asyncio.TaskGroup() as tasks:
        hearing = tasks.create_task(hear_events(visit, events))
        honored = events.honored.model_dump(by_alias=True, exclude_none=True)
        yield {key: value for key, value in honored.items() if value}  # to say no is as good as to say nothing
        hearing.cancel()


async def hear_events(visit: Visit, events: Any) -> None:
    kinds = {"ToolsListChanged": "tool", "PromptsListChanged": "prompt", "ResourcesListChanged": "resource"}
    async for event in events:
        kind = type(event).__name__
        if kind == "ResourceUpdated":
            visit.hear("updated", event.uri)
        else:
            visit.hear("changed", kinds[kind])


async def prompts(visit: Visit) -> Seen:
    prefix = visit.stand.prefix
    listed = (await visit.client.list_prompts(cache_mode="bypass")).prompts
    got = await visit.client.get_prompt(f"{prefix}greeting", {"name": "Ada", "style": "formal"})
    return {
        "listed": [plain(entry) | {"name": "greeting"} for entry in listed if entry.name == f"{prefix}greeting"],
        "got": (got.description, [plain(message) for message in got.messages]),
        "missing": await outcome(visit.client.get_prompt(f"{prefix}nowhere")),
    }


async def completion(visit: Visit) -> Seen:
    prompt = types.PromptReference(name=f"{visit.stand.prefix}greeting")
    template = types.ResourceTemplateReference(uri=f"{visit.stand.uri}/people/{{name}}")
    complete = visit.client.complete
    return {
        "prompt": plain((await complete(prompt, {"name": "style", "value": "f"})).completion),
        "template": plain((await complete(template, {"name": "name", "value": "a"})).completion),
        "context": (await complete(prompt, {"name": "style", "value": "p"}, {"name": "ada"})).completion.values,
    }


# -- list changes --------------------------------------------------------------------------------


GROW_ATTEMPTS = 3
"""A hub may still tell of a change of an earlier visit, but not every time."""


async def changes(visit: Visit) -> Seen:
    """Let the workshop grow by one of each kind, and hear, list and use each."""
    async with listening(visit):
        return {kind: await grown(visit, kind) for kind in ("tool", "prompt", "resource")}


async def grown(visit: Visit, kind: str) -> Seen:
    kinds: list[str] = []
    name = ""
    for _ in range(GROW_ATTEMPTS):
        name = f"new_{uuid.uuid4().hex[:8]}"
        visit.events.clear()
        await visit.call("grow", kind=kind, name=name)
        await visit.until(lambda: ("changed", kind) in visit.events)
        kinds = list(dict.fromkeys(event[1] for event in visit.events))
        if kinds == [kind]:
            break
    return {"heard": kinds, "is_listed": await is_listed(visit, kind, name), "used": await used(visit, kind, name)}


async def is_listed(visit: Visit, kind: str, name: str) -> bool:
    """Whether it is there once the change was told. An older change may have been told last, so more than once."""
    while True:
        heard = len(visit.events)
        if name in await listed(visit, kind):
            return True
        await visit.until(partial(visit.has_heard_more_than, heard))


async def listed(visit: Visit, kind: str) -> list[str]:
    if kind == "tool":
        names = [tool.name for tool in await listed_tools(visit)]
    elif kind == "prompt":
        names = [entry.name for entry in (await visit.client.list_prompts(cache_mode="bypass")).prompts]
    else:
        names = [entry.name for entry in (await visit.client.list_resources(cache_mode="bypass")).resources]
    return names


async def used(visit: Visit, kind: str, name: str) -> str:
    if kind == "tool":
        # It collides with nothing, so its own name is enough.
        return text(await visit.client.call_tool(name, {"who": "Ada"})).replace(name, "it")
    if kind == "prompt":
        got = await visit.client.get_prompt(name)
        return str(text_of(got.messages[0].content)).replace(name, "it")
    (entry,) = await read(visit, f"{visit.stand.uri}/added/{name}")
    return str(entry["text"]).replace(name, "it")


@asynccontextmanager
async def listening(visit: Visit) -> AsyncIterator[None]:
    if not visit.is_modern:
        yield
        return
    kinds: dict[str, Any] = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
    async with visit.client.listen(**kinds) as events, asyncio.TaskGroup() as tasks:
        hearing = tasks.create_task(hear_events(visit, events))
        yield
        hearing.cancel()


# -- what was seen, plainly ------------------------------------------------------------------------


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent), block
    return block.text


_ADDED = ("dev.hubbub/", "hubbub/", "io.modelcontextprotocol/")


def plain(value: Any) -> Any:
    """As it came over the wire, without what hubs and eras add."""
    found = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    meta = {key: item for key, item in found.pop("_meta", {}).items() if not key.startswith(_ADDED)}
    found.pop("resultType", None)
    return found | ({"_meta": meta} if meta else {})


async def outcome(work: Awaitable[Any]) -> Any:
    """A result, or the code of an error; an internal error with its message, so that a failed test shows it."""
    try:
        return plain(await work)
    except MCPError as error:
        return f"{error.error.code} {error.error.message}" if error.error.code == -32603 else error.error.code


FEATURES: dict[str, Callable[[Visit], Awaitable[Any]]] = {
    "tools": tools,
    "structured results": structured,
    "progress": progress,
    "cancellation": cancellation,
    "logs": logs,
    "elicitation": elicitation,
    "sampling": sampling,
    "resources": resources,
    "prompts": prompts,
    "completion": completion,
    "list changes": changes,
}
