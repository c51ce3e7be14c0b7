"""Every message of a server, validated with the official wire types of each revision."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from mcp_types import methods
from msgspec import Meta
from tests.server.raw_client import LEGACY, MODERN, connect_raw_client

from hubbub import (
    Annotations,
    Audio,
    CacheHint,
    Context,
    EmbeddedResource,
    Icon,
    Image,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    Server,
    Text,
    ToolAnnotations,
)

VERSIONS = (*LEGACY, MODERN)


@dataclass
class Form:
    """Every kind of field that a form may have."""

    name: Annotated[str, Meta(description="Your name", max_length=20)]
    age: Annotated[int, Meta(ge=0)] = 3
    height: float = 1.5
    agrees: bool = False
    colour: Literal["red", "green"] = "red"


@dataclass
class Weather:
    city: str
    degrees: float
    tags: list[str]


def rich_server() -> Server:
    server = Server("rich", version="2.1", title="Rich", instructions="Ask away.", cache=CacheHint(60_000, public=True))

    @server.tool(
        title="Weather",
        annotations=ToolAnnotations("Weather", read_only_hint=True, open_world_hint=False),
        icons=[Icon("https://example.com/icon.png", "image/png", ["48x48"])],
        meta={"example/key": 1},
    )
    async def weather(city: str, days: Annotated[int, Meta(ge=1, le=5)] = 3) -> Weather:
        """Weather of a city."""
        return Weather(city, 18.5, ["sunny"])

    @server.tool
    async def number() -> int:
        return 5

    @server.tool
    async def contents() -> list[Any]:
        hints = Annotations(["user"], 0.5, "2026-01-01T00:00:00Z")
        return [
            Text("text", annotations=hints),
            Image(b"png"),
            Audio(b"wav"),
            EmbeddedResource(ResourceContents("file:///a", "text/plain", text="a")),
            EmbeddedResource(ResourceContents("file:///b", blob=b"b")),
            ResourceLink("file:///c", "C", title="Sea", description="a link", mime_type="text/plain", size=3),
        ]

    @server.tool
    async def nothing() -> None:
        pass

    @server.tool
    async def fails() -> str:
        raise RuntimeError("broken")

    @server.tool
    async def busy(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        await ctx.error({"what": "log"})
        return "done"

    @server.tool
    async def asks(ctx: Context) -> str:
        await ctx.elicit("Please", Form, key="form")
        return "done"

    @server.tool
    async def asks_by_schema(ctx: Context) -> str:
        await ctx.elicit_schema("Please", {"type": "object", "properties": {"a": {"type": "string"}}}, key="schema")
        return "done"

    @server.tool
    async def opens(ctx: Context) -> str:
        await ctx.elicit_url("Please", "https://example.com/", key="url")
        return "done"

    @server.tool
    async def samples(ctx: Context) -> str:
        return (await ctx.sample("Hi", max_tokens=5, system="Be brief", temperature=0.5, key="model")).text

    @server.tool
    async def looks(ctx: Context) -> str:
        return str(len(await ctx.roots(key="roots")))

    @server.resource("file:///a", title="A", description="First", annotations=Annotations(priority=1.0))
    async def a() -> str:
        return "a"

    @server.resource("file:///b", mime_type="image/png")
    async def b() -> bytes:
        return b"b"

    @server.resource("file:///{name}.txt", title="Template", mime_type="text/plain")
    async def template(name: str) -> str:
        return name

    @server.prompt(title="Prompt", icons=[Icon("https://example.com/icon.png")])
    async def prompt(topic: str, tone: str = "dry") -> list[Any]:
        """Write."""
        return [f"{tone}: {topic}", PromptMessage("assistant", Audio(b"wav")), ResourceLink("file:///a", "A")]

    @server.completion("prompt", "tone")
    async def tone(value: str) -> list[str]:
        return ["dry", "warm"]

    return server


EVERYWHERE = [
    ("tools/list", {}),
    ("tools/call", {"name": "weather", "arguments": {"city": "Paris"}}),
    ("tools/call", {"name": "weather", "arguments": {"city": 5}}),
    *[("tools/call", {"name": name}) for name in ("number", "contents", "nothing", "fails", "busy")],
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "file:///a"}),
    ("resources/read", {"uri": "file:///b"}),
    ("resources/read", {"uri": "file:///c.txt"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "prompt", "arguments": {"topic": "x"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "tone", "value": ""}},
    ),
]
IN_SESSIONS = [
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}),
    ("ping", {}),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "file:///a"}),
    ("resources/unsubscribe", {"uri": "file:///a"}),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "params"), EVERYWHERE + IN_SESSIONS)
async def test_a_result_has_the_official_shape(version: str, method: str, params: dict[str, Any]) -> None:
    if (method, params) in IN_SESSIONS and version == MODERN:
        params = {}
        method = "server/discover"
    async with connect_raw_client(rich_server(), version) as client:
        result = await client.result(method, params)
    methods.parse_server_result(method, version, result)


# What the official types do not judge: they know two eras, and ignore what they do not know.
NOT_BEFORE = {
    "structuredContent": "2025-06-18",
    "outputSchema": "2025-06-18",
    "annotations": "2025-03-26",
    "title": "2025-06-18",
    "icons": "2025-11-25",
    "resultType": MODERN,
    "ttlMs": MODERN,
    "cacheScope": MODERN,
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "params"), EVERYWHERE)
async def test_a_result_has_no_members_of_later_revisions(version: str, method: str, params: dict[str, Any]) -> None:
    async with connect_raw_client(rich_server(), version) as client:
        result = await client.result(method, params)
    entries = [entry for value in result.values() if isinstance(value, list) for entry in value]
    members = set(result).union(*entries) if method.endswith("/list") else set(result)
    too_new = {member for member, since in NOT_BEFORE.items() if since > version} & members
    if method in ("resources/list", "resources/templates/list"):
        too_new.discard("annotations")  # resources had them from the start
    assert not too_new


@pytest.mark.parametrize("version", LEGACY)
async def test_server_info_has_the_fields_of_the_revision(version: str) -> None:
    async with connect_raw_client(rich_server()) as client:
        info = (await client.result("initialize", {"protocolVersion": version}))["serverInfo"]
    title = {"title": "Rich"} if version >= "2025-06-18" else {}
    assert info == {"name": "rich", "version": "2.1"} | title


@pytest.mark.parametrize("version", VERSIONS)
async def test_content_has_only_the_types_of_its_revision(version: str) -> None:
    known = {"text", "image", "resource"}
    known |= {"audio"} if version >= "2025-03-26" else set()
    known |= {"resource_link"} if version >= "2025-06-18" else set()
    async with connect_raw_client(rich_server(), version) as client:
        called = (await client.call("contents"))["content"]
        messages = (await client.result("prompts/get", {"name": "prompt", "arguments": {"topic": "x"}}))["messages"]
    kinds = {item["type"] for item in called} | {message["content"]["type"] for message in messages}
    assert kinds == known


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_notification_has_the_official_shape(version: str) -> None:
    server = rich_server()
    async with connect_raw_client(server, version) as client:
        if version == MODERN:
            everything = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
            wanted = {"notifications": everything | {"resourceSubscriptions": ["file:///a"]}}
            client.send_request("subscriptions/listen", wanted, id="listen")
        else:
            await client.result("resources/subscribe", {"uri": "file:///a"})
        meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
        await client.call("busy", meta=meta if version == MODERN else {"progressToken": 1})
        server.tools.unregister("number")
        server.remove_prompt("prompt")
        server.resources.remove("file:///b")
        server.resource_updated("file:///a")
        await client.wait_until_idle()
        server.broadcaster.end_subscriptions()
        await asyncio.sleep(0)
        await client.wait_until_idle()
        received = [(message["method"], message.get("params")) for message in client.received]
    assert len({method for method, _ in received}) == (8 if version == MODERN else 6)
    for method, params in received:
        methods.parse_server_notification(method, version, params)
    if version == MODERN:
        methods.parse_server_result("subscriptions/listen", version, client.responses['"listen"']["result"])


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize(
    ("tool", "since"),
    [
        ("asks", "2025-06-18"),
        ("asks_by_schema", "2025-06-18"),
        ("opens", "2025-11-25"),
        ("samples", "2024-11-05"),
        ("looks", "2024-11-05"),
    ],
)
async def test_a_client_request_in_a_session_has_the_official_shape(version: str, tool: str, since: str) -> None:
    async with connect_raw_client(rich_server(), version) as client:
        identifier = client.send_request("tools/call", {"name": tool})
        message = await client.next_message()
        if version < since:
            assert message["result"]["isError"] is True
            return
        assert message["id"] != identifier
        methods.parse_server_request(message["method"], version, message["params"])


@pytest.mark.parametrize("tool", ["asks", "asks_by_schema", "opens", "samples", "looks"])
async def test_an_input_request_to_a_modern_client_has_the_official_shape(tool: str) -> None:
    async with connect_raw_client(rich_server(), MODERN) as client:
        result = await client.call(tool)
    parsed = methods.parse_server_result("tools/call", MODERN, result)
    assert methods.is_input_required(parsed)
    assert not isinstance(parsed, dict)
    assert set(parsed.input_requests or ()) == set(result["inputRequests"])
