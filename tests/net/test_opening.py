"""How a connection is opened: its first request is on its way before the event loop has turned."""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import pytest
import uvloop
from tests.client.ends import nothing_left
from tests.clock import turns, until
from tests.net.served import OK, ask, opened, serving

from hubbub import ConnectionFailed, TransportError, bounds
from hubbub.net.pool import Pool
from hubbub.pack.http import ANY_ADDRESS, HttpClient

MakeLoop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
LOOPS = [asyncio.SelectorEventLoop, uvloop.new_event_loop]
_TIMES = 30
_PATIENCE_S = 60.0


@contextmanager
def hasty_server() -> Iterator[str]:
    """Answers whoever connects, without a look at what it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(_TIMES):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(OK.replace(b"content-length", b"connection: close\r\ncontent-length"))
                    connection.settimeout(_PATIENCE_S)
                    while connection.recv(1000):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(_PATIENCE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("make_loop", LOOPS)
def test_an_answer_that_is_there_at_once_is_not_lost(make_loop: MakeLoop) -> None:
    async def ask_often(url: str) -> None:
        door = HttpClient(ANY_ADDRESS)
        for _ in range(_TIMES):
            answer = await door.send("GET", url, headers={})
            assert await answer.read(100) == b"ok"
        await door.close()

    with hasty_server() as url, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(ask_often(url))


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_socket_can_be_given_in_place_of_an_address(make_loop: MakeLoop) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    given = [near]

    async def ask_twice() -> None:
        door = HttpClient(ANY_ADDRESS, connect=given.pop)
        for _ in range(2):
            answer = await door.send("GET", "http://localhost/", headers={})
            assert await answer.read(100) == b"ok"
        await door.close()

    def serve() -> None:
        while far.recv(1000):
            far.sendall(OK)

    thread = threading.Thread(target=serve, daemon=True)
    with far, asyncio.Runner(loop_factory=make_loop) as runner:
        thread.start()
        runner.run(ask_twice())
        thread.join(_PATIENCE_S)


async def test_a_first_request_larger_than_what_a_socket_takes_arrives_whole() -> None:
    async with nothing_left(), serving(OK, OK) as served, opened() as door:
        assert await ask(door, served, b"x" * 20_000_000) == b"ok"
        assert await ask(door, served) == b"ok"
        assert served.connections == 1


async def test_a_connection_that_the_server_said_it_would_close_is_closed_if_it_does_not() -> None:
    closing = OK.replace(b"content-length", b"connection: close\r\ncontent-length")
    async with nothing_left(), serving(closing) as served, opened() as door:
        assert await ask(door, served) == b"ok"
        await until(lambda: served.connections == 1 and served.open == 0)


async def test_who_waits_for_room_is_told_when_others_cannot_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with nothing_left(), opened() as door, asyncio.timeout(_PATIENCE_S):
        asking = [door.send("GET", f"http://localhost:{port}/", headers={}) for _ in range(3)]
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(each) for each in found] == [ConnectionFailed] * 3
        assert not any(each.may_have_executed for each in found if isinstance(each, TransportError))


async def test_closing_the_door_ends_a_connection_that_is_being_opened() -> None:
    async with nothing_left(), serving(OK) as served, opened() as door, asyncio.timeout(_PATIENCE_S):
        url = served.url.replace("127.0.0.1", "localhost")
        asking = asyncio.create_task(door.send("GET", url, headers={}))
        await asyncio.sleep(0)  # it looks the name up
        await door.close()
        with pytest.raises(TransportError, match="closed before") as closed:
            await asking
        assert not closed.value.may_have_executed
        await until(lambda: served.open == 0)
        assert served.heads == []


@contextmanager
def deaf_server() -> Iterator[str]:
    """Listens, and has more who wait for it than there is room for: whoever else connects waits for ever."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(5):
            early = waiting.enter_context(socket.socket())
            early.setblocking(False)
            early.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.mark.parametrize("make_loop", LOOPS)
def test_closing_the_door_ends_a_connection_that_would_never_open(make_loop: MakeLoop) -> None:
    async def close_early(url: str) -> None:
        door = HttpClient(ANY_ADDRESS, connect_s=600)
        asking = asyncio.create_task(door.send("GET", url, headers={}))
        await turns()
        assert not asking.done()
        await door.close()
        with pytest.raises(TransportError, match="closed before") as closed:
            await asyncio.wait_for(asking, _PATIENCE_S)
        assert not closed.value.may_have_executed

    with deaf_server() as url, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(close_early(url))


async def test_one_that_never_opens_is_given_up_in_time() -> None:
    with deaf_server() as url:
        async with nothing_left(), opened(connect_s=0.2) as door, asyncio.timeout(_PATIENCE_S):
            with pytest.raises(TransportError, match="TimeoutError") as late:
                await door.send("GET", url, headers={})
    assert not late.value.may_have_executed


async def test_closing_the_door_tells_who_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    async with nothing_left(), serving() as served, opened() as door, asyncio.timeout(_PATIENCE_S):
        asking = [asyncio.create_task(ask(door, served)) for _ in range(3)]
        await until(lambda: served.open == 1)
        await door.close()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert [each.may_have_executed for each in found if isinstance(each, TransportError)] == [True, False, False]
        assert served.connections == 1


async def test_who_gives_up_when_its_turn_has_come_leaves_it_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    go = asyncio.Event()

    async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        while await reader.readuntil(b"{}"):
            writer.write(OK)

    async with nothing_left(), serving(then=answer_late) as served, opened() as door, asyncio.timeout(_PATIENCE_S):

        async def ask_and_end_the_next() -> bytes:
            found = await ask(door, served)
            second.cancel()  # who has been called, and has not come yet
            return found

        first = asyncio.create_task(ask_and_end_the_next())
        second, third = (asyncio.create_task(ask(door, served)) for _ in range(2))
        await until(lambda: served.open == 1)
        go.set()
        assert await first == b"ok"
        assert await third == b"ok"
        assert second.cancelled()


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_first_request_that_is_given_up_half_written_leaves_nothing_behind(make_loop: MakeLoop) -> None:
    """Its socket's number is taken by the next one, which must not find anything there."""

    async def give_up(url: str) -> None:
        door = HttpClient(ANY_ADDRESS)
        asking = asyncio.create_task(door.send("POST", url, headers={}, body=b"x" * 30_000_000))
        await asyncio.sleep(0)  # it writes what the socket takes
        asking.cancel()
        await asyncio.wait([asking])
        async with serving(OK) as served:
            assert await asyncio.wait_for(ask(door, served), _PATIENCE_S) == b"ok"
        await door.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(give_up(f"http://127.0.0.1:{listener.getsockname()[1]}/"))


@pytest.mark.parametrize("closing", [b"", b"connection: close\r\n"])
async def test_a_server_that_answers_before_it_has_heard_all_is_not_asked_again(
    closing: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)  # so a new connection waits until the last one is gone

    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")  # and hear no more
        writer.write(OK.replace(b"content-length", closing + b"content-length"))
        await writer.wait_closed()

    async with nothing_left(), serving(then=answer_early) as served, opened() as door, asyncio.timeout(_PATIENCE_S):
        for _ in range(3):
            assert await ask(door, served, b"x" * 30_000_000) == b"ok"
        assert served.connections == 3


class LoopThatBreaks(asyncio.SelectorEventLoop):
    """Has no memory left for connections."""

    async def create_connection(self, *_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOMEM, "no memory")


def test_what_was_written_is_never_said_not_to_have_been() -> None:
    async def ask_once(url: str) -> bool:
        door = HttpClient(ANY_ADDRESS)
        with pytest.raises(TransportError) as broken:
            await door.send("POST", url, headers={}, body=b"pay")
        await door.close()
        return broken.value.may_have_executed

    with socket.create_server(("127.0.0.1", 0)) as listener:
        with asyncio.Runner(loop_factory=LoopThatBreaks) as runner:
            assert runner.run(ask_once(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(1000).endswith(b"pay")


class SocketOfMacOS(socket.socket):
    """Says that it is connected where one of Linux says nothing."""

    has_begun = False

    def connect_ex(self, address: Any) -> int:
        code = super().connect_ex(address)
        is_first, self.has_begun = not self.has_begun, True
        return errno.EINPROGRESS if is_first else code or errno.EISCONN

    def connect(self, address: Any) -> None:
        raise OSError(errno.EISCONN, "Socket is already connected")


class SlowSocketOfMacOS(SocketOfMacOS):
    """Is connected only when it is asked for the third time."""

    def connect_ex(self, address: Any) -> int:
        super().connect_ex(address)
        return errno.EALREADY


@pytest.mark.parametrize("kind", [SocketOfMacOS, SlowSocketOfMacOS])
@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_socket_that_says_that_it_is_connected_is(kind: type[socket.socket], make_loop: MakeLoop) -> None:
    def make_socket(info: tuple[Any, ...]) -> socket.socket:
        made = kind(family=info[0], type=info[1])
        made.setblocking(False)
        return made

    async def ask_once() -> None:
        async with serving(OK) as served:
            pool = Pool(make_socket, _PATIENCE_S)
            answer = await pool.send("GET", served.url, {}, None, None)
            assert await answer.read(100) == b"ok"
            await pool.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(ask_once())


async def test_a_closed_client_opens_no_connection() -> None:
    async with nothing_left(), serving(OK, OK) as served:
        client = HttpClient(ANY_ADDRESS)
        assert await ask(client, served) == b"ok"
        await client.close()
        with pytest.raises(ConnectionFailed, match="closed") as refused:
            await ask(client, served)
        assert not refused.value.may_have_executed
        with pytest.raises(ConnectionFailed, match="closed"):
            await client.open_websocket(served.url.replace("http", "ws"), headers={}, protocols=(), limit=100)
        assert served.connections == 1


async def test_a_request_that_got_its_turn_before_the_client_was_closed_opens_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    unfinished = OK.replace(b"length: 2", b"length: 5")
    async with nothing_left(), serving(unfinished) as served:
        client = HttpClient(ANY_ADDRESS)
        first = await client.send("GET", served.url, headers={})
        waiting = asyncio.create_task(client.send("GET", served.url, headers={}))
        await turns(3)
        first.close()
        await turns(1)  # the next request may go on, but has not run yet
        await client.close()
        with pytest.raises(TransportError):
            await waiting
        assert served.connections == 1
