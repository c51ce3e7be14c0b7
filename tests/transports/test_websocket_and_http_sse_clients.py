"""The client transports for WebSocket and HTTP+SSE."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.client.harness import assert_no_leaks, assert_no_unretrieved_errors
from tests.client.scripted_server import ScriptedRequest, hang, scripted_server
from tests.clock import advance_clock, wait_until

from hubbub import (
    Client,
    ConnectionClosed,
    DeadlineExceeded,
    HttpError,
    HubbubError,
    RemoteError,
    ServerConfig,
    SessionLost,
    TransportError,
    bounds,
)
from hubbub.client.config import open_transport
from hubbub.pack.http import ANY_ADDRESS, Backoff, HttpClient
from hubbub.transports.websocket_client import WebSocketTransport

INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "w"}}


class WebSocketServer:
    """A WebSocket server that can drop its clients; aiohttp's, so that our client is not tested against itself."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.methods: list[str] = []
        self.protocols: list[str | None] = []
        self.refusals_left = 0
        self.session_refusals_left = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.refusals_left:
            self.refusals_left -= 1
            return web.Response(status=503)
        socket = web.WebSocketResponse(protocols=("mcp.v1",))
        await socket.prepare(request)
        self.requests.append(request)
        self.protocols.append(socket.ws_protocol)
        async for message in socket:
            if message.type != aiohttp.WSMsgType.TEXT:
                break
            rpc = json.loads(message.data)
            self.methods.append(rpc["method"])
            result: Any = {"initialize": INITIALIZED, "tools/list": {"tools": []}}.get(rpc["method"])
            if rpc["method"] == "initialize" and self.session_refusals_left:
                self.session_refusals_left -= 1
                error = {"code": -32603, "message": "not now"}
                await socket.send_str(json.dumps({"jsonrpc": "2.0", "id": rpc["id"], "error": error}))
            elif "id" in rpc and result is not None:
                await socket.send_str(json.dumps({"jsonrpc": "2.0", "id": rpc["id"], "result": result}))
        return socket

    async def drop(self) -> None:
        for transport in [request.transport for request in self.requests]:
            if transport is not None:
                transport.abort()

    async def __aenter__(self) -> "WebSocketServer":
        application = web.Application()
        application.router.add_get("/ws", self.handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"ws://127.0.0.1:{self._runner.addresses[0][1]}/ws"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


def make_client(server: WebSocketServer, *, steps: tuple[float, ...] = (0.02,)) -> Client:
    async def headers() -> dict[str, str]:
        return {}

    def link(config: ServerConfig) -> WebSocketTransport:
        return WebSocketTransport(
            HttpClient(ANY_ADDRESS),
            str(config.url),
            headers,
            backoff=Backoff(steps, jitter=0),
            limit=bounds.RESPONSE_BYTES,
        )

    config = ServerConfig(id="w", transport="websocket", url=server.url, protocol_version="2025-11-25")
    return Client(config, link=link)


async def test_a_broken_websocket_is_reopened_with_a_new_session() -> None:
    async with assert_no_leaks(), WebSocketServer() as server, make_client(server) as client:
        assert server.protocols == ["mcp.v1"]
        assert await client.tools() == []
        waiting = asyncio.create_task(client.call_tool("slow"))
        await wait_until(lambda: "tools/call" in server.methods)
        server.refusals_left = 2
        await server.drop()
        with pytest.raises(TransportError) as raised:
            await waiting
        assert raised.value.code == "TRANSPORT_CLOSED"
        assert await client.tools() == []
        assert server.methods.count("initialize") == 2
        assert server.methods.count("tools/call") == 1


async def test_a_call_right_after_a_disconnect_is_not_repeated() -> None:
    async with assert_no_leaks(), WebSocketServer() as server, make_client(server) as client:
        await server.drop()
        await wait_until(lambda: len(server.requests) == 2)
        with pytest.raises(SessionLost):
            await client.call_tool("slow")
        assert "tools/call" not in server.methods
        assert server.methods.count("initialize") == 2


async def test_a_secret_returned_over_websocket_is_masked() -> None:
    async def echo(self: WebSocketServer, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("mcp.v1",))
        await socket.prepare(request)
        error = {"code": -32000, "message": f"not {request.headers['Authorization']}"}
        await socket.send_str(json.dumps({"jsonrpc": "2.0", "id": (await socket.receive_json())["id"], "error": error}))
        await socket.receive()
        return socket

    class Echo(WebSocketServer):
        handle = echo

    async with assert_no_leaks(), Echo() as server:
        secret = {"Authorization": "Bearer canary-4711"}
        config = ServerConfig(
            id="w", transport="websocket", url=server.url, headers=secret, protocol_version="2025-11-25"
        )
        with pytest.raises(RemoteError) as raised:
            await Client(config).start()
    assert raised.value.message == "not ***"


async def test_a_secret_returned_over_http_sse_is_masked() -> None:
    async def handle(request: ScriptedRequest) -> None:
        if request.method == "GET":
            await request.stream("event: endpoint\ndata: /post\n\n")
            await hang(request)
        elif request.path == "/post":
            await request.error(400, -32000, f"not {request.headers['authorization']}")
        else:
            await request.reply(405)

    async with assert_no_leaks(), scripted_server(handle) as server:
        secret = {"Authorization": "Bearer canary-4711"}
        with pytest.raises(RemoteError) as raised:
            await Client(ServerConfig(id="o", transport="http", url=server.url, headers=secret)).start()
    assert raised.value.message == "not ***"


async def test_a_failed_renewal_of_a_session_is_repeated_by_the_next_request() -> None:
    async with assert_no_leaks(), WebSocketServer() as server, make_client(server) as client:
        server.session_refusals_left = 1
        await server.drop()
        await wait_until(lambda: len(server.requests) == 2)
        with pytest.raises(RemoteError, match="not now"):
            await client.tools()
        assert "tools/list" not in server.methods
        assert await client.tools() == []
        assert server.methods.count("initialize") == 3


async def test_a_server_that_stays_unreachable_is_lost() -> None:
    async with assert_no_leaks(), WebSocketServer() as server, make_client(server) as client:
        server.refusals_left = 100
        await server.drop()
        error = await client.wait_lost()
        assert isinstance(error, TransportError)
        assert not client.is_open


async def test_a_server_without_websockets_is_an_error() -> None:
    async with assert_no_leaks(), scripted_server(lambda request: request.reply(404)) as server:
        config = ServerConfig(id="w", transport="ws", url=server.url.replace("http", "ws"))
        with pytest.raises(TransportError, match="status 404"):
            await Client(config).start()


# -- HTTP+SSE ------------------------------------------------------------------------


class ScriptedHttpSseServer:
    """A server of 2024-11-05; the test chooses the URL of its `endpoint` event."""

    def __init__(self, endpoint: str = "/messages?id=1") -> None:
        self.endpoint = endpoint
        self.is_silent = False
        self.streams: list[ScriptedRequest] = []

    async def __call__(self, request: ScriptedRequest) -> None:
        if request.method == "GET":
            self.streams.append(request)
            await request.stream(f"event: endpoint\ndata: {self.endpoint}\n\n")
            await hang(request)
        elif request.path.startswith("/messages"):
            await request.reply(202)
            if "id" in request.message and not self.is_silent:
                result = INITIALIZED if request.rpc == "initialize" else {"tools": []}
                await self.streams[-1].stream("event: message\n" + request.event(result))
        else:
            await request.reply(405)


async def test_http_sse_is_the_last_fallback() -> None:
    async with assert_no_leaks(), scripted_server(ScriptedHttpSseServer()) as server:
        async with Client(ServerConfig(id="o", transport="http", url=server.url)) as client:
            assert (client.era, client.server_info.name) == ("legacy", "w")
            assert await client.tools() == []
        assert [request.rpc for request in server.requests][:3] == ["server/discover", "initialize", "GET"]


async def test_an_endpoint_at_another_origin_is_refused() -> None:
    async with assert_no_leaks(), scripted_server(ScriptedHttpSseServer("http://169.254.169.254/messages")) as server:
        with pytest.raises(TransportError, match="another origin"):
            await Client(ServerConfig(id="o", transport="sse", url=server.url)).start()


async def test_the_end_of_the_stream_fails_pending_requests() -> None:
    sse_server = ScriptedHttpSseServer()
    async with assert_no_leaks(), scripted_server(sse_server) as server:
        client = await Client(ServerConfig(id="o", transport="sse", url=server.url)).start()
        sse_server.is_silent = True
        waiting = asyncio.create_task(client.tools(timeout_s=600))
        await wait_until(lambda: server.requests[-1].rpc == "tools/list")
        sse_server.streams[0].reset()
        with pytest.raises(TransportError):
            await waiting
        assert isinstance(await client.wait_lost(), TransportError)
        await client.close()


async def test_closing_while_starting_ends_the_start() -> None:
    async with assert_no_leaks(), scripted_server(hang) as server:
        for transport in ("sse", "http"):
            client = Client(ServerConfig(id="o", transport=transport, url=server.url))
            starting = asyncio.create_task(client.start())
            count = len(server.requests)
            await wait_until(lambda count=count: len(server.requests) > count)  # type: ignore[misc]
            await client.close()
            with pytest.raises((ConnectionClosed, TransportError)):
                await starting


async def test_a_server_with_neither_transport_fails_with_the_first_error() -> None:
    async with assert_no_leaks(), scripted_server(lambda request: request.reply(404, b"nothing here")) as server:
        with pytest.raises(HttpError) as raised:
            await Client(ServerConfig(id="o", transport="http", url=server.url)).start()
        assert raised.value.status == 404


# -- silent servers --------------------------------------------------------


async def never_respond(request: ScriptedRequest) -> None:
    """Accept a connection and send nothing."""
    if request.method == "POST":
        await request.reply(405)
    else:
        await hang(request)


@pytest.mark.parametrize(
    ("transport", "error"), [("sse", DeadlineExceeded), ("ws", DeadlineExceeded), ("http", HttpError)]
)
async def test_starting_with_a_silent_server_times_out(transport: str, error: type[Exception]) -> None:
    async with assert_no_leaks(), scripted_server(never_respond) as server:
        url = server.url.replace("http", "ws") if transport == "ws" else server.url
        client = Client(ServerConfig(id="o", transport=transport, url=url, timeout_s=25))
        starting = asyncio.create_task(client.start())
        await wait_until(lambda: server.count("GET") == 1)
        advance_clock(25)
        with pytest.raises(error):
            await starting
        assert server.count("GET") == 1
        assert not client.is_open


async def test_a_stream_without_an_endpoint_event_times_out() -> None:
    async def handle(request: ScriptedRequest) -> None:
        await request.stream(": hello\n\n")
        await hang(request)

    async with assert_no_leaks(), scripted_server(handle) as server:
        starting = asyncio.create_task(
            Client(ServerConfig(id="o", transport="sse", url=server.url, timeout_s=25)).start()
        )
        await wait_until(lambda: server.count("GET") == 1)
        advance_clock(25)
        with pytest.raises(DeadlineExceeded):
            await starting


async def test_a_stream_that_ends_after_a_timed_out_start_is_not_reported_as_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "ENDPOINT_EVENT_TIMEOUT_S", 0)
    ends = asyncio.Event()

    async def handle(request: ScriptedRequest) -> None:
        await request.stream(": hello\n\n")
        await ends.wait()
        request.reset()

    class Taker:
        problem = ""
        lost_error: asyncio.Future[HubbubError]

        def transport_lost(self, error: HubbubError) -> None:
            self.lost_error.set_result(error)

    async with assert_no_leaks(), assert_no_unretrieved_errors(), scripted_server(handle) as server:
        link = open_transport(ServerConfig(id="o", transport="sse", url=server.url), over_http_sse=True)
        receiver = Taker()
        receiver.lost_error = asyncio.get_running_loop().create_future()
        with pytest.raises(TransportError, match="no `endpoint` event"):
            await link.start(receiver)  # type: ignore[arg-type]
        ends.set()
        assert isinstance(await receiver.lost_error, TransportError)
        await link.close()
        del link, receiver


async def test_a_handshake_without_a_response_is_a_connection_error() -> None:
    async with assert_no_leaks(), scripted_server(never_respond) as server:
        url = server.url.replace("http", "ws")
        starting = asyncio.create_task(Client(ServerConfig(id="w", transport="ws", url=url, open_timeout_s=5)).start())
        await wait_until(lambda: server.count("GET") == 1)
        advance_clock(5)
        with pytest.raises(TransportError, match="did not open a WebSocket within 5 s") as raised:
            await starting
        assert not raised.value.may_have_executed
