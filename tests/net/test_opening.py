"""How a connection is opened: its first request is on its way before the event loop has turned."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvloop
from tests.client.ends import nothing_left, until
from tests.net.served import OK, ask, opened, serving

from hubbub import bounds
from hubbub.errors import TransportError
from hubbub.net.door import Door
from hubbub.net.egress import ANYWHERE

_TIMES = 30
_PATIENCE_S = 10.0


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


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_answer_that_is_there_at_once_is_not_lost(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def ask_often(url: str) -> None:
        door = Door(ANYWHERE)
        for _ in range(_TIMES):
            answer = await door.send("GET", url, headers={})
            assert await answer.read(100) == b"ok"
        await door.close()

    with hasty_server() as url, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(ask_often(url))


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
        assert [type(each) for each in found] == [TransportError] * 3
        assert not any(each.may_have_executed for each in found if isinstance(each, TransportError))


async def test_closing_the_door_ends_a_connection_that_is_being_opened() -> None:
    async with nothing_left(), serving(OK) as served, opened() as door, asyncio.timeout(_PATIENCE_S):
        url = served.url.replace("127.0.0.1", "localhost")
        asking = asyncio.create_task(door.send("GET", url, headers={}))
        await asyncio.sleep(0)  # it looks the name up
        await door.close()
        with pytest.raises(TransportError, match="closed"):
            await asking
        await until(lambda: served.open == 0)
