import asyncio

import pytest
from msgspec import Raw

from hubbub import Call, Caller, Meta, MethodNotFound, Notification, RawReply, Reply, ToolError, ToolResult
from hubbub.pack import Metrics
from hubbub.protocol.revisions import R2026_07_28
from hubbub.server.call_recording import RecordingPeer


class StubPeer:
    def __init__(self, outcome: Reply | BaseException) -> None:
        self.outcome = outcome
        self.notes: list[Notification] = []

    async def request(self, call: Call) -> Reply:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    async def notify(self, note: Notification) -> None:
        self.notes.append(note)

    def send_nowait(self, note: Notification) -> bool:
        return False

    async def release(self) -> None:
        pass


def call(peer: StubPeer) -> Call:
    caller = Caller(revision=R2026_07_28)
    return Call(id=Raw(b"1"), method="tools/call", raw=Raw(b"{}"), params=None, meta=Meta(), caller=caller, back=peer)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Reply(), "ok"),
        (ToolResult(), "ok"),
        (ToolResult(is_error=True), "tool_error"),
        (ToolError("no"), "tool_error"),
        (MethodNotFound("x"), "error"),
        (RuntimeError(), "error"),
        (asyncio.CancelledError(), "cancelled"),
    ],
    ids=repr,
)
def test_each_call_is_counted_by_its_outcome(answer: Reply | BaseException, outcome: str) -> None:
    metrics, peer = Metrics(), StubPeer(answer)

    async def main() -> None:
        measured = RecordingPeer(peer, metrics.call)
        if isinstance(answer, BaseException):
            with pytest.raises(type(answer)):
                await measured.request(call(peer))
        else:
            assert await measured.request(call(peer)) is answer

    asyncio.run(main())
    counted = {
        tuple(sample.labels[label] for label in ("method", "era", "outcome")): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name == "hubbub_call_duration_seconds_count"
    }
    assert counted == {("tools/call", "modern", outcome): 1}


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b'{"content":[],"isError": true}', "tool_error"),
        (b'{"structuredContent":{"isError":true},"isError":false}', "ok"),
        (b'{"isError":"odd"}', "ok"),
    ],
)
def test_a_raw_reply_is_counted_by_the_outcome_in_its_body(body: bytes, outcome: str) -> None:
    recorded = []
    peer = StubPeer(RawReply(body=Raw(body)))
    asyncio.run(RecordingPeer(peer, lambda *values: recorded.append(values[2])).request(call(peer)))
    assert recorded == [outcome]


def test_notifications_pass_unchanged() -> None:
    peer = StubPeer(Reply())
    asyncio.run(RecordingPeer(peer, Metrics().call).notify(Notification("notifications/x")))
    assert [note.method for note in peer.notes] == ["notifications/x"]
