"""The response mode: JSON or a stream, and the cases in which the setting has no effect."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hubbub import Server, bounds
from hubbub.server.http.endpoint import Endpoint
from hubbub.server.http.post_headers import ResponseMode
from hubbub.transports.asgi import AsgiExchange

DEADLINE_S = 60.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class PostExchange:
    """One open POST request, as an ASGI server passes it to the app."""

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        self._received = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self._sent: asyncio.Queue[Any] = asyncio.Queue()
        self._left = asyncio.Event()
        headers = {
            "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
        }
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }

    async def receive(self) -> Any:
        if self._received:
            return self._received.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self._sent.put_nowait(message)

    def leave(self) -> None:
        self._left.set()

    async def next(self) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            return await self._sent.get()


@contextlib.asynccontextmanager
async def open_post(
    server: Server, mode: ResponseMode, method: str, params: dict[str, Any] | None = None
) -> AsyncIterator[PostExchange]:
    exchange = PostExchange(method, params or {})
    endpoint = Endpoint(server, mode=mode)

    async def serve() -> None:
        await endpoint.serve(AsgiExchange(exchange.scope, exchange.receive, exchange.send, bounds.MESSAGE_BYTES))

    async with server.running():
        task = asyncio.ensure_future(serve())
        try:
            yield exchange
        finally:
            exchange.leave()
            async with asyncio.timeout(DEADLINE_S):
                await task


def content_type(start: Any) -> bytes:
    return bytes(dict(start["headers"])[b"content-type"])


@pytest.mark.parametrize("mode", ["auto", "json", "sse"])
def test_a_listen_request_gets_a_stream_in_every_response_mode(mode: ResponseMode) -> None:
    async def scenario() -> None:
        server = Server("changing")
        wanted = {"notifications": {"toolsListChanged": True}}
        async with open_post(server, mode, "subscriptions/listen", wanted) as exchange:
            assert content_type(await exchange.next()) == b"text/event-stream"
            assert b"notifications/subscriptions/acknowledged" in (await exchange.next())["body"]
            server.tool(name="late", description="Registered late.")(lambda: "late")
            assert b"notifications/tools/list_changed" in (await exchange.next())["body"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("mode", "kind"), [("auto", b"application/json"), ("sse", b"text/event-stream")])
def test_the_response_mode_decides_the_content_type(mode: ResponseMode, kind: bytes) -> None:
    async def scenario() -> None:
        async with open_post(Server("quiet"), mode, "tools/list") as exchange:
            start = await exchange.next()
            assert (start["status"], content_type(start)) == (200, kind)

    asyncio.run(scenario())


@pytest.mark.parametrize("mode", ["auto", "json", "sse"])
def test_an_error_has_its_http_status_in_every_response_mode(mode: ResponseMode) -> None:
    async def scenario() -> None:
        async with open_post(Server("quiet"), mode, "unknown/method") as exchange:
            start = await exchange.next()
            assert (start["status"], content_type(start)) == (404, b"application/json")
            assert json.loads((await exchange.next())["body"])["error"]["code"] == -32601

    asyncio.run(scenario())
