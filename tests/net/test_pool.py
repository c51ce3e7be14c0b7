"""The connection pool: opening, limits, failures and closing of connections."""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import pytest
import uvloop
from tests.client.harness import assert_no_leaks
from tests.clock import wait_until, yield_to_loop
from tests.net.raw_server import OK, open_client, run_raw_server, send_request

from hubbub import ConnectionFailed, TransportError, bounds
from hubbub.net.client import EgressGuard
from hubbub.net.egress_rules import NO_RULES
from hubbub.net.pool import ConnectionPool
from hubbub.pack.http import ANY_ADDRESS, HttpClient

MakeLoop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
LOOPS = [asyncio.SelectorEventLoop, uvloop.new_event_loop]
_REPEATS = 30
_TIMEOUT_S = 60.0


@contextmanager
def early_answering_server() -> Iterator[str]:
    """A server that answers each connection without reading the request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(_REPEATS):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(OK.replace(b"content-length", b"connection: close\r\ncontent-length"))
                    connection.settimeout(_TIMEOUT_S)
                    while connection.recv(1000):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(_TIMEOUT_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_response_that_arrives_before_the_request_is_not_lost(make_loop: MakeLoop) -> None:
    async def send_many(url: str) -> None:
        http_client = HttpClient(ANY_ADDRESS)
        for _ in range(_REPEATS):
            answer = await http_client.send("GET", url, headers={})
            assert await answer.read(100) == b"ok"
        await http_client.close()

    with early_answering_server() as url, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(send_many(url))


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_socket_can_be_given_in_place_of_an_address(make_loop: MakeLoop) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    given = [near]

    async def send_twice() -> None:
        http_client = HttpClient(ANY_ADDRESS, connect=given.pop)
        for _ in range(2):
            answer = await http_client.send("GET", "http://localhost/", headers={})
            assert await answer.read(100) == b"ok"
        await http_client.close()

    def serve() -> None:
        while far.recv(1000):
            far.sendall(OK)

    thread = threading.Thread(target=serve, daemon=True)
    with far, asyncio.Runner(loop_factory=make_loop) as runner:
        thread.start()
        runner.run(send_twice())
        thread.join(_TIMEOUT_S)


async def test_a_first_request_larger_than_the_socket_buffer_is_sent_completely() -> None:
    async with assert_no_leaks(), run_raw_server(OK, OK) as served, open_client() as http_client:
        assert await send_request(http_client, served, b"x" * 20_000_000) == b"ok"
        assert await send_request(http_client, served) == b"ok"
        assert served.connections == 1


async def test_a_connection_announced_to_close_is_closed_by_the_client() -> None:
    closing = OK.replace(b"content-length", b"connection: close\r\ncontent-length")
    async with assert_no_leaks(), run_raw_server(closing) as served, open_client() as http_client:
        assert await send_request(http_client, served) == b"ok"
        await wait_until(lambda: served.connections == 1 and served.open == 0)


async def test_waiting_requests_fail_if_no_connection_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with assert_no_leaks(), open_client() as http_client, asyncio.timeout(_TIMEOUT_S):
        pending = [http_client.send("GET", f"http://localhost:{port}/", headers={}) for _ in range(3)]
        found = await asyncio.gather(*pending, return_exceptions=True)
        assert [type(each) for each in found] == [ConnectionFailed] * 3
        assert not any(each.may_have_executed for each in found if isinstance(each, TransportError))


async def test_closing_the_client_ends_a_connection_that_is_being_opened() -> None:
    async with (
        assert_no_leaks(),
        run_raw_server(OK) as served,
        open_client() as http_client,
        asyncio.timeout(_TIMEOUT_S),
    ):
        url = served.url.replace("127.0.0.1", "localhost")
        pending = asyncio.create_task(http_client.send("GET", url, headers={}))
        await asyncio.sleep(0)  # name resolution
        await http_client.close()
        with pytest.raises(TransportError, match="closed before") as closed:
            await pending
        assert not closed.value.may_have_executed
        await wait_until(lambda: served.open == 0)
        assert served.heads == []


@contextmanager
def full_backlog_server() -> Iterator[str]:
    """A listener whose backlog is full, so that further connections never complete."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(5):
            early = waiting.enter_context(socket.socket())
            early.setblocking(False)
            early.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.mark.parametrize("make_loop", LOOPS)
def test_closing_the_client_ends_a_connection_attempt_that_hangs(make_loop: MakeLoop) -> None:
    async def close_early(url: str) -> None:
        http_client = HttpClient(ANY_ADDRESS, connect_s=600)
        pending = asyncio.create_task(http_client.send("GET", url, headers={}))
        await yield_to_loop()
        assert not pending.done()
        await http_client.close()
        with pytest.raises(TransportError, match="closed before") as closed:
            await asyncio.wait_for(pending, _TIMEOUT_S)
        assert not closed.value.may_have_executed

    with full_backlog_server() as url, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(close_early(url))


async def test_a_connection_attempt_that_hangs_times_out() -> None:
    with full_backlog_server() as url:
        async with assert_no_leaks(), open_client(connect_s=0.2) as http_client, asyncio.timeout(_TIMEOUT_S):
            with pytest.raises(TransportError, match="TimeoutError") as late:
                await http_client.send("GET", url, headers={})
    assert not late.value.may_have_executed


async def test_closing_the_client_fails_requests_that_wait_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    async with assert_no_leaks(), run_raw_server() as served, open_client() as http_client, asyncio.timeout(_TIMEOUT_S):
        pending = [asyncio.create_task(send_request(http_client, served)) for _ in range(3)]
        await wait_until(lambda: served.open == 1)
        await http_client.close()
        found = await asyncio.gather(*pending, return_exceptions=True)
        assert [each.may_have_executed for each in found if isinstance(each, TransportError)] == [True, False, False]
        assert served.connections == 1


async def test_a_request_cancelled_at_its_turn_passes_the_connection_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    may_answer = asyncio.Event()

    async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await may_answer.wait()
        while await reader.readuntil(b"{}"):
            writer.write(OK)

    async with (
        assert_no_leaks(),
        run_raw_server(last_handler=answer_late) as served,
        open_client() as http_client,
        asyncio.timeout(_TIMEOUT_S),
    ):

        async def ask_and_end_the_next() -> bytes:
            found = await send_request(http_client, served)
            second.cancel()  # it was notified, and has not run yet
            return found

        first = asyncio.create_task(ask_and_end_the_next())
        second, third = (asyncio.create_task(send_request(http_client, served)) for _ in range(2))
        await wait_until(lambda: served.open == 1)
        may_answer.set()
        assert await first == b"ok"
        assert await third == b"ok"
        assert second.cancelled()


@pytest.mark.parametrize("make_loop", LOOPS)
def test_cancelling_a_half_written_first_request_closes_its_connection(make_loop: MakeLoop) -> None:
    """The next socket gets the same descriptor, which must not be registered any more."""

    async def give_up(url: str) -> None:
        http_client = HttpClient(ANY_ADDRESS)
        pending = asyncio.create_task(http_client.send("POST", url, headers={}, body=b"x" * 30_000_000))
        await asyncio.sleep(0)  # it writes until the socket buffer is full
        pending.cancel()
        await asyncio.wait([pending])
        async with run_raw_server(OK) as served:
            assert await asyncio.wait_for(send_request(http_client, served), _TIMEOUT_S) == b"ok"
        await http_client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(give_up(f"http://127.0.0.1:{listener.getsockname()[1]}/"))


@pytest.mark.parametrize("closing", [b"", b"connection: close\r\n"])
async def test_a_connection_with_an_early_response_is_not_reused(
    closing: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)  # so a new connection waits until the last one is gone

    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")  # and read nothing after it
        writer.write(OK.replace(b"content-length", closing + b"content-length"))
        await writer.wait_closed()

    async with (
        assert_no_leaks(),
        run_raw_server(last_handler=answer_early) as served,
        open_client() as http_client,
        asyncio.timeout(_TIMEOUT_S),
    ):
        for _ in range(3):
            assert await send_request(http_client, served, b"x" * 30_000_000) == b"ok"
        assert served.connections == 3


class FailingLoop(asyncio.SelectorEventLoop):
    """A loop that fails to create connections for lack of memory."""

    async def create_connection(self, *_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOMEM, "no memory")


def test_an_error_after_writing_never_claims_that_nothing_was_sent() -> None:
    async def send_once(url: str) -> bool:
        http_client = HttpClient(ANY_ADDRESS)
        with pytest.raises(TransportError) as broken:
            await http_client.send("POST", url, headers={}, body=b"pay")
        await http_client.close()
        return broken.value.may_have_executed

    with socket.create_server(("127.0.0.1", 0)) as listener:
        with asyncio.Runner(loop_factory=FailingLoop) as runner:
            assert runner.run(send_once(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(1000).endswith(b"pay")


class MacSocket(socket.socket):
    """A socket that reports EISCONN, as on macOS, where Linux reports success."""

    has_begun = False

    def connect_ex(self, address: Any) -> int:
        code = super().connect_ex(address)
        is_first, self.has_begun = not self.has_begun, True
        return errno.EINPROGRESS if is_first else code or errno.EISCONN

    def connect(self, address: Any) -> None:
        raise OSError(errno.EISCONN, "Socket is already connected")


class SlowMacSocket(MacSocket):
    """A socket that is connected only at the third call of `connect_ex`."""

    def connect_ex(self, address: Any) -> int:
        super().connect_ex(address)
        return errno.EALREADY


@pytest.mark.parametrize("kind", [MacSocket, SlowMacSocket])
@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_socket_that_reports_being_connected_is_used(kind: type[socket.socket], make_loop: MakeLoop) -> None:
    class OtherSockets(EgressGuard):
        def make_socket(self, info: tuple[Any, ...]) -> socket.socket:
            new_socket = kind(family=info[0], type=info[1])
            new_socket.setblocking(False)
            return new_socket

    async def send_once() -> None:
        async with run_raw_server(OK) as served:
            pool = ConnectionPool(OtherSockets(ANY_ADDRESS, NO_RULES), _TIMEOUT_S)
            answer = await pool.send("GET", served.url, {}, None, None)
            assert await answer.read(100) == b"ok"
            await pool.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(send_once())


async def test_a_closed_client_opens_no_connection() -> None:
    async with assert_no_leaks(), run_raw_server(OK, OK) as served:
        client = HttpClient(ANY_ADDRESS)
        assert await send_request(client, served) == b"ok"
        await client.close()
        with pytest.raises(ConnectionFailed, match="closed") as refused:
            await send_request(client, served)
        assert not refused.value.may_have_executed
        with pytest.raises(ConnectionFailed, match="closed"):
            await client.open_websocket(served.url.replace("http", "ws"), headers={}, protocols=(), limit=100)
        assert served.connections == 1


async def test_a_request_admitted_before_closing_opens_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    unfinished = OK.replace(b"length: 2", b"length: 5")
    async with assert_no_leaks(), run_raw_server(unfinished) as served:
        client = HttpClient(ANY_ADDRESS)
        first = await client.send("GET", served.url, headers={})
        waiting = asyncio.create_task(client.send("GET", served.url, headers={}))
        await yield_to_loop(3)
        first.close()
        await yield_to_loop(1)  # the next request was notified, but has not run yet
        await client.close()
        with pytest.raises(TransportError):
            await waiting
        assert served.connections == 1
