"""Notifications of an upstream reach the caller completely, in order and before the response."""

import asyncio
from typing import Any

import msgspec
from msgspec import Raw
from tests.hub.upstream_callers import ELICITATION, LEGACY, RecordingReturnPath, make_call, make_caller

from hubbub import Notification
from hubbub.hub.admission import CallLimiter
from hubbub.hub.forwarding.forwarded_call import ForwardedCall


def progress(step: int) -> Notification:
    return Notification("notifications/progress", Raw(msgspec.json.encode({"progressToken": 1, "progress": step})))


class _SlowReader(RecordingReturnPath):
    """The upstream sends the second notification while the first is read; reading the second blocks."""

    def __init__(self) -> None:
        super().__init__("slow")
        params: dict[str, Any] = {"name": "x", "arguments": {}}
        who = make_caller(LEGACY, ELICITATION, scope="1")
        self.forwarded = ForwardedCall(make_call("tools/call", params, who, self), CallLimiter("calls", 2, 2))
        self.goes_on = asyncio.Event()

    async def notify(self, note: Notification) -> None:
        if self.notes:
            await self.goes_on.wait()
        else:
            asyncio.get_running_loop().call_soon(self.forwarded.send_nowait, progress(2))
        await super().notify(note)


async def test_notifications_queued_during_a_flush_are_delivered_too() -> None:
    reader = _SlowReader()
    reader.forwarded.send_nowait(progress(1))
    await reader.forwarded.flush()  # as before a client request of the upstream
    reader.goes_on.set()
    await reader.forwarded.flush()  # as before the response
    assert [note["progress"] for note in reader.notes_of("notifications/progress")] == [1, 2]
