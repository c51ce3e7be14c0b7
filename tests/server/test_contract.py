"""The examples of contract 001 (docs/decisions/0008) for plain callers, compared byte by byte."""

from typing import Annotated, Any

import pytest
from msgspec import Meta
from tests.server.raw_transport import RawTransport

from hubbub import ProvidedResource, ResourceDetails, Server

WELCOME = "Welcome to the MCP TypeScript Server!..."


class Prompts:
    """A provider as the contract describes it."""

    def list_resources(self) -> list[ResourceDetails]:
        return [
            ResourceDetails(
                "prompt://welcome", "Welcome Prompt", "Welcome message and usage instructions", "text/plain"
            )
        ]

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        if uri != "prompt://welcome":
            return None
        return ProvidedResource(uri, "Welcome Prompt", mime_type="text/plain", content=WELCOME)


def dingdong() -> Server:
    server = Server("dingdong-mcp")

    @server.tool(name="hello-world", description="Returns a simple greeting message")
    async def hello_world() -> dict[str, Any]:
        return {"message": "Hello, World!"}

    @server.tool(description="Echoes back the provided text")
    async def echo(text: Annotated[str, Meta(description="Text to echo back")]) -> dict[str, Any]:
        return {"echo": text}

    @server.tool
    async def health() -> dict[str, Any]:
        raise RuntimeError("unwell")

    server.add_resources(Prompts())
    return server


HELLO_WORLD = (
    '{"name":"hello-world","description":"Returns a simple greeting message",'
    '"inputSchema":{"type":"object","properties":{},"additionalProperties":false}}'
)
ECHO = (
    '{"name":"echo","description":"Echoes back the provided text","inputSchema":{"type":"object",'
    '"properties":{"text":{"type":"string","description":"Text to echo back"}},'
    '"required":["text"],"additionalProperties":false}}'
)
HEALTH = '{"name":"health","inputSchema":{"type":"object","properties":{},"additionalProperties":false}}'


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (
            '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
            f'{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{HELLO_WORLD},{ECHO},{HEALTH}]}}}}',
        ),
        (
            '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":'
            '{"name":"echo","arguments":{"text":"Hello, MCP!"}}}',
            '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text",'
            r'"text":"{\n  \"echo\": \"Hello, MCP!\"\n}"}]}}',
        ),
        (
            '{"jsonrpc":"2.0","id":3,"method":"resources/list"}',
            '{"jsonrpc":"2.0","id":3,"result":{"resources":[{"uri":"prompt://welcome","name":"Welcome Prompt",'
            '"description":"Welcome message and usage instructions","mimeType":"text/plain"}]}}',
        ),
        (
            '{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"prompt://welcome"}}',
            '{"jsonrpc":"2.0","id":4,"result":{"contents":[{"uri":"prompt://welcome","mimeType":"text/plain",'
            f'"text":"{WELCOME}"}}]}}}}',
        ),
        (
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"unknown-tool"}}',
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Tool not found","data":'
            '{"toolName":"unknown-tool","availableTools":["hello-world","echo","health"]}}}',
        ),
        (
            '{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"prompt://farewell"}}',
            '{"jsonrpc":"2.0","id":5,"error":{"code":-32001,"message":"Resource not found",'
            '"data":{"uri":"prompt://farewell"}}}',
        ),
        (
            '{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"health"}}',
            '{"jsonrpc":"2.0","id":6,"error":{"code":-32002,"message":"unwell"}}',
        ),
        (
            '{"jsonrpc":"2.0","id":"7","method":"echo","params":{"text":"as a method"}}',
            '{"jsonrpc":"2.0","id":"7","result":{"echo":"as a method"}}',
        ),
        (
            '{"jsonrpc":"2.0","id":8,"method":"hello-world"}',
            '{"jsonrpc":"2.0","id":8,"result":{"message":"Hello, World!"}}',
        ),
        (
            '{"jsonrpc":"2.0","id":9,"method":"no-such-method"}',
            '{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"Method not found: no-such-method"}}',
        ),
    ],
)
async def test_documented_examples_are_answered_with_the_exact_bytes(request_: str, answer: str) -> None:
    async with RawTransport(dingdong()) as link:
        link.send(request_.encode())
        assert (await link.receive()).decode() == answer


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":', -32700),
        ('{"jsonrpc":"2.0","id":1}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"resources/read"}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":5}}}', -32003),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}', -32003),
        ('{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"a","more":1}}', -32003),
    ],
)
async def test_failures_have_the_documented_codes(request_: str, code: int) -> None:
    async with RawTransport(dingdong()) as link:
        link.send(request_.encode())
        assert f'"code":{code},' in (await link.receive()).decode()
