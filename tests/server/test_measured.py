import asyncio

import pytest
from msgspec import Raw

from hubbub.errors import MethodNotFound, ToolError
from hubbub.observe import Metrics
from hubbub.protocol.model import Call, Caller, Meta, Note, RawReply, Reply
from hubbub.protocol.revisions import R2026_07_28
from hubbub.protocol.wire import ToolReply
from hubbub.server.measured import Measured


class Answering:
    def __init__(self, outcome):
        self.outcome = outcome
        self.notes = []

    async def request(self, call):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    async def notify(self, note):
        self.notes.append(note)


def call(peer):
    caller = Caller(revision=R2026_07_28)
    return Call(id=Raw(b"1"), method="tools/call", raw=Raw(b"{}"), params=None, meta=Meta(), caller=caller, back=peer)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Reply(), "ok"),
        (ToolReply(), "ok"),
        (ToolReply(is_error=True), "tool_error"),
        (ToolError("no"), "tool_error"),
        (MethodNotFound("x"), "error"),
        (RuntimeError(), "error"),
        (asyncio.CancelledError(), "cancelled"),
    ],
    ids=repr,
)
def test_each_call_is_counted_by_how_it_ended(answer, outcome):
    metrics, peer = Metrics(), Answering(answer)

    async def main():
        measured = Measured(peer, metrics.call)
        if isinstance(answer, BaseException):
            with pytest.raises(type(answer)):
                await measured.request(call(peer))
        else:
            assert await measured.request(call(peer)) is answer

    asyncio.run(main())
    assert {key: sum(series.counts) for key, series in metrics._calls.items()} == {("tools/call", "modern", outcome): 1}


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b'{"content":[],"isError": true}', "tool_error"),
        (b'{"structuredContent":{"isError":true},"isError":false}', "ok"),
        (b'{"isError":"odd"}', "ok"),
    ],
)
def test_what_only_passes_through_is_counted_by_what_it_says(body, outcome):
    recorded = []
    peer = Answering(RawReply(body=Raw(body)))
    asyncio.run(Measured(peer, lambda *values: recorded.append(values[2])).request(call(peer)))
    assert recorded == [outcome]


def test_notifications_pass():
    peer = Answering(Reply())
    asyncio.run(Measured(peer, Metrics().call).notify(Note("notifications/x")))
    assert [note.method for note in peer.notes] == ["notifications/x"]
