"""Common parts of the channels and connections of both engines: limits, backpressure, early messages, a single close.

Each engine implements a few small methods and calls others. Messages that arrive before `on_message` is set are queued,
because a VDO.Ninja bridge sends as soon as its channel is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import Candidate, Channel, State, check_sdp, read_max_message_size
from hubbub.packs.peers.errors import ChannelClosed, FrameTooLarge, QueueFull

_CLOSED_MESSAGE: Final = "the channel is closed"
_MESSAGE_OVERHEAD_BYTES: Final = 64
"""Approximate overhead of a queued message, so that empty messages count as well."""


class EngineChannel:
    """Implements `engine.Channel`."""

    def __init__(self, label: str, limit: Callable[[], int]) -> None:
        self.label = label
        self.on_open: Callable[[], None] = _do_nothing
        self.on_close: Callable[[], None] = _do_nothing
        self._limit = limit
        self._listener: Callable[[bytes | str], None] | None = None
        self._early_messages: list[bytes | str] = []
        self._early_bytes = 0
        self._is_open = False
        self._is_closed = False
        self._opened_or_closed = asyncio.Event()
        self._drain_waiters: list[tuple[int, asyncio.Future[None]]] = []

    # -- implemented by each engine ------------------------------------------------

    def _send_native(self, data: bytes | str) -> None:
        raise NotImplementedError

    def _buffered_bytes(self) -> int:
        raise NotImplementedError

    def _set_low_threshold(self, low: int) -> None:
        raise NotImplementedError

    def _close_native(self) -> None:
        raise NotImplementedError

    # -- called by the engine --------------------------------------------------------

    def handle_open(self) -> None:
        """Mark the channel as open."""
        if self._is_open or self._is_closed:
            return
        self._is_open = True
        self._opened_or_closed.set()
        self.on_open()

    def handle_message(self, data: bytes | str) -> None:
        """Deliver a message, or queue it until `on_message` is set."""
        if self._is_closed:
            return
        if self._listener is None:
            self._early_messages.append(data)
            self._early_bytes += len(data) + _MESSAGE_OVERHEAD_BYTES
            if self._early_bytes > limits.PEER_QUEUE_BYTES:
                self.close()
        else:
            self._listener(data)

    def handle_buffer_low(self) -> None:
        """Handle the event that the send queue has fallen to the watched threshold."""
        self._wake_drained()

    def handle_close(self) -> None:
        """Mark the channel as closed."""
        if self._is_closed:
            return
        self._is_closed, self._is_open = True, False
        # An event, not a future: if the waiter has given up, asyncio would warn of an exception never retrieved.
        self._opened_or_closed.set()
        waiting, self._drain_waiters = self._drain_waiters, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(ChannelClosed(_CLOSED_MESSAGE))
        self.on_close()

    # -- public interface ------------------------------------------------------------

    @property
    def on_message(self) -> Callable[[bytes | str], None]:
        """The message handler; setting it delivers the queued messages."""
        return self._listener or _ignore

    @on_message.setter
    def on_message(self, listener: Callable[[bytes | str], None]) -> None:
        self._listener = listener
        early, self._early_messages = self._early_messages, []
        for data in early:
            listener(data)

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._is_open

    @property
    def max_message_size(self) -> int:
        """The largest message that both ends accept."""
        return self._limit()

    @property
    def buffered_amount(self) -> int:
        """Bytes queued for sending."""
        return 0 if self._is_closed else self._buffered_bytes()

    async def wait_open(self) -> None:
        """Wait until the channel is open."""
        await self._opened_or_closed.wait()
        if self._is_closed:
            raise ChannelClosed(_CLOSED_MESSAGE)

    def send(self, data: bytes | str) -> None:
        """Queue one message."""
        if not self._is_open:
            raise ChannelClosed("the channel is not open" if not self._is_closed else _CLOSED_MESSAGE)
        size = len(data) if isinstance(data, bytes) or data.isascii() else len(data.encode())
        if size > self._limit():
            raise FrameTooLarge(size, self._limit())
        if self._buffered_bytes() + size > limits.PEER_QUEUE_BYTES:
            raise QueueFull("the other end reads too slowly; wait before sending more")
        self._send_native(data)

    async def drain(self, low: int | None = None) -> None:
        """Wait until at most `low` bytes are queued."""
        low = limits.PEER_LOW_WATER_BYTES if low is None else low
        if self._is_closed:
            raise ChannelClosed(_CLOSED_MESSAGE)
        if self._buffered_bytes() <= low:
            return
        future = asyncio.get_running_loop().create_future()
        self._drain_waiters.append((low, future))
        self._wake_drained()
        await future

    def close(self) -> None:
        if self._is_closed:
            return
        self._close_native()
        self.handle_close()

    def _wake_drained(self) -> None:
        """Wake the waiters whose threshold is reached, and watch for the next one."""
        amount = self._buffered_bytes()
        for low, future in self._drain_waiters:
            if amount <= low and not future.done():
                future.set_result(None)
        self._drain_waiters = [(low, future) for low, future in self._drain_waiters if not future.done()]
        if self._drain_waiters:
            self._set_low_threshold(max(low for low, _ in self._drain_waiters))


class EngineConnection:
    """Implements `engine.Connection`."""

    def __init__(self) -> None:
        self.on_candidate: Callable[[Candidate], None] = _ignore
        self.on_channel: Callable[[Channel], None] = _ignore
        self.on_state: Callable[[State], None] = _ignore
        self._channels: list[EngineChannel] = []
        self._limit = limits.PEER_FRAME_BYTES
        self._is_closed = False

    # -- implemented by each engine --------------------------------------------------

    def _native_state(self) -> State:
        raise NotImplementedError

    def _make_channel(self, label: str) -> EngineChannel:
        raise NotImplementedError

    async def _describe(self, kind: Literal["offer", "answer"]) -> str:
        raise NotImplementedError

    async def _set_remote_description(self, kind: Literal["offer", "answer"], sdp: str) -> None:
        raise NotImplementedError

    async def _close_native(self) -> None:
        raise NotImplementedError

    # -- called by the engine --------------------------------------------------------

    def handle_channel(self, channel: EngineChannel) -> None:
        """Handle an open channel that the other end created."""
        channel.handle_open()
        self.on_channel(channel)

    def handle_state_change(self) -> None:
        """Report the new state."""
        if not self._is_closed:
            self.on_state(self.state)

    def max_message_size(self) -> int:
        """The largest message that both ends accept."""
        return self._limit

    # -- public interface ------------------------------------------------------------

    @property
    def state(self) -> State:
        return "closed" if self._is_closed else self._native_state()

    def create_channel(self, label: str) -> Channel:
        if self._is_closed:
            raise ChannelClosed("the connection is closed")
        return self.track_channel(self._make_channel(label))

    def track_channel(self, channel: EngineChannel) -> EngineChannel:
        """Close this channel with the connection."""
        self._channels.append(channel)
        return channel

    async def answer(self, offer_sdp: str) -> str:
        """Return our answer to an offer."""
        await self._apply_description("offer", offer_sdp)
        return await self._describe("answer")

    async def accept(self, answer_sdp: str) -> None:
        """Accept the answer to our offer."""
        await self._apply_description("answer", answer_sdp)

    async def _apply_description(self, kind: Literal["offer", "answer"], sdp: str) -> None:
        check_sdp(sdp)
        await self._set_remote_description(kind, sdp)
        self._limit = read_max_message_size(sdp)

    async def close(self) -> None:
        """Close the connection and all its channels."""
        if self._is_closed:
            return
        self._is_closed = True
        for channel in self._channels:
            channel.handle_close()
        await self._close_native()
        self.on_state("closed")


def _do_nothing() -> None: ...


def _ignore(_: object) -> None: ...
