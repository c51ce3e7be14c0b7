"""How many calls one upstream works on at once, and the line of those that wait.

First come, first served, each within its own deadline. A call whose caller is being
asked something needs nothing of the upstream meanwhile and lends its slot.
"""

from __future__ import annotations

import asyncio
from collections import deque

from hubbub.errors import Overloaded


class Slots:
    """The slots of one upstream."""

    def __init__(self, what: str, limit: int, most_waiting: int) -> None:
        self._what = what
        self._limit = limit
        self._most_waiting = most_waiting
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_free = asyncio.Event()
        self._is_free.set()
        self.running = 0
        self.lent = 0
        """Calls whose callers are being asked something."""

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._waiting)

    def take_now(self) -> bool:
        """Get a slot if there is one for whoever comes now."""
        if self._waiting or self.running >= self._limit:
            return False
        self.running += 1
        return True

    async def take(self, deadline: float) -> None:
        """Get a slot, at the latest at this time on the loop's clock.

        Raises:
            Overloaded: too many wait, or it took too long.
        """
        if self.take_now():
            return
        if len(self._waiting) >= self._most_waiting:
            raise Overloaded(self._what, self._limit)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except TimeoutError:
            self._leave_line(turn)
            raise Overloaded(self._what, self._limit) from None
        except asyncio.CancelledError:
            self._leave_line(turn)
            raise

    def give_back(self) -> None:
        """A call has ended."""
        self.running -= 1
        if self._waiting or self._is_free.is_set() is False:
            self._next()

    def lend(self) -> None:
        """A call waits for its caller."""
        self.lent += 1
        self.running -= 1
        self._next()

    def take_again(self) -> None:
        """It goes on, even if that makes one too many for a while."""
        self.lent -= 1
        self.running += 1

    async def idle(self) -> None:
        """Wait until no call runs or waits."""
        while self.running or self.lent or self._waiting:
            self._is_free.clear()
            await self._is_free.wait()

    def _next(self) -> None:
        while self._waiting and self.running < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)
        if not self.running and not self._waiting:
            self._is_free.set()

    def _leave_line(self, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():
            self.give_back()  # it was given a slot at the same moment
        elif turn in self._waiting:
            self._waiting.remove(turn)
