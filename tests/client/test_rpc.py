"""The client's JSON-RPC by itself, on a link whose other end is the test: requests, notifications, clocks, the end."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.client.ends import no_lost_errors
from tests.clock import pass_time, skip, until

from hubbub import (
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    InvalidParams,
    RemoteError,
    TransportClosed,
    TransportError,
)
from hubbub.client.rpc import JsonRpcClient
from hubbub.ports import as_it_is


class Loose:
    """A link whose other end is the test."""

    address = "test"
    is_http = is_legacy = False

    def __init__(self) -> None:
        self.hide: Callable[[Any], Any] = as_it_is
        self.sent: list[dict[str, Any]] = []
        self.withdrawn: list[tuple[int, str]] = []
        self.closed = 0
        self.rpc: Any = None

    async def start(self, receiver: Any) -> None:
        self.rpc = receiver
        receiver.receive(b'{"jsonrpc":"2.0","method":"notifications/early"}')

    def send_now(self, outgoing: Any) -> bool:
        return False

    async def exchange(self, outgoing: Any) -> None:
        self.sent.append(msgspec.json.decode(outgoing.body))

    async def post(self, message: bytes, **_: Any) -> None:
        self.sent.append(msgspec.json.decode(message))

    def withdraw(self, outgoing: Any, reason: str) -> None:
        self.withdrawn.append((outgoing.id, reason))

    def settle(self, version: str) -> None:
        pass

    async def close(self) -> None:
        self.closed += 1

    def say(self, **message: Any) -> None:
        self.rpc.receive(msgspec.json.encode({"jsonrpc": "2.0", **message}))


async def test_requests_are_numbered_and_answers_find_them() -> None:
    link = Loose()
    rpc = JsonRpcClient(link, timeout_s=10)
    with pytest.raises(TransportError, match="not started"):
        await rpc.request("x")
    await rpc.start()
    await rpc.start()
    first, second = (asyncio.create_task(rpc.request("m", params)) for params in ({"a": 1}, msgspec.UNSET))
    await asyncio.sleep(0)
    assert link.sent == [
        {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "m"},
    ]
    link.say(id="2", result={"two": 2})
    link.say(id=1, error={"code": -5, "message": "no", "data": [1]})
    link.say(id=1, result={})
    link.say(id=99, result={})
    assert bytes(await second) == b'{"two":2}'
    with pytest.raises(RemoteError, match="no") as raised:
        await first
    assert (raised.value.code, raised.value.data) == (-5, [1])
    assert len(rpc) == 0
    await rpc.notify("notifications/x")
    await rpc.notify("notifications/y", {"p": 1})
    assert link.sent[2:] == [
        {"jsonrpc": "2.0", "method": "notifications/x"},
        {"jsonrpc": "2.0", "method": "notifications/y", "params": {"p": 1}},
    ]
    for blank in (rpc.request(" "), rpc.notify("")):
        with pytest.raises(InvalidParams):
            await blank
    await rpc.close()


async def test_an_error_that_makes_no_sense_is_still_an_error() -> None:
    link = Loose()
    rpc = JsonRpcClient(link, timeout_s=10)
    await rpc.start()
    waiting = asyncio.create_task(rpc.request("m"))
    await asyncio.sleep(0)
    link.say(id=1, error="no", result={})
    with pytest.raises(RemoteError, match="cannot be read"):
        await waiting
    await rpc.close()


async def test_initialize_is_never_withdrawn_and_others_once() -> None:
    link = Loose()
    rpc = JsonRpcClient(link, timeout_s=0.05)
    await rpc.start()
    for method in ("initialize", "tools/call"):
        with pytest.raises(Exception, match="did not come"):
            await rpc.request(method)
    assert link.withdrawn == [(2, "timeout")]
    await rpc.close()


async def test_notifications_reach_the_callback_in_order_and_its_failures_stop_nothing() -> None:
    link, heard = Loose(), []

    async def later(method: str) -> None:
        heard.append(method)

    def notified(method: str, params: Any, request: Any) -> Any:
        if method == "notifications/bad":
            raise RuntimeError("callback")
        return later(method)

    rpc = JsonRpcClient(link, notified=notified, timeout_s=10)
    await rpc.start()
    for method in ("notifications/a", "notifications/bad", "other/method", "notifications/b"):
        link.say(method=method)
    await until(lambda: len(heard) == 3)
    assert heard == ["notifications/early", "notifications/a", "notifications/b"]
    await rpc.close()


async def test_hooks_hear_after_the_answer_was_given() -> None:
    link = Loose()

    def lose_link(line: str) -> None:
        if "result" in line:
            link.rpc.lost(TransportClosed("gone"))

    rpc = JsonRpcClient(link, on_line=lose_link, timeout_s=10)
    await rpc.start()
    answered, unanswered = (asyncio.create_task(rpc.request("m")) for _ in range(2))
    await asyncio.sleep(0)
    link.say(id=1, result={"x": 1})
    assert bytes(await answered) == b'{"x":1}'
    with pytest.raises(TransportClosed, match="gone"):
        await unanswered
    await rpc.close()


async def test_losing_the_link_fails_all_and_for_good() -> None:
    link = Loose()
    lost: list[HubbubError] = []
    rpc = JsonRpcClient(link, lost=lost.append, timeout_s=10)
    await rpc.start()
    first = asyncio.create_task(rpc.request("m"))
    await asyncio.sleep(0)
    link.say(id=1, result={})
    await first
    waiting = [asyncio.create_task(rpc.request("m")) for _ in range(3)]
    await asyncio.sleep(0)
    gone = TransportClosed("gone")
    link.rpc.lost(gone)
    assert await asyncio.gather(*waiting, return_exceptions=True) == [gone] * 3
    with pytest.raises(ConnectionClosed, match="gone"):
        await rpc.request("m")
    assert lost == [gone]
    await rpc.close()
    await rpc.close()
    with pytest.raises(ConnectionClosed):
        await rpc.start()


async def test_a_link_that_is_lost_before_any_answer_tells_why_itself() -> None:
    link = Loose()
    rpc = JsonRpcClient(link, timeout_s=10)
    await rpc.start()
    link.rpc.lost(TransportClosed("gone"))
    with pytest.raises(TransportError) as raised:
        await rpc.request("m")
    assert raised.value.code == "TRANSPORT_CLOSED"
    await rpc.close()


async def test_a_clock_stands_still_while_a_question_is_answered() -> None:
    link = Loose()

    async def answer(method: str, params: Raw, request: Any) -> Any:
        await skip(30)
        return {"answered": True}

    rpc = JsonRpcClient(link, answer=answer, timeout_s=20)
    await rpc.start()
    waiting = asyncio.create_task(rpc.request("tools/call"))
    await asyncio.sleep(0)
    link.say(id="q", method="elicitation/create", params={})
    await until(lambda: len(link.sent) == 2)
    link.say(id=1, result={"ok": 1})
    assert bytes(await waiting) == b'{"ok":1}'
    assert link.sent[1] == {"jsonrpc": "2.0", "id": "q", "result": {"answered": True}}
    await rpc.close()


async def test_a_clock_stands_still_until_the_last_of_several_questions_is_answered() -> None:
    link = Loose()
    answered = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def answer(method: str, params: Raw, request: Any) -> Any:
        await answered[msgspec.json.decode(params)["which"]].wait()
        return {}

    rpc = JsonRpcClient(link, answer=answer, timeout_s=20)
    await rpc.start()
    waiting = asyncio.create_task(rpc.request("tools/call"))
    await asyncio.sleep(0)
    for which in answered:
        link.say(id=which, method="elicitation/create", params={"which": which})
    await asyncio.sleep(0)
    answered["first"].set()
    await skip(40)
    assert not waiting.done(), "the clock ran while the second question was open"
    answered["second"].set()
    await until(lambda: len(link.sent) == 3)
    pass_time(20)
    with pytest.raises(DeadlineExceeded):
        await waiting
    assert [sent["id"] for sent in link.sent] == [1, "first", "second"]
    await rpc.close()


class FailsLate(Loose):
    """A link that fails to start when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_starting, self.fails = asyncio.Event(), asyncio.Event()

    async def start(self, receiver: Any) -> None:
        self.is_starting.set()
        await self.fails.wait()
        raise TransportError("there is nothing")


async def test_a_failed_start_that_nobody_waits_for_any_more_is_not_reported_as_lost() -> None:
    async with no_lost_errors():
        link = FailsLate()
        rpc = JsonRpcClient(link, timeout_s=10)
        starting = asyncio.create_task(rpc.start())
        await link.is_starting.wait()
        starting.cancel()
        link.fails.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await rpc.close()
        del rpc, link, starting
