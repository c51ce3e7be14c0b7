"""The demo pack against contract 001, byte for byte where the contract gives bytes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hubbub import Server, __version__
from hubbub.assembly.pack_installation import install_pack
from hubbub.packs.demo import pack
from hubbub.server.connection import Connection

HELLO = (
    b'{"name":"hello-world","description":"Returns a simple greeting message",'
    b'"inputSchema":{"type":"object","properties":{},"additionalProperties":false}}'
)
ECHO = (
    b'{"name":"echo","description":"Echoes back the provided text","inputSchema":{"type":"object","properties":'
    b'{"text":{"type":"string","description":"Text to echo back"}},"required":["text"],"additionalProperties":false}}'
)
WELCOME = (
    b'{"resources":[{"uri":"prompt://welcome","name":"Welcome Prompt",'
    b'"description":"Welcome message and usage instructions","mimeType":"text/plain"}]}'
)


class Response(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


SendRequest = Callable[..., Awaitable[Response]]


def run_conversation(conversation: Callable[[SendRequest], Awaitable[None]]) -> None:
    """Let a plain JSON-RPC client talk to a server with the demo pack, in memory."""

    async def main() -> None:
        server = Server("hubbub", version=__version__)
        install_pack(server, pack, None)
        responses: asyncio.Queue[bytes] = asyncio.Queue()
        async with server.running(), asyncio.timeout(60):
            connection = Connection(server, responses.put_nowait)

            async def ask(method: str, **params: Any) -> Response:
                request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                connection.receive(msgspec.json.encode(request))
                return msgspec.json.decode(await responses.get(), type=Response)

            await conversation(ask)
            await connection.close()

    asyncio.run(main())


def test_the_list_is_the_contracts() -> None:
    async def conversation(ask: SendRequest) -> None:
        response = await ask("tools/list")
        tools = msgspec.json.decode(response.result, type=dict[str, list[msgspec.Raw]])["tools"]
        assert [bytes(tool) for tool in tools[:2]] == [HELLO, ECHO]
        assert [json.loads(bytes(tool))["name"] for tool in tools] == ["hello-world", "echo", "health"]

    run_conversation(conversation)


def test_echo_answers_as_in_the_contract() -> None:
    async def conversation(ask: SendRequest) -> None:
        response = await ask("tools/call", name="echo", arguments={"text": "Hello, MCP!"})
        expected = rb'{"content":[{"type":"text","text":"{\n  \"echo\": \"Hello, MCP!\"\n}"}]}'
        assert bytes(response.result) == expected

    run_conversation(conversation)


def test_hello_world_takes_nothing() -> None:
    async def conversation(ask: SendRequest) -> None:
        response = await ask("tools/call", name="hello-world")
        assert "Hello, World!" in json.loads(bytes(response.result))["content"][0]["text"]
        refused = await ask("tools/call", name="hello-world", arguments={"name": "x"})
        assert json.loads(bytes(refused.error))["code"] == -32003

    run_conversation(conversation)


def test_health_tells_name_version_and_uptime() -> None:
    async def conversation(ask: SendRequest) -> None:
        response = await ask("tools/call", name="health")
        health = json.loads(json.loads(bytes(response.result))["content"][0]["text"])
        assert health["status"] == "healthy"
        assert (health["name"], health["version"]) == ("hubbub", __version__)
        assert health["uptime_s"] >= 0
        assert health["timestamp"].endswith("Z")

    run_conversation(conversation)


def test_the_welcome_is_listed_and_read() -> None:
    async def conversation(ask: SendRequest) -> None:
        assert bytes((await ask("resources/list")).result) == WELCOME
        (contents,) = json.loads(bytes((await ask("resources/read", uri="prompt://welcome")).result))["contents"]
        assert (contents["uri"], contents["mimeType"]) == ("prompt://welcome", "text/plain")
        assert contents["text"].startswith("Welcome to")

    run_conversation(conversation)


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    async def conversation(ask: SendRequest) -> None:
        error = json.loads(bytes((await ask("tools/call", name="unknown-tool")).error))
        assert error == {
            "code": -32000,
            "message": "Tool not found",
            "data": {"toolName": "unknown-tool", "availableTools": ["hello-world", "echo", "health"]},
        }

    run_conversation(conversation)
