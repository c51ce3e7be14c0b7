"""Uses every feature of a studio with Hubbub's client, over one connection, and records the results.

The studios are in `tests/interop/servers`, each written with another SDK. The results are a
plain mapping; `test_client_sdk_servers.py` compares them. Nothing here depends on the SDK of the server.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from hubbub import (
    ChangeEvent,
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

WAIT_S = 60.0
FeatureResults = dict[str, Any]


class ClientCallbacks:
    """Answers client requests and records notifications."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.changes: list[ChangeEvent] = []
        self._arrived = asyncio.Event()

    def elicit(self, request: ElicitationRequest) -> ElicitationAnswer:
        self.requests.append(("elicitation", request.message, request.requested_schema))
        return ElicitationAnswer("accept", {"name": "Ada", "age": 36})

    async def sample(self, request: SamplingRequest) -> SamplingAnswer:
        self.requests.append(("sampling", request.messages, request.system_prompt, request.max_tokens))
        await asyncio.sleep(0)
        return SamplingAnswer({"type": "text", "text": "old pond"}, model="basho")

    def record_change(self, change: ChangeEvent) -> None:
        self.changes.append(change)
        self._arrived.set()

    async def wait_for(self, is_wanted: Callable[[ChangeEvent], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not any(map(is_wanted, self.changes)):
                self._arrived.clear()
                await self._arrived.wait()


async def use_every_feature(config: ServerConfig) -> FeatureResults:
    """Use every feature; return the results."""
    callbacks = ClientCallbacks()
    client = Client(
        config,
        elicitation=callbacks.elicit,
        sampling=callbacks.sample,
        roots=[Root("file:///home/ada", "home")],
        on_change=callbacks.record_change,
    )
    async with client:
        tools = {tool.name: tool for tool in await client.tools()}
        seen: FeatureResults = {
            "version": client.protocol_version,
            "server": (client.server_info.name, client.server_info.version),
            "instructions": client.instructions,
            "tools": {name: to_wire_form(tool) for name, tool in tools.items()},
            "called": await call_tools(client),
            "progress": await collect_progress(client),
            "cancelled": await cancel_calls(client),
            "many": await call_many(client),
            "answered": await answer_questions(client, tools.keys()),
            "asked": callbacks.requests,
            "resources": await read_resources(client),
            "prompts": await get_prompts(client),
            "changes": await collect_changes(client, callbacks),
        }
    return seen


async def call_tools(client: Client) -> FeatureResults:
    called = {
        "echo": await client.call_tool("echo", {"text": "grüß dich\n"}),
        "add": await client.call_tool("add", {"a": 2, "b": 3}),
        "gallery": await client.call_tool("gallery"),
        "failing": await client.call_tool("failing"),
    }
    return {name: to_wire_form(result) for name, result in called.items()} | {
        "wrong": await outcome(client.call_tool("echo", {"text": 7})),
        "unknown": await outcome(client.call_tool("missing")),
    }


async def collect_progress(client: Client) -> list[Any]:
    received: list[Any] = []

    def record_progress(progress: Any) -> None:
        received.append((progress.progress, progress.total, progress.message))

    result = await client.call_tool("slow", {"steps": 3}, progress=record_progress)
    return [*received, to_wire_form(result)["content"][0]["text"]]


async def cancel_calls(client: Client) -> FeatureResults:
    """Cancel one call, and let another time out."""
    waiting = asyncio.Event()
    call = asyncio.create_task(client.call_tool("wait_forever", progress=lambda _: waiting.set()))
    async with asyncio.timeout(WAIT_S):
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
        "after_cancelling": to_wire_form(after_cancelling)["structuredContent"],
        "timeout": timeout,
        "after_timeout": to_wire_form(await client.call_tool("counts", {"cancelled": 2}))["structuredContent"],
    }


async def call_many(client: Client) -> bool:
    texts = [f"text {number}" for number in range(40)]
    results = await asyncio.gather(*(client.call_tool("echo", {"text": text}) for text in texts))
    return [to_wire_form(result)["content"][0]["text"] for result in results] == texts


async def answer_questions(client: Client, tools: Any) -> FeatureResults:
    questions = {"ask_name": {}, "sample_haiku": {"topic": "frogs"}, "list_roots": {}}
    return {
        name: to_wire_form(await client.call_tool(name, arguments))["content"][0]["text"]
        for name, arguments in questions.items()
        if name in tools
    }


async def read_resources(client: Client) -> FeatureResults:
    return {
        "listed": [(entry.uri, entry.name) for entry in await client.resources()],
        "templates": [entry.uri_template for entry in await client.templates()],
        "static": to_wire_form(await client.read_resource("memo://static"))["contents"],
        "bytes": to_wire_form(await client.read_resource("memo://bytes"))["contents"],
        "person": to_wire_form(await client.read_resource("memo://people/ada"))["contents"],
        "missing": await outcome(client.read_resource("memo://nowhere")),
    }


async def get_prompts(client: Client) -> FeatureResults:
    prompt = {"type": "ref/prompt", "name": "greeting"}
    template = {"type": "ref/resource", "uri": "memo://people/{name}"}
    return {
        "listed": [
            (entry.name, [(argument.name, argument.required) for argument in entry.arguments or []])
            for entry in await client.prompts()
        ],
        "got": to_wire_form(await client.get_prompt("greeting", {"name": "Ada", "style": "formal"}))["messages"],
        "missing": await outcome(client.get_prompt("nowhere")),
        "style": to_wire_form(await client.complete(prompt, "style", "f"))["completion"]["values"],
        "name": to_wire_form(await client.complete(template, "name", "a"))["completion"]["values"],
    }


async def collect_changes(client: Client, callbacks: ClientCallbacks) -> FeatureResults:
    """Return the notifications of a new tool and a changed resource, while subscribed and afterwards."""
    await client.call_tool("register_tool", {"name": "hello"})
    await callbacks.wait_for(lambda change: change.kind == "tools")
    seen: FeatureResults = {"is_listed": "hello" in [tool.name for tool in await client.tools()]}
    seen["hello"] = to_wire_form(await client.call_tool("hello", {"who": "Ada"}))["content"][0]["text"]
    seen["can_watch"] = client.server_capabilities.get("resources", {}).get("subscribe", False)
    if seen["can_watch"]:
        before = to_wire_form(await client.read_resource("memo://watched"))["contents"][0]["text"]
        await client.subscribe("memo://watched")
        await client.call_tool("touch_resource")
        await callbacks.wait_for(lambda change: change.kind == "resource")
        after = to_wire_form(await client.read_resource("memo://watched"))["contents"][0]["text"]
        await client.unsubscribe("memo://watched")
        count_before = len(callbacks.changes)
        await client.call_tool("touch_resource")
        await client.call_tool("echo", {"text": "so that every earlier notification has arrived"})
        seen["watched"] = (before, after, callbacks.changes[count_before:])
    seen["received"] = list(dict.fromkeys((change.kind, change.uri) for change in callbacks.changes))
    return seen


async def outcome(work: Any) -> Any:
    """Return the result, or the code of the error."""
    try:
        return to_wire_form(await work)
    except RemoteError as error:
        return error.code


def to_wire_form(value: Any) -> Any:
    """Return a value in its wire form."""
    raw = getattr(value, "raw", None)
    return msgspec.json.decode(raw if raw is not None else msgspec.json.encode(value))
