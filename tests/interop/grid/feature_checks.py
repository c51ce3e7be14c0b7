"""Uses every feature of a workshop once with the official Python SDK's client, and records the results in order.

A run does not depend on whether the workshop is reached directly or through a hub, nor on the
era of the workshop: a client of one era must get the same in all cases.
The results are a plain mapping by feature; `expected.py` has the expected ones.
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
from tests.interop.external_servers import JUDGES
from tests.interop.http_recorder import HttpRecorder, ServerAddress
from tests.interop.python_client import block_text

WAIT_S = 60.0
FEATURE_TIMEOUT_S = 60.0
LEGACY, MODERN = "2025-11-25", "2026-07-28"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
FeatureResults = dict[str, Any]


@dataclass(frozen=True)
class ServerTarget:
    """The address of a workshop, and how its names are prefixed."""

    address: ServerAddress
    namespace: str
    journal: Path
    prefix: str = ""
    """Prefix of its tools and prompts, if other workshops have the same names."""

    @property
    def uri(self) -> str:
        return f"memo://{self.namespace}"


@dataclass
class ClientRun:
    """One connected client, with the notifications and requests that it received, in order."""

    target: ServerTarget
    era: str
    client: Client = field(init=False)
    events: list[Any] = field(default_factory=list)
    answers: list[types.ElicitResult] = field(default_factory=list)
    recorded: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_modern(self) -> bool:
        return self.era == MODERN

    def record(self, *event: Any) -> None:
        self.events.append(event)
        self.recorded.set()

    def has_more_events_than(self, count: int) -> bool:
        return len(self.events) > count

    async def wait_until(self, is_wanted: Callable[[], Any]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not is_wanted():
                self.recorded.clear()
                await self.recorded.wait()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.record("progress", progress, total, message)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.record("log", params.level, params.data, params.logger)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.record("elicitation", params.message, params.requested_schema)
        return self.answers.pop(0)

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked = [message.model_dump(by_alias=True, exclude_none=True) for message in params.messages]
        self.record("sampling", asked, params.system_prompt, params.max_tokens, params.temperature)
        text = types.TextContent(type="text", text="old pond")
        return types.CreateMessageResult(role="assistant", content=text, model="basho")

    async def record_notification(self, message: Any) -> None:
        assert not isinstance(message, Exception), message
        if self.is_modern:
            return  # what `listen` yields is delivered here too
        match message:
            case types.ToolListChangedNotification():
                self.record("changed", "tool")
            case types.PromptListChangedNotification():
                self.record("changed", "prompt")
            case types.ResourceListChangedNotification():
                self.record("changed", "resource")
            case types.ResourceUpdatedNotification():
                self.record("updated", str(message.params.uri))

    async def call(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        return await self.client.call_tool(self.target.prefix + tool, arguments)

    async def call_and_record(self, tool: str, arguments: Any = None, meta: Any = None) -> list[Any]:
        """Return the events of a call, followed by its text; without list changes, which belong to no call."""
        self.events.clear()
        named = self.target.prefix + tool
        result = await self.client.call_tool(named, arguments or {}, progress_callback=self.progress, meta=meta)
        return [*(event for event in self.events if event[0] != "changed"), result_text(result)]


@asynccontextmanager
async def connect_client(target: ServerTarget, era: str) -> AsyncIterator[ClientRun]:
    """Connect a client of one era that declares all capabilities."""
    run = ClientRun(target, era)
    async with AsyncExitStack() as stack:
        traffic = HttpRecorder()
        if isinstance(target.address, list):
            command, *arguments = target.address
            environment = os.environ | {"JUDGES": str(JUDGES)}
            server: Any = StdioServerParameters(command=command, args=arguments, env=environment)
        else:
            http = await stack.enter_async_context(traffic.make_client())
            server = streamable_http_client(target.address, http_client=http)
        run.client = Client(
            server,
            mode="auto" if run.is_modern else "legacy",
            read_timeout_seconds=FEATURE_TIMEOUT_S,
            elicitation_callback=run.elicit,
            sampling_callback=run.sample,
            logging_callback=run.log,
            message_handler=run.record_notification,
        )
        await stack.enter_async_context(run.client)
        if isinstance(target.address, str) and not run.is_modern:
            await traffic.wait_for("GET")  # before that, a session gets no notifications
        yield run


async def run_features(target: ServerTarget, era: str) -> FeatureResults:
    """Use every feature; return the result of each, or its exception."""
    results: FeatureResults = {}
    async with connect_client(target, era) as run:
        results["version"] = run.client.protocol_version
        for name, feature in FEATURES.items():
            run.events.clear()
            try:
                async with asyncio.timeout(FEATURE_TIMEOUT_S):
                    results[name] = await feature(run)
            except Exception as error:  # reported by the test of that feature
                error.add_note(f"events so far: {run.events}")
                results[name] = error
    return results


# -- tools ---------------------------------------------------------------------------------------


async def list_all_tools(run: ClientRun) -> list[types.Tool]:
    """Return all tools of all pages."""
    found: list[types.Tool] = []
    cursor = None
    while True:
        page = await run.client.list_tools(cursor=cursor, cache_mode="bypass")
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found


async def list_workshop_tools(run: ClientRun) -> dict[str, types.Tool]:
    """Return the tools of this workshop by their original names."""
    prefix = run.target.prefix
    found = [tool for tool in await list_all_tools(run) if tool.name.startswith(prefix)]
    return {tool.name.removeprefix(prefix): tool for tool in found if "hub." not in tool.name}


async def tools(run: ClientRun) -> FeatureResults:
    found = await list_workshop_tools(run)
    texts = [f"text {number}" for number in range(5)]
    many = await asyncio.gather(*(run.call("echo", text=text) for text in texts))
    return {
        "names": list(found),
        "echo": to_wire_form(found["echo"]) | {"name": "echo"},
        "called": to_wire_form(await run.call("echo", text="grüß dich\n\u0000 🎲")),
        "gallery": to_wire_form(await run.call("gallery"))["content"],
        "failing": to_wire_form(await run.call("failing")),
        "unknown": await outcome(run.call("missing")),
        "many": [result_text(result) for result in many] == texts,
    }


async def structured(run: ClientRun) -> FeatureResults:
    schemas = {name: tool.output_schema for name, tool in (await list_workshop_tools(run)).items()}
    added, series = await run.call("add", a=2, b=3), await run.call("series", count=3)
    return {
        "schemas": (schemas["add"], schemas["series"]),
        "add": (added.structured_content, result_text(added)),
        "series": series.structured_content,
    }


async def progress(run: ClientRun) -> list[Any]:
    return await run.call_and_record("slow", {"steps": 5})


async def cancellation(run: ClientRun) -> FeatureResults:
    token = uuid.uuid4().hex
    name = run.target.prefix + "wait"
    waiting = asyncio.create_task(run.client.call_tool(name, {"token": token}, progress_callback=run.progress))
    await run.wait_until(lambda: ("progress", 1, None, "waiting") in run.events)
    waiting.cancel()
    await asyncio.wait([waiting])
    await wait_for_journal(run.target.journal, f"cancelled {token}")
    lines = run.target.journal.read_text().splitlines()
    return {
        "was_cancelled": waiting.cancelled(),
        "journal": [line for line in lines if token in line],
        "afterwards": result_text(await run.call("echo", text="still there")),
    }


async def wait_for_journal(journal: Path, line: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while line not in journal.read_text().splitlines():
            await asyncio.sleep(0.01)


async def logs(run: ClientRun) -> FeatureResults:
    results: FeatureResults = {}
    for level in ("warning", "debug"):
        if run.is_modern:
            results[level] = await run.call_and_record("chatty", meta={LOG_LEVEL: level})
        else:
            await run.client.set_logging_level(level)
            results[level] = await run.call_and_record("chatty")
    return results


# -- client requests -----------------------------------------------------------------------------------


async def elicitation(run: ClientRun) -> FeatureResults:
    run.answers = [accept(name="Ada", age=36), accept(sure=True)]
    results: FeatureResults = {"accepted": await run.call_and_record("interview")}
    run.answers = [types.ElicitResult(action="decline")]
    results["declined"] = await run.call_and_record("interview")
    if run.is_modern:
        results["rounds"] = await run_rounds_manually(run)
    return results


async def run_rounds_manually(run: ClientRun) -> list[Any]:
    """Record the rounds of one call on the wire: each response is sent with the same request again."""
    name, call = run.target.prefix + "interview", run.client.session.call_tool
    rounds: list[Any] = []
    state: str | None = None
    answers: Any = None
    for answer in (accept(name="Ada", age=36), accept(sure=False), None):
        result = await call(name, {}, input_responses=answers, request_state=state, allow_input_required=True)
        if not isinstance(result, types.InputRequiredResult):
            rounds.append(result_text(result))
            break
        ((key, question),) = (result.input_requests or {}).items()
        assert isinstance(question, types.ElicitRequest)
        rounds.append((question.method, question.params.message, result.request_state))
        state, answers = result.request_state, {key: answer}
    rounds.append(await outcome(call(name, {}, input_responses=answers, request_state="forged")))
    return rounds


async def sampling(run: ClientRun) -> FeatureResults:
    results: FeatureResults = {"haiku": await run.call_and_record("haiku", {"topic": "frogs"})}
    run.answers = [accept(name="Ada", age=36)]
    results["both"] = await run.call_and_record("both")
    return results


def accept(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


# -- resources, prompts, completion --------------------------------------------------------------


async def resources(run: ClientRun) -> FeatureResults:
    uri = run.target.uri
    listed = (await run.client.list_resources(cache_mode="bypass")).resources
    templates = (await run.client.list_resource_templates(cache_mode="bypass")).resource_templates
    return {
        "listed": [
            to_wire_form(entry) for entry in listed if str(entry.uri).startswith(f"{uri}/") and "added" not in entry.uri
        ],
        "templates": [to_wire_form(entry) for entry in templates if entry.uri_template.startswith(f"{uri}/")],
        "static": await read(run, f"{uri}/static"),
        "bytes": await read(run, f"{uri}/bytes"),
        "person": await read(run, f"{uri}/people/ada"),
        "missing": await outcome(run.client.read_resource(f"{uri}/nowhere", cache_mode="bypass")),
        "watched": await check_subscription(run, f"{uri}/watched"),
    }


async def read(run: ClientRun, uri: str) -> list[Any]:
    found = await run.client.read_resource(uri, cache_mode="bypass")
    return [to_wire_form(entry) for entry in found.contents]


async def check_subscription(run: ClientRun, uri: str) -> FeatureResults:
    """Check that one change is received while subscribed, and none afterwards."""
    async with open_subscription(run, uri) as honored:
        run.events.clear()
        new_text = result_text(await run.call("touch"))
        await run.wait_until(lambda: ("updated", uri) in run.events)
        (entry,) = await read(run, uri)
    run.events.clear()
    await run.call("touch")
    await run.call("echo", text="so that every earlier notification has arrived")
    return {"is_new": entry["text"] == new_text, "honored": honored, "afterwards": list(run.events)}


@asynccontextmanager
async def open_subscription(run: ClientRun, uri: str) -> AsyncIterator[Any]:
    if not run.is_modern:
        await run.client.subscribe_resource(uri)
        yield None
        await run.client.unsubscribe_resource(uri)
        return
    async with run.client.listen(resource_subscriptions=[uri]) as events, asyncio.TaskGroup() as tasks:
        recording = tasks.create_task(record_events(run, events))
        honored = events.honored.model_dump(by_alias=True, exclude_none=True)
        yield {key: value for key, value in honored.items() if value}  # false is the same as missing
        recording.cancel()


async def record_events(run: ClientRun, events: Any) -> None:
    kinds = {"ToolsListChanged": "tool", "PromptsListChanged": "prompt", "ResourcesListChanged": "resource"}
    async for event in events:
        kind = type(event).__name__
        if kind == "ResourceUpdated":
            run.record("updated", event.uri)
        else:
            run.record("changed", kinds[kind])


async def prompts(run: ClientRun) -> FeatureResults:
    prefix = run.target.prefix
    listed = (await run.client.list_prompts(cache_mode="bypass")).prompts
    got = await run.client.get_prompt(f"{prefix}greeting", {"name": "Ada", "style": "formal"})
    return {
        "listed": [to_wire_form(entry) | {"name": "greeting"} for entry in listed if entry.name == f"{prefix}greeting"],
        "got": (got.description, [to_wire_form(message) for message in got.messages]),
        "missing": await outcome(run.client.get_prompt(f"{prefix}nowhere")),
    }


async def completion(run: ClientRun) -> FeatureResults:
    prompt = types.PromptReference(name=f"{run.target.prefix}greeting")
    template = types.ResourceTemplateReference(uri=f"{run.target.uri}/people/{{name}}")
    complete = run.client.complete
    return {
        "prompt": to_wire_form((await complete(prompt, {"name": "style", "value": "f"})).completion),
        "template": to_wire_form((await complete(template, {"name": "name", "value": "a"})).completion),
        "context": (await complete(prompt, {"name": "style", "value": "p"}, {"name": "ada"})).completion.values,
    }


# -- list changes --------------------------------------------------------------------------------


GROW_ATTEMPTS = 3
"""A hub may still notify about a change of an earlier run, but not every time."""


async def changes(run: ClientRun) -> FeatureResults:
    """Add a tool, a prompt and a resource; check that each is notified, listed and usable."""
    async with listening(run):
        return {kind: await check_growth(run, kind) for kind in ("tool", "prompt", "resource")}


async def check_growth(run: ClientRun, kind: str) -> FeatureResults:
    kinds: list[str] = []
    name = ""
    for _ in range(GROW_ATTEMPTS):
        name = f"new_{uuid.uuid4().hex[:8]}"
        run.events.clear()
        await run.call("grow", kind=kind, name=name)
        await run.wait_until(lambda: ("changed", kind) in run.events)
        kinds = list(dict.fromkeys(event[1] for event in run.events))
        if kinds == [kind]:
            break
    return {"received": kinds, "is_listed": await is_listed(run, kind, name), "used": await used(run, kind, name)}


async def is_listed(run: ClientRun, kind: str, name: str) -> bool:
    """Wait until the name is listed. The last notification may be about an older change, so check after each."""
    while True:
        event_count = len(run.events)
        if name in await listed(run, kind):
            return True
        await run.wait_until(partial(run.has_more_events_than, event_count))


async def listed(run: ClientRun, kind: str) -> list[str]:
    if kind == "tool":
        names = [tool.name for tool in await list_all_tools(run)]
    elif kind == "prompt":
        names = [entry.name for entry in (await run.client.list_prompts(cache_mode="bypass")).prompts]
    else:
        names = [entry.name for entry in (await run.client.list_resources(cache_mode="bypass")).resources]
    return names


async def used(run: ClientRun, kind: str, name: str) -> str:
    if kind == "tool":
        # The name is unique, so it has no prefix.
        return result_text(await run.client.call_tool(name, {"who": "Ada"})).replace(name, "it")
    if kind == "prompt":
        got = await run.client.get_prompt(name)
        return str(block_text(got.messages[0].content)).replace(name, "it")
    (entry,) = await read(run, f"{run.target.uri}/added/{name}")
    return str(entry["text"]).replace(name, "it")


@asynccontextmanager
async def listening(run: ClientRun) -> AsyncIterator[None]:
    if not run.is_modern:
        yield
        return
    kinds: dict[str, Any] = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
    async with run.client.listen(**kinds) as events, asyncio.TaskGroup() as tasks:
        recording = tasks.create_task(record_events(run, events))
        yield
        recording.cancel()


# -- results as plain data ------------------------------------------------------------------------


def result_text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent), block
    return block.text


_ADDED = ("dev.hubbub/", "hubbub/", "io.modelcontextprotocol/")


def to_wire_form(value: Any) -> Any:
    """Return the wire form, without the members that hubs and eras add."""
    found = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    meta = {key: item for key, item in found.pop("_meta", {}).items() if not key.startswith(_ADDED)}
    found.pop("resultType", None)
    return found | ({"_meta": meta} if meta else {})


async def outcome(work: Awaitable[Any]) -> Any:
    """A result, or the code of an error; an internal error with its message, so that a failed test shows it."""
    try:
        return to_wire_form(await work)
    except MCPError as error:
        return f"{error.error.code} {error.error.message}" if error.error.code == -32603 else error.error.code


FEATURES: dict[str, Callable[[ClientRun], Awaitable[Any]]] = {
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
