"""One connection to one peer: the text channel and the bulk channel.

A publisher creates the channels, a viewer accepts them. A link does not interpret messages; it calls plain functions
that its creator sets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import Candidate, Channel, Connection, State
from hubbub.packs.peers.errors import ChannelClosed, PeersError
from hubbub.packs.peers.wire import BULK_CHANNEL, TEXT_CHANNEL

Role: TypeAlias = Literal["publisher", "viewer"]
"""Our role: a publisher offers the connection, a viewer answers."""


class Link:
    """One connection."""

    def __init__(
        self, connection: Connection, role: Role, session: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.on_open: Callable[[], None] = _ignore
        """Called when text can be sent."""
        self.on_text: Callable[[str], None] = _ignore
        self.on_bytes: Callable[[bytes], None] = _ignore
        self.on_bulk_open: Callable[[], None] = _ignore
        """Called when bytes can be sent."""
        self.on_close: Callable[[str], None] = _ignore
        """Called once with the reason when the connection ended."""
        self.connection = connection
        self.role = role
        self.session = session
        self.is_closed = False
        self.reason = ""
        self.is_leaving = False
        self.is_described = False
        """Whether the other end's description is known; `early_candidates` holds ICE candidates that arrive earlier."""
        self.early_candidates: list[Candidate] = []
        self.bad_frames = 0
        self.accepts_bulk = False
        """Whether the other end may create a bulk channel."""
        self._clock = clock
        self._created_at = clock()
        self._unknown_channels = 0
        self._early_bulk: Channel | None = None
        self._opened_or_closed = asyncio.Event()
        self._closed = asyncio.Event()
        self.has_been_open = False
        self.channel: Channel | None = None
        self.bulk: Channel | None = None
        connection.on_channel = self._handle_channel
        connection.on_state = self._handle_state
        if role == "publisher":
            self._attach_channel(connection.create_channel(TEXT_CHANNEL))

    @property
    def is_open(self) -> bool:
        """Whether text can be sent."""
        return self.channel is not None and self.channel.is_open

    @property
    def is_opening(self) -> bool:
        """Whether the connection is established and its channel opens next."""
        return not self.has_been_open and not self.is_closed and self.connection.state == "connected"

    @property
    def open_bulk(self) -> Channel | None:
        """The bulk channel, if it is open."""
        return self.bulk if self.bulk is not None and self.bulk.is_open else None

    @property
    def age_s(self) -> float:
        """Seconds since the connection was created."""
        return self._clock() - self._created_at

    def send(self, text: str) -> None:
        """Send a text message.

        Raises: ChannelClosed, FrameTooLarge, QueueFull.
        """
        if self.channel is None:
            raise ChannelClosed("the channel is not open")
        self.channel.send(text)

    def add_bulk(self) -> None:
        """Create the bulk channel as publisher, or accept the one that the publisher creates."""
        self.accepts_bulk = True
        if self._early_bulk is not None and self.bulk is None:
            self._attach_bulk(self._early_bulk)
        if self.role == "publisher" and self.bulk is None and self.is_open:
            try:
                self._attach_bulk(self.connection.create_channel(BULK_CHANNEL))
            except PeersError:
                pass

    async def wait_open(self) -> None:
        """Wait until the text channel is open.

        Raises: ChannelClosed.
        """
        if self.role == "publisher" and self.channel is not None:
            await self.channel.wait_open()
            if not self.is_closed:
                self._handle_open()
        await self._opened_or_closed.wait()
        if self.is_closed:
            raise ChannelClosed(self.reason)

    async def send_last(self, last_message: str) -> None:
        """Send a last message, and wait until the other end closes: what it has not read by then is lost.

        Wait for a channel that is about to open: it may already be open at the other end.

        Raises: ChannelClosed, FrameTooLarge, QueueFull.
        """
        self.is_leaving = True
        await self._opened_or_closed.wait()
        self.send(last_message)
        await self._closed.wait()

    def stop_waiting(self) -> None:
        """Stop waiting in `send_last`: the other end has read our last message, or leaves too."""
        self._closed.set()

    def detach(self) -> None:
        """Remove all callbacks, because another connection replaces this one."""
        self.on_open = self.on_text = self.on_bytes = self.on_bulk_open = self.on_close = _ignore

    def end(self, reason: str) -> None:
        """Report the end once; `on_close` closes the connection."""
        if not self.is_closed:
            self.is_closed, self.reason = True, "we left" if self.is_leaving else reason
            self._opened_or_closed.set()
            self._closed.set()
            self.on_close(self.reason)

    async def close(self, reason: str) -> None:
        """Report the end, and close the connection."""
        self.end(reason)
        await self.connection.close()

    def _handle_open(self) -> None:
        self.has_been_open = True
        self._opened_or_closed.set()
        self.on_open()

    def _attach_channel(self, channel: Channel) -> None:
        self.channel = channel
        channel.on_close = lambda: self.end("the channel was closed")
        channel.on_message = self._handle_text

    def _attach_bulk(self, channel: Channel) -> None:
        self.bulk = channel
        channel.on_message = self._handle_bytes
        channel.on_open = self._handle_bulk_open
        if channel.is_open:
            self._handle_bulk_open()

    def _handle_bulk_open(self) -> None:
        self.on_bulk_open()

    def _handle_channel(self, channel: Channel) -> None:
        if self.is_closed:
            return
        if channel.label == TEXT_CHANNEL and self.channel is None:
            # `on_open` sends the hello first; messages that the other end sent already are delivered after that.
            self.channel = channel
            self._handle_open()
            self._attach_channel(channel)
        elif channel.label == BULK_CHANNEL and self.bulk is None and self.accepts_bulk:
            self._attach_bulk(channel)
        elif channel.label == BULK_CHANNEL and self._early_bulk is None:
            self._early_bulk = channel  # It may arrive before the hello that announces it.
        else:
            channel.close()
            self._unknown_channels += 1
            if self._unknown_channels > limits.PEER_UNKNOWN_CHANNELS:
                self.end("the other end opened too many channels")

    def _handle_text(self, data: bytes | str) -> None:
        if self.is_closed:
            return
        # Binary data on this channel counts as an unreadable frame.
        self.on_text(data if isinstance(data, str) else "")

    def _handle_bytes(self, data: bytes | str) -> None:
        if not self.is_closed and isinstance(data, bytes):
            self.on_bytes(data)

    def _handle_state(self, state: State) -> None:
        if state in ("failed", "closed"):
            self.end("the connection failed" if state == "failed" else "the connection was closed")


def _ignore(*_: Any) -> None: ...
