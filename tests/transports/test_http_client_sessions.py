"""Sessions of the Streamable HTTP client: opening, loss, renewal and end."""

import asyncio
import itertools

import pytest
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import Handler, ScriptedRequest, hang, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.transports.http_configs import handle_method, make_config

from hubbub import Client, ConnectionClosed, DeadlineExceeded, RemoteError, SessionLost, TransportError, bounds


async def test_a_server_request_during_initialization_is_answered_in_the_new_session() -> None:
    async def handle(request: ScriptedRequest) -> None:
        await request.stream('data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n', mcp_session_id="s1")
        await wait_until(lambda: server.count("answer") == 1)
        await request.stream(request.event({"protocolVersion": "2025-11-25", "capabilities": {}}))

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle_method("initialize", handle))) as server,
        Client(make_config(server)),
    ):
        assert server.all("answer")[0].headers["mcp-session-id"] == "s1"


async def test_an_invalid_session_id_is_refused() -> None:
    async def handle(request: ScriptedRequest) -> None:
        await request.result({"protocolVersion": "2025-11-25"}, mcp_session_id="a b")

    async with assert_no_leaks(), scripted_server(handle) as server:
        with pytest.raises(TransportError, match="session id"):
            await Client(make_config(server)).start()


# -- lost sessions ---------------------------------------------------------------------


def lose_first_session(lost: str, status: int = 404, body: bytes = b"") -> tuple[Handler, list[int]]:
    """Forgets its first session when a method is called."""
    sessions = itertools.count(1)
    renewed: list[int] = []

    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "initialize":
            number = next(sessions)
            renewed.append(number)
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "f"}}
            await request.result(result, mcp_session_id=f"s{number}")
        elif request.rpc == lost and request.headers.get("mcp-session-id") == "s1":
            await request.reply(status, body)
        else:
            raise NotImplementedError

    return handle, renewed


@pytest.mark.parametrize(
    ("status", "answer"),
    [(404, b""), (404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'),
     (400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID"}}')],
)  # fmt: skip
async def test_a_lost_session_is_renewed_once_and_lists_are_repeated(status: int, answer: bytes) -> None:
    handler, renewed = lose_first_session("tools/list", status, answer)
    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handler)) as server,
        Client(make_config(server)) as client,
    ):
        results = await asyncio.gather(*(client.tools() for _ in range(20)))
        assert all(len(tools) == 1 for tools in results)
        assert renewed == [1, 2]
        assert server.all("initialize")[1].headers.get("mcp-session-id") is None


async def test_a_call_on_a_lost_session_is_not_repeated() -> None:
    handler, renewed = lose_first_session("tools/call")
    async with scripted_server(legacy_handler(handler)) as server, Client(make_config(server)) as client:
        with pytest.raises(SessionLost) as raised:
            await client.call_tool("echo")
        assert raised.value.code == "MCP_SESSION_NOT_FOUND"
        assert server.count("tools/call") == 1
        assert renewed == [1, 2]
        assert (await client.call_tool("echo")).text == "called"


async def test_losing_the_session_twice_is_an_error() -> None:
    handler = legacy_handler(handle_method("tools/list", lambda request: request.reply(404)))
    async with scripted_server(handler) as server, Client(make_config(server)) as client:
        with pytest.raises(SessionLost):
            await client.tools()
        assert server.count("tools/list") == 2


async def _unavailable(request: ScriptedRequest) -> None:
    await request.reply(503)


async def _refused(request: ScriptedRequest) -> None:
    await request.error(200, -32603, mcp_session_id="never")


async def _broken(request: ScriptedRequest) -> None:
    request.reset()


@pytest.mark.parametrize("fail", [_unavailable, _refused, _broken])
async def test_a_failed_renewal_of_a_session_is_repeated_by_the_next_request(fail: Handler) -> None:
    opened: list[str] = []

    async def handle(request: ScriptedRequest) -> None:
        session = request.headers.get("mcp-session-id")
        if request.rpc == "initialize" and len(opened) == 1:
            opened.append("none")
            await fail(request)
        elif request.rpc == "initialize":
            opened.append(f"s{len(opened)}")
            await legacy_handler(session=opened[-1])(request)
        elif request.rpc == "tools/list" and session != "s2":
            await request.reply(404 if session == "s0" else 400)
        else:
            raise NotImplementedError

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle)) as server,
        Client(make_config(server)) as client,
    ):
        with pytest.raises((TransportError, RemoteError)):
            await client.tools()
        assert len(await client.tools()) == 1
        assert opened == ["s0", "none", "s2"]
        assert [request.headers.get("mcp-session-id") for request in server.all("tools/list")] == ["s0", "s0", "s2"]
        assert all("mcp-session-id" not in request.headers for request in server.all("initialize"))
        assert all("mcp-protocol-version" not in request.headers for request in server.all("initialize"))


def hang_on_renewal() -> Handler:
    """Forgets its first session, and does not answer the second `initialize`."""
    opened = itertools.count()

    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "initialize" and next(opened) > 0:
            await hang(request)
        elif request.rpc in ("tools/list", "tools/call"):
            await request.reply(404)
        else:
            raise NotImplementedError

    return legacy_handler(handle)


async def test_a_hanging_renewal_is_shared_by_all_waiting_requests() -> None:
    async with (
        assert_no_leaks(),
        scripted_server(hang_on_renewal()) as server,
        Client(make_config(server, timeout_s=20)) as client,
    ):
        calls = [*(client.tools() for _ in range(6)), *(client.call_tool("echo") for _ in range(6))]
        waiting = asyncio.gather(*calls, return_exceptions=True)
        await wait_until(lambda: server.count("tools/list") == server.count("tools/call") == 6)
        await wait_until(lambda: server.count("initialize") == 2)
        await yield_to_loop()  # until every answer is there, which sends its caller into the line
        advance_clock(20)
        outcomes = await waiting
        assert all(isinstance(outcome, DeadlineExceeded) for outcome in outcomes[:6])
        assert all(isinstance(outcome, SessionLost) for outcome in outcomes[6:])
        assert server.count("initialize") == 2


async def test_waiting_for_a_renewal_respects_the_timeout_of_the_request() -> None:
    async with (
        assert_no_leaks(),
        scripted_server(hang_on_renewal()) as server,
        Client(make_config(server, timeout_s=60)) as client,
    ):
        patient = asyncio.create_task(client.tools())
        await wait_until(lambda: server.count("initialize") == 2)
        call = asyncio.create_task(client.call_tool("echo", timeout_s=5))  # It is not sent: it waits for the session.
        listing = asyncio.create_task(client.list_tools(timeout_s=5))
        await asyncio.sleep(0)
        advance_clock(5)
        with pytest.raises(DeadlineExceeded, match="5 s"):
            await call
        with pytest.raises(DeadlineExceeded):
            await listing
        assert not patient.done()
        assert server.count("initialize") == 2
        assert server.count("tools/call") == 0
        assert client.is_open
        assert client.revision.version == "2025-11-25"
    with pytest.raises(ConnectionClosed):
        await patient


async def test_a_call_that_waited_for_a_failed_renewal_was_not_sent() -> None:
    may_fail = asyncio.Event()

    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "initialize" and server.count("initialize") > 1:
            await may_fail.wait()
            await request.reply(503)
        elif request.rpc == "tools/list":
            await request.reply(404)
        else:
            raise NotImplementedError

    async with scripted_server(legacy_handler(handle)) as server, Client(make_config(server)) as client:
        listing = asyncio.create_task(client.tools())
        await wait_until(lambda: server.count("initialize") == 2)
        calling = asyncio.create_task(client.call_tool("echo"))
        await asyncio.sleep(0)
        may_fail.set()
        with pytest.raises(TransportError, match="a new one failed") as raised:
            await calling
        assert raised.value.may_have_executed is False
        assert server.count("tools/call") == 0
        with pytest.raises(TransportError):
            await listing


async def test_an_unknown_method_does_not_mean_a_lost_session() -> None:
    handler = legacy_handler(handle_method("ping", lambda request: request.error(404, -32601, "Method not found")))
    async with scripted_server(handler) as server, Client(make_config(server)) as client:
        with pytest.raises(RemoteError) as raised:
            await client.ping()
        assert raised.value.code == -32601
        assert server.count("initialize") == 1


# -- the end ---------------------------------------------------------------------------


async def test_closing_fails_waiting_requests_and_deletes_the_session() -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("tools/call", hang))) as server:
        client = await Client(make_config(server)).start()
        call = asyncio.create_task(client.call_tool("echo", timeout_s=3600))
        await wait_until(lambda: server.count("tools/call") == 1)
        await client.close()
        with pytest.raises(ConnectionClosed):
            await call
        assert server.count("DELETE") == 1
        await client.close()
        assert server.count("DELETE") == 1


async def test_connections_are_closed_when_closing_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "POOLED_CONNECTION_IDLE_S", 3600)
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("DELETE", hang))) as server:
        client = await Client(make_config(server)).start()
        closing = asyncio.create_task(client.close())
        await wait_until(lambda: server.count("DELETE") == 1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await wait_until(
            lambda: all(request.writer.is_closing() for request in server.requests if request.method == "POST")
        )


@pytest.mark.requirement("L5")
async def test_closing_is_bounded_when_the_server_hangs() -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("DELETE", hang))) as server:
        client = await Client(make_config(server)).start()
        closing = asyncio.create_task(client.close())
        await wait_until(lambda: server.count("DELETE") == 1)
        advance_clock(bounds.CLOSE_TIMEOUT_S)
        await closing
