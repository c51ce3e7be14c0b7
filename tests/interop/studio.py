"""Hubbub's client on a visit to a studio: one connection, everything that the server offers, and what came of it.

The studios are in `tests/interop/servers`, each written with somebody else's SDK. What was seen is a
plain mapping; `test_client_sdk_servers.py` compares it. Nothing here knows which SDK it talks to.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from hubbub import (
    Change,
    Client,
    DeadlineExceeded,
    ElicitationAnswer,
    ElicitationRequest,
    RemoteError,
    Root,
    SamplingAnswer,
    SamplingRequest,
    ServerConfig,
)

PATIENCE_S = 60.0
Seen = dict[str, Any]


class Visitor:
    """What the client is asked, and what it hears unasked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.changes: list[Change] = []
        self._arrived = asyncio.Event()

    def elicit(self, request: ElicitationRequest) -> ElicitationAnswer:
        self.asked.append(("elicitation", request.message, request.requested_schema))
        return ElicitationAnswer("accept", {"name": "Ada", "age": 36})

    async def sample(self, request: SamplingRequest) -> SamplingAnswer:
        self.asked.append(("sampling", request.messages, request.system_prompt, request.max_tokens))
        await asyncio.sleep(0)
        return SamplingAnswer({"type": "text", "text": "old pond"}, model="basho")

    def hear(self, change: Change) -> None:
        self.changes.append(change)
        self._arrived.set()

    async def until(self, is_wanted: Callable[[Change], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not any(map(is_wanted, self.changes)):
                self._arrived.clear()
                await self._arrived.wait()


async def visit(config: ServerConfig) -> Seen:
    """Do everything; what was seen."""
    visitor = Visitor()
    client = Client(
        config,
        elicitation=visitor.elicit,
        sampling=visitor.sample,
        roots=[Root("file:///home/ada", "home")],
        on_change=visitor.hear,
    )
    async with client:
        tools = {tool.name: tool for tool in await client.tools()}
        seen: Seen = {
            "version": client.protocol_version,
            "server": (client.server_info.name, client.server_info.version),
            "instructions": client.instructions,
            "tools": {name: plain(tool) for name, tool in tools.items()},
            "called": await call_tools(client),
            "progress": await hear_progress(client),
            "cancelled": await give_up(client),
            "many": await call_many(client),
            "answered": await answer_questions(client, tools.keys()),
            "asked": visitor.asked,
            "resources": await read_resources(client),
            "prompts": await get_prompts(client),
            "changes": await hear_changes(client, visitor),
        }
    return seen


async def call_tools(client: Client) -> Seen:
    called = {
        "echo": await client.call_tool("echo", {"text": "grüß dich\n"}),
        "add": await client.call_tool("add", {"a": 2, "b": 3}),
        "gallery": await client.call_tool("gallery"),
        "failing": await client.call_tool("failing"),
    }
    return {name: plain(result) for name, result in called.items()} | {
        "wrong": await outcome(client.call_tool("echo", {"text": 7})),
        "unknown": await outcome(client.call_tool("missing")),
    }


async def hear_progress(client: Client) -> list[Any]:
    heard: list[Any] = []

    def hear(progress: Any) -> None:
        heard.append((progress.progress, progress.total, progress.message))

    result = await client.call_tool("slow", {"steps": 3}, progress=hear)
    return [*heard, plain(result)["content"][0]["text"]]


async def give_up(client: Client) -> Seen:
    """Let one call be cancelled, and another run out of time."""
    waiting = asyncio.Event()
    call = asyncio.create_task(client.call_tool("wait_forever", progress=lambda _: waiting.set()))
    async with asyncio.timeout(PATIENCE_S):
        await waiting.wait()
    call.cancel()
    await asyncio.wait([call])
    after_cancelling = await client.call_tool("counts", {"cancelled": 1})
    try:
        await client.call_tool("wait_forever", timeout_s=0.3)
        timeout = None
    except DeadlineExceeded as error:
        timeout = error.message
    return {
        "was_cancelled": call.cancelled(),
        "after_cancelling": plain(after_cancelling)["structuredContent"],
        "timeout": timeout,
        "after_timeout": plain(await client.call_tool("counts", {"cancelled": 2}))["structuredContent"],
    }


async def call_many(client: Client) -> bool:
    texts = [f"text {number}" for number in range(40)]
    results = await asyncio.gather(*(client.call_tool("echo", {"text": text}) for text in texts))
    return [plain(result)["content"][0]["text"] for result in results] == texts


async def answer_questions(client: Client, tools: Any) -> Seen:
    questions = {"ask_name": {}, "sample_haiku": {"topic": "frogs"}, "list_roots": {}}
    return {
        name: plain(await client.call_tool(name, arguments))["content"][0]["text"]
        for name, arguments in questions.items()
        if name in tools
    }


async def read_resources(client: Client) -> Seen:
    return {
        "listed": [(entry.uri, entry.name) for entry in await client.resources()],
        "templates": [entry.uri_template for entry in await client.templates()],
        "static": plain(await client.read_resource("memo://static"))["contents"],
        "bytes": plain(await client.read_resource("memo://bytes"))["contents"],
        "person": plain(await client.read_resource("memo://people/ada"))["contents"],
        "missing": await outcome(client.read_resource("memo://nowhere")),
    }


async def get_prompts(client: Client) -> Seen:
    prompt = {"type": "ref/prompt", "name": "greeting"}
    template = {"type": "ref/resource", "uri": "memo://people/{name}"}
    return {
        "listed": [
            (entry.name, [(argument.name, argument.required) for argument in entry.arguments or []])
            for entry in await client.prompts()
        ],
        "got": plain(await client.get_prompt("greeting", {"name": "Ada", "style": "formal"}))["messages"],
        "missing": await outcome(client.get_prompt("nowhere")),
        "style": plain(await client.complete(prompt, "style", "f"))["completion"]["values"],
        "name": plain(await client.complete(template, "name", "a"))["completion"]["values"],
    }


async def hear_changes(client: Client, visitor: Visitor) -> Seen:
    """What is told of a tool that appears, and of a resource that changes, while we listen and afterwards."""
    await client.call_tool("register_tool", {"name": "hello"})
    await visitor.until(lambda change: change.kind == "tools")
    seen: Seen = {"is_listed": "hello" in [tool.name for tool in await client.tools()]}
    seen["hello"] = plain(await client.call_tool("hello", {"who": "Ada"}))["content"][0]["text"]
    seen["can_watch"] = client.server_capabilities.get("resources", {}).get("subscribe", False)
    if seen["can_watch"]:
        before = plain(await client.read_resource("memo://watched"))["contents"][0]["text"]
        await client.subscribe("memo://watched")
        await client.call_tool("touch_resource")
        await visitor.until(lambda change: change.kind == "resource")
        after = plain(await client.read_resource("memo://watched"))["contents"][0]["text"]
        await client.unsubscribe("memo://watched")
        heard = len(visitor.changes)
        await client.call_tool("touch_resource")
        await client.call_tool("echo", {"text": "so that whatever was told has arrived"})
        seen["watched"] = (before, after, visitor.changes[heard:])
    seen["heard"] = list(dict.fromkeys((change.kind, change.uri) for change in visitor.changes))
    return seen


async def outcome(work: Any) -> Any:
    """What came of it: the code of an error, or a result."""
    try:
        return plain(await work)
    except RemoteError as error:
        return error.code


def plain(value: Any) -> Any:
    """As it came over the wire, or as it would go."""
    raw = getattr(value, "raw", None)
    return msgspec.json.decode(raw if raw is not None else msgspec.json.encode(value))
