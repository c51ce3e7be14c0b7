"""An app that is mounted below a prefix in FastAPI and Starlette: paths, links, cookies, checks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.http.raw_http import TIMEOUT_S, call
from tests.server.asgi_exchange import AsgiExchange

from hubbub import AsgiApp, Hub, Server, ViewSettings

PREFIX = "/api/tools"


def fastapi(app: AsgiApp) -> FastAPI:
    parent = FastAPI()
    parent.mount(PREFIX, app)
    return parent


def nested(app: AsgiApp) -> Starlette:
    inner = Starlette(routes=[Mount("/tools", app)])
    return Starlette(routes=[Mount("/api", inner)])


def routes(app: AsgiApp) -> Starlette:
    return Starlette(routes=[Mount("/api", routes=[Mount("/tools", app)])])


def behind_a_stripping_proxy(app: AsgiApp) -> Any:
    """Clients see `/api/tools`; a proxy removes `/api`, and hypercorn has `--root-path /api`."""
    parent = FastAPI()
    parent.mount("/tools", app)

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await parent({**scope, "root_path": "/api"}, receive, send)

    return serve


class Site:
    """A hub with one view, mounted; paths are those that clients see."""

    def __init__(self, make_parent: Any) -> None:
        server = Server("shop")

        @server.tool
        async def echo(text: str) -> str:
            return text

        self.app = Hub([server], views={"few": ViewSettings()}).asgi()
        self._parent = make_parent(self.app)
        self._stripped = "/api" if make_parent is behind_a_stripping_proxy else ""

    def exchange(self, path: str, **scope: Any) -> AsgiExchange:
        return AsgiExchange(path.removeprefix(self._stripped), **scope)

    async def ask(self, path: str, body: Any = None, **scope: Any) -> AsgiExchange:
        return await self.exchange(path, **scope).run(self._parent, body)

    async def get(self, path: str, **scope: Any) -> AsgiExchange:
        return await self.ask(path, method="GET", **scope)

    @asynccontextmanager
    async def serving(self, exchange: AsgiExchange, *incoming: Any) -> AsyncIterator[AsgiExchange]:
        """Keep a stream or WebSocket open during the block."""
        for message in incoming:
            exchange.incoming.put_nowait(message)
        serving = asyncio.create_task(self._parent(exchange.scope, exchange.incoming.get, exchange.send))
        try:
            yield exchange
        finally:
            exchange.incoming.put_nowait({"type": f"{exchange.scope['type']}.disconnect"})
            await serving


async def sent(exchange: AsgiExchange, count: int) -> list[Any]:
    """Wait until this number of messages was sent."""
    async with asyncio.timeout(TIMEOUT_S):
        while len(exchange.sent) < count:
            await asyncio.sleep(0)
    return exchange.sent


@pytest.fixture(params=[fastapi, nested, routes, behind_a_stripping_proxy])
def site(request: pytest.FixtureRequest) -> Site:
    return Site(request.param)


async def test_every_route_is_below_the_prefix(site: Site) -> None:
    async with site.app.lifespan():
        for path in ("/", "/health", "/mcp/health", "/metrics"):
            assert (await site.get(PREFIX + path)).status == 200, path
        for path in ("/mcp", "/mcp/few"):
            answer = await site.ask(PREFIX + path, call("echo", {"text": "hi"}))
            assert "hi" in str(answer.json["result"])
        assert (await site.ask("/mcp", call("echo", {"text": "hi"}))).status == 404


async def test_links_and_cookies_carry_the_prefix(site: Site) -> None:
    async with site.app.lifespan():
        about = await site.get(f"{PREFIX}/")
        assert about.json["endpoints"] == {"health": f"{PREFIX}/health", "mcp": f"{PREFIX}/mcp"}
        plain = await site.ask(f"{PREFIX}/mcp", call("echo", {"text": "hi"}))
        assert f"; Path={PREFIX};".encode() in plain.headers[b"set-cookie"]
        nowhere = await site.get(f"{PREFIX}/nowhere")
        assert nowhere.status == 404
        for path in ("/mcp,", "/health", "/mcp/few", "/mcp-ws"):
            assert PREFIX + path in nowhere.json["error"]["message"]


async def test_the_oldest_transport_posts_below_the_prefix(site: Site) -> None:
    async with site.app.lifespan():
        stream = site.exchange(f"{PREFIX}/sse", method="GET")
        async with site.serving(stream, {"type": "http.request"}):
            _, first = await sent(stream, 2)
            assert first["body"].startswith(f"event: endpoint\ndata: {PREFIX}/messages?session_id=".encode())
            target, _, query = first["body"].decode().split("data: ")[1].strip().partition("?")
            posted = await site.ask(target, call("echo", {"text": "hi"}), query_string=query.encode())
            assert posted.status == 202
            assert b"hi" in (await sent(stream, 3))[2]["body"]


async def test_websockets_are_below_the_prefix(site: Site) -> None:
    async with site.app.lifespan():
        socket = site.exchange(f"{PREFIX}/mcp-ws", type="websocket")
        request = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}'
        incoming = ({"type": "websocket.connect"}, {"type": "websocket.receive", "text": request.decode()})
        async with site.serving(socket, *incoming):
            accept, answer = await sent(socket, 2)
            assert accept["type"] == "websocket.accept"
            assert "hi" in answer["text"]
        extensions: dict[str, Any] = {"websocket.http.response": {}}
        wrong = await site.ask(f"{PREFIX}/mcp", type="websocket", extensions=extensions)
        assert wrong.sent[1]["body"] == f"No WebSocket at this path; connect to {PREFIX}/mcp-ws".encode()


@pytest.mark.parametrize(
    "headers",
    [[(b"host", b"evil.example")], [(b"host", b"localhost"), (b"origin", b"https://evil.example")]],
)
async def test_host_and_origin_are_checked_below_the_prefix(site: Site, headers: list[tuple[bytes, bytes]]) -> None:
    async with site.app.lifespan():
        headers = [*headers, (b"content-type", b"application/json")]
        assert (await site.ask(f"{PREFIX}/mcp", call("echo", {"text": "hi"}), headers=headers)).status == 403
        assert (await site.get(f"{PREFIX}/sse", headers=headers)).status == 403
        socket = await site.ask(f"{PREFIX}/mcp-ws", type="websocket", headers=headers)
        assert socket.sent == [{"type": "websocket.close", "code": 1008}]
