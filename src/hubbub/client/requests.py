"""One request on its way to a server, and the clock that runs until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.client.deadlines import Deadline
from hubbub.ports import Peer
from hubbub.protocol.wire import ProgressParams

NO_HEADERS: Mapping[str, str] = {}
Progress = Callable[[ProgressParams], Any]


class Request(msgspec.Struct, eq=False):
    """One request on its way; a `ports.Outgoing`."""

    id: int
    method: str
    body: bytes
    answer: asyncio.Future[Raw]
    headers: Mapping[str, str] = NO_HEADERS
    is_stateless: bool = False
    progress: Progress | None = None
    back: Peer | None = None
    """Who asked us, if we only pass it on; questions about it go there."""
    token: Raw | None = None
    """Their progress token."""
    clock: asyncio.Timeout | Deadline | None = None
    stops: int = 0
    """Questions of the server for which the clock stands still."""
    left_s: float | None = None
    """What was left on the clock when the first of them came."""

    @property
    def is_answered(self) -> bool:
        """Whether nobody waits any more."""
        return self.answer.done()


def stop_clocks(requests: Iterable[Request]) -> list[Request]:
    """While a person or a model answers a server's question, the server need not answer ours."""
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
    """The last of the questions that stopped a clock starts it again."""
    now = asyncio.get_running_loop().time()
    for request in stopped:
        request.stops -= 1
        clock, left_s = request.clock, request.left_s
        if request.stops or clock is None or left_s is None or request.is_answered or clock.expired():
            continue
        clock.reschedule(now + left_s)
