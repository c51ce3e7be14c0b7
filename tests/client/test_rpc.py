"""`JsonRpcClient` over a fake transport: requests, notifications, deadlines, loss of the connection."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.client.harness import assert_no_unretrieved_errors
from tests.clock import advance_and_settle, advance_clock, wait_until

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
from hubbub.ports import hide_nothing


class FakeTransport:
    """A transport whose other end is the test."""

    address = "test"
    is_http = is_legacy = False

    def __init__(self) -> None:
        self.hide: Callable[[Any], Any] = hide_nothing
        self.sent: list[dict[str, Any]] = []
        self.cancelled_requests: list[tuple[int, str]] = []
        self.closed = 0
        self.rpc: Any = None

    async def start(self, receiver: Any) -> None:
        self.rpc = receiver
        receiver.receive(b'{"jsonrpc":"2.0","method":"notifications/early"}')

    def send_nowait(self, outgoing: Any) -> bool:
        return False

    async def send_request(self, outgoing: Any) -> None:
        self.sent.append(msgspec.json.decode(outgoing.body))

    async def send_message(self, message: bytes, **_: Any) -> None:
        self.sent.append(msgspec.json.decode(message))

    def cancel_request(self, outgoing: Any, reason: str) -> None:
        self.cancelled_requests.append((outgoing.id, reason))

    def finish_handshake(self, version: str) -> None:
        pass

    async def close(self) -> None:
        self.closed += 1

    def deliver(self, **message: Any) -> None:
        self.rpc.receive(msgspec.json.encode({"jsonrpc": "2.0", **message}))


async def test_requests_are_numbered_and_matched_to_responses() -> None:
    transport = FakeTransport()
    rpc = JsonRpcClient(transport, timeout_s=10)
    with pytest.raises(TransportError, match="not started"):
        await rpc.request("x")
    await rpc.start()
    await rpc.start()
    first, second = (asyncio.create_task(rpc.request("m", params)) for params in ({"a": 1}, msgspec.UNSET))
    await asyncio.sleep(0)
    assert transport.sent == [
        {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "m"},
    ]
    transport.deliver(id="2", result={"two": 2})
    transport.deliver(id=1, error={"code": -5, "message": "no", "data": [1]})
    transport.deliver(id=1, result={})
    transport.deliver(id=99, result={})
    assert bytes(await second) == b'{"two":2}'
    with pytest.raises(RemoteError, match="no") as raised:
        await first
    assert (raised.value.code, raised.value.data) == (-5, [1])
    assert len(rpc) == 0
    await rpc.notify("notifications/x")
    await rpc.notify("notifications/y", {"p": 1})
    assert transport.sent[2:] == [
        {"jsonrpc": "2.0", "method": "notifications/x"},
        {"jsonrpc": "2.0", "method": "notifications/y", "params": {"p": 1}},
    ]
    for blank in (rpc.request(" "), rpc.notify("")):
        with pytest.raises(InvalidParams):
            await blank
    await rpc.close()


async def test_an_invalid_error_object_is_a_remote_error() -> None:
    transport = FakeTransport()
    rpc = JsonRpcClient(transport, timeout_s=10)
    await rpc.start()
    waiting = asyncio.create_task(rpc.request("m"))
    await asyncio.sleep(0)
    transport.deliver(id=1, error="no", result={})
    with pytest.raises(RemoteError, match="invalid error object"):
        await waiting
    await rpc.close()


async def test_initialize_is_never_cancelled_and_other_requests_once() -> None:
    transport = FakeTransport()
    rpc = JsonRpcClient(transport, timeout_s=0.05)
    await rpc.start()
    for method in ("initialize", "tools/call"):
        with pytest.raises(Exception, match="Timed out"):
            await rpc.request(method)
    assert transport.cancelled_requests == [(2, "timeout")]
    await rpc.close()


async def test_notifications_reach_the_callback_in_order_and_its_failures_are_isolated() -> None:
    transport, received = FakeTransport(), []

    async def record(method: str) -> None:
        received.append(method)

    def notified(method: str, params: Any, request: Any) -> Any:
        if method == "notifications/bad":
            raise RuntimeError("callback")
        return record(method)

    rpc = JsonRpcClient(transport, on_notification=notified, timeout_s=10)
    await rpc.start()
    for method in ("notifications/a", "notifications/bad", "other/method", "notifications/b"):
        transport.deliver(method=method)
    await wait_until(lambda: len(received) == 3)
    assert received == ["notifications/early", "notifications/a", "notifications/b"]
    await rpc.close()


async def test_hooks_run_after_the_response_is_delivered() -> None:
    transport = FakeTransport()

    def lose_link(line: str) -> None:
        if "result" in line:
            transport.rpc.transport_lost(TransportClosed("gone"))

    rpc = JsonRpcClient(transport, on_line=lose_link, timeout_s=10)
    await rpc.start()
    answered, unanswered = (asyncio.create_task(rpc.request("m")) for _ in range(2))
    await asyncio.sleep(0)
    transport.deliver(id=1, result={"x": 1})
    assert bytes(await answered) == b'{"x":1}'
    with pytest.raises(TransportClosed, match="gone"):
        await unanswered
    await rpc.close()


async def test_losing_the_transport_fails_all_requests_permanently() -> None:
    transport = FakeTransport()
    lost: list[HubbubError] = []
    rpc = JsonRpcClient(transport, on_lost=lost.append, timeout_s=10)
    await rpc.start()
    first = asyncio.create_task(rpc.request("m"))
    await asyncio.sleep(0)
    transport.deliver(id=1, result={})
    await first
    waiting = [asyncio.create_task(rpc.request("m")) for _ in range(3)]
    await asyncio.sleep(0)
    gone = TransportClosed("gone")
    transport.rpc.transport_lost(gone)
    assert await asyncio.gather(*waiting, return_exceptions=True) == [gone] * 3
    with pytest.raises(ConnectionClosed, match="gone"):
        await rpc.request("m")
    assert lost == [gone]
    await rpc.close()
    await rpc.close()
    with pytest.raises(ConnectionClosed):
        await rpc.start()


async def test_a_transport_lost_before_any_response_gives_its_reason() -> None:
    transport = FakeTransport()
    rpc = JsonRpcClient(transport, timeout_s=10)
    await rpc.start()
    transport.rpc.transport_lost(TransportClosed("gone"))
    with pytest.raises(TransportError) as raised:
        await rpc.request("m")
    assert raised.value.code == "TRANSPORT_CLOSED"
    await rpc.close()


async def test_a_deadline_is_paused_while_a_server_request_is_answered() -> None:
    transport = FakeTransport()

    async def answer(method: str, params: Raw, request: Any) -> Any:
        await advance_and_settle(30)
        return {"answered": True}

    rpc = JsonRpcClient(transport, answer=answer, timeout_s=20)
    await rpc.start()
    waiting = asyncio.create_task(rpc.request("tools/call"))
    await asyncio.sleep(0)
    transport.deliver(id="q", method="elicitation/create", params={})
    await wait_until(lambda: len(transport.sent) == 2)
    transport.deliver(id=1, result={"ok": 1})
    assert bytes(await waiting) == b'{"ok":1}'
    assert transport.sent[1] == {"jsonrpc": "2.0", "id": "q", "result": {"answered": True}}
    await rpc.close()


async def test_a_deadline_is_paused_until_the_last_server_request_is_answered() -> None:
    transport = FakeTransport()
    answered = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def answer(method: str, params: Raw, request: Any) -> Any:
        await answered[msgspec.json.decode(params)["which"]].wait()
        return {}

    rpc = JsonRpcClient(transport, answer=answer, timeout_s=20)
    await rpc.start()
    waiting = asyncio.create_task(rpc.request("tools/call"))
    await asyncio.sleep(0)
    for which in answered:
        transport.deliver(id=which, method="elicitation/create", params={"which": which})
    await asyncio.sleep(0)
    answered["first"].set()
    await advance_and_settle(40)
    assert not waiting.done(), "the deadline was not paused while the second request was pending"
    answered["second"].set()
    await wait_until(lambda: len(transport.sent) == 3)
    advance_clock(20)
    with pytest.raises(DeadlineExceeded):
        await waiting
    assert [sent["id"] for sent in transport.sent] == [1, "first", "second"]
    await rpc.close()


class FailingStartTransport(FakeTransport):
    """A transport whose start fails when the test decides."""

    def __init__(self) -> None:
        super().__init__()
        self.is_starting, self.may_fail = asyncio.Event(), asyncio.Event()

    async def start(self, receiver: Any) -> None:
        self.is_starting.set()
        await self.may_fail.wait()
        raise TransportError("there is nothing")


async def test_a_failed_start_after_a_cancellation_is_not_reported_as_lost() -> None:
    async with assert_no_unretrieved_errors():
        transport = FailingStartTransport()
        rpc = JsonRpcClient(transport, timeout_s=10)
        starting = asyncio.create_task(rpc.start())
        await transport.is_starting.wait()
        starting.cancel()
        transport.may_fail.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await rpc.close()
        del rpc, transport, starting
