"""What channels of both engines have in common: bounds, backpressure, nothing lost, one end.

Each engine fills in four small methods and calls four. What arrives before somebody
listens is kept, because an original speaks as soon as its channel is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from hubbub import bounds
from hubbub.packs.peers.failures import ChannelClosed, FrameTooLarge, QueueFull

_CLOSED: Final = "the channel is closed"
_FRAME_BYTES: Final = 64
"""What keeping a message takes besides its own bytes, about; so that empty ones count, too."""


class EngineChannel:
    """One channel; see `engine.Channel`."""

    def __init__(self, label: str, limit: Callable[[], int]) -> None:
        self.label = label
        self.on_close: Callable[[], None] = _nothing
        self._limit = limit
        self._listener: Callable[[bytes | str], None] | None = None
        self._early: list[bytes | str] = []
        self._early_bytes = 0
        self._is_open = False
        self._is_closed = False
        self._opening: asyncio.Future[None] | None = None
        self._draining: list[tuple[int, asyncio.Future[None]]] = []

    # -- what an engine fills in ---------------------------------------------------

    def _push(self, data: bytes | str) -> None:
        raise NotImplementedError

    def _waiting(self) -> int:
        raise NotImplementedError

    def _watch(self, low: int) -> None:
        raise NotImplementedError

    def _shut(self) -> None:
        raise NotImplementedError

    # -- what an engine calls --------------------------------------------------------

    def now_open(self) -> None:
        """Messages can be sent from now on."""
        if self._is_open or self._is_closed:
            return
        self._is_open = True
        if self._opening is not None and not self._opening.done():
            self._opening.set_result(None)

    def received(self, data: bytes | str) -> None:
        """A message came."""
        if self._is_closed:
            return
        if self._listener is None:
            self._early.append(data)
            self._early_bytes += len(data) + _FRAME_BYTES
            if self._early_bytes > bounds.PEER_QUEUE_BYTES:
                self.close()
        else:
            self._listener(data)

    def now_low(self) -> None:
        """Fewer bytes wait than were asked to be told of."""
        self._settle()

    def now_closed(self) -> None:
        """It is over."""
        if self._is_closed:
            return
        self._is_closed, self._is_open = True, False
        if self._opening is not None and not self._opening.done():
            self._opening.set_exception(ChannelClosed(_CLOSED))
        waiting, self._draining = self._draining, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(ChannelClosed(_CLOSED))
        self.on_close()

    # -- what everybody calls --------------------------------------------------------

    @property
    def on_message(self) -> Callable[[bytes | str], None]:
        """Who listens."""
        return self._listener or _nothing_with

    @on_message.setter
    def on_message(self, listener: Callable[[bytes | str], None]) -> None:
        self._listener = listener
        early, self._early = self._early, []
        for data in early:
            listener(data)

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._is_open

    @property
    def max_message_size(self) -> int:
        """The largest message that both ends take."""
        return self._limit()

    @property
    def buffered_amount(self) -> int:
        """Bytes that wait to be sent."""
        return 0 if self._is_closed else self._waiting()

    async def opened(self) -> None:
        """Wait until it is open."""
        if self._is_open:
            return
        if self._is_closed:
            raise ChannelClosed(_CLOSED)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._opening)

    def send(self, data: bytes | str) -> None:
        """Queue one message."""
        if not self._is_open:
            raise ChannelClosed("the channel is not open" if not self._is_closed else _CLOSED)
        size = len(data) if isinstance(data, bytes) or data.isascii() else len(data.encode())
        if size > self._limit():
            raise FrameTooLarge(size, self._limit())
        if self._waiting() + size > bounds.PEER_QUEUE_BYTES:
            raise QueueFull("the other end reads too slowly; wait before sending more")
        self._push(data)

    async def drain(self, low: int = bounds.PEER_LOW_WATER_BYTES) -> None:
        """Wait until no more than `low` bytes wait."""
        if self._is_closed:
            raise ChannelClosed(_CLOSED)
        if self._waiting() <= low:
            return
        future = asyncio.get_running_loop().create_future()
        self._draining.append((low, future))
        self._settle()
        await future

    def close(self) -> None:
        """Close it."""
        if self._is_closed:
            return
        self._shut()
        self.now_closed()

    def _settle(self) -> None:
        """Wake those whose wait is over, and ask to be told when the next is."""
        amount = self._waiting()
        for low, future in self._draining:
            if amount <= low and not future.done():
                future.set_result(None)
        self._draining = [(low, future) for low, future in self._draining if not future.done()]
        if self._draining:
            self._watch(max(low for low, _ in self._draining))


def _nothing() -> None: ...


def _nothing_with(data: bytes | str) -> None: ...
