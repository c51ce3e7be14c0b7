"""Pending requests to a server, and their deadlines.

One timer serves all requests of a conversation: a timer for each would cost more than the request's own bytes, and
most are answered long before. A request whose deadline passes gets a `TimeoutError` instead of its answer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.ports import ReturnPath
from hubbub.protocol.results import ProgressParams

NO_HEADERS: Mapping[str, str] = {}
Progress = Callable[[ProgressParams], Any]


class Deadline:
    """The deadline of one request; it can be moved, or paused."""

    __slots__ = ("_all", "_at", "answer")

    def __init__(self, deadlines: Deadlines, answer: asyncio.Future[Any], at: float) -> None:
        self._all = deadlines
        self._at = at
        self.answer = answer

    def when(self) -> float | None:
        """The time on the event loop's clock; None: never."""
        return None if self._at == math.inf else self._at

    def reschedule(self, at: float | None) -> None:
        """Move the deadline; None: never."""
        self._at = math.inf if at is None else at
        self._all.watch(self._at)

    def expired(self) -> bool:
        """Whether the request was answered or its deadline passed."""
        return self.answer.done()


class Deadlines:
    """The deadlines of one connection."""

    def __init__(self) -> None:
        self._open: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = math.inf

    def add(self, answer: asyncio.Future[Any], at: float) -> Deadline:
        """Add a deadline for an answer."""
        deadline = Deadline(self, answer, at)
        self._open[deadline] = None
        if at < self._fires_at:
            self.watch(at)
        return deadline

    def remove(self, deadline: Deadline) -> None:
        """Remove a deadline, because its request has ended."""
        del self._open[deadline]

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._fires_at = None, math.inf

    def watch(self, at: float) -> None:
        """Check the deadlines at this time, if not earlier."""
        if at >= self._fires_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._fires_at = None, math.inf
        now = asyncio.get_running_loop().time()
        next_at = math.inf
        for deadline in self._open:
            at = deadline.when()
            if at is None or deadline.answer.done():
                continue
            if at <= now:
                deadline.answer.set_exception(TimeoutError())
            else:
                next_at = min(next_at, at)
        self.watch(next_at)


class Request(msgspec.Struct, eq=False):
    """One pending request; a `ports.OutgoingRequest`."""

    id: int
    method: str
    body: bytes
    answer: asyncio.Future[Raw]
    headers: Mapping[str, str] = NO_HEADERS
    is_stateless: bool = False
    progress: Progress | None = None
    back: ReturnPath | None = None
    """The return path to the caller of a forwarded request; the server's requests about it go there."""
    token: Raw | None = None
    """The caller's progress token."""
    clock: asyncio.Timeout | Deadline | None = None
    stops: int = 0
    """Number of unanswered server requests for which the clock is stopped."""
    left_s: float | None = None
    """Seconds that were left when the clock was stopped."""
    on_abandoned: Callable[[], Any] | None = None
    """Called when the caller stops waiting; closes what the transport opened for the request."""

    @property
    def is_answered(self) -> bool:
        """Whether the request has a result, an error, or was cancelled."""
        return self.answer.done()

    def fail(self, error: Exception) -> None:
        """Fail the request, unless it is answered."""
        if not self.answer.done():
            self.answer.set_exception(error)


def stop_clocks(requests: Iterable[Request]) -> list[Request]:
    """Stop the deadlines of these requests while a person or a model answers a request of the server."""
    now = asyncio.get_running_loop().time()
    stopped = []
    for request in requests:
        clock = request.clock
        if clock is None or request.is_answered or clock.expired():
            continue
        if not request.stops and (until := clock.when()) is not None:
            request.left_s = until - now
            clock.reschedule(None)
        request.stops += 1
        stopped.append(request)
    return stopped


def start_clocks(stopped: list[Request]) -> None:
    """Start the deadlines again that no other server request has stopped."""
    now = asyncio.get_running_loop().time()
    for request in stopped:
        request.stops -= 1
        clock, left_s = request.clock, request.left_s
        if request.stops or clock is None or left_s is None or request.is_answered or clock.expired():
            continue
        clock.reschedule(now + left_s)
