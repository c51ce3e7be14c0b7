"""One connection to one peer: the channel of text, the channel of bytes, and signs of life.

A publisher makes the channels, a viewer takes them. Which messages mean what is not its
business: it calls its owner for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from hubbub.packs.peers.engine import Candidate, Channel, Connection, State
from hubbub.packs.peers.failures import ChannelClosed, PeersError
from hubbub.packs.peers.wire import BULK_CHANNEL, CHANNEL

Role: TypeAlias = Literal["publisher", "viewer"]
"""Ours: a publisher was asked for the connection, a viewer asked."""
_STRANGE_CHANNELS: Final = 8


class LinkOwner(Protocol):
    """Who is told what happens on a link; on the loop's thread."""

    def link_opened(self, link: Link) -> None:
        """Text can be sent."""

    def link_heard(self, link: Link, text: str) -> None:
        """A frame of text came."""

    def link_got_bytes(self, link: Link, data: bytes) -> None:
        """A frame of bytes came."""

    def link_found(self, link: Link, candidate: Candidate) -> None:
        """One more address of ours."""

    def link_closed(self, link: Link, reason: str) -> None:
        """It is over; called once."""


class Link:
    """One connection."""

    def __init__(
        self,
        owner: LinkOwner,
        connection: Connection,
        role: Role,
        session: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self.role = role
        self.session = session
        self.made_at = clock()
        self.heard_at = clock()
        self.asked_at = clock()
        self.is_closed = False
        self.reason = ""
        self.is_parting = False
        self.is_described = False
        """Whether the other end's description is known; addresses that come before wait."""
        self.early: list[Candidate] = []
        self.bad_frames = 0
        self.wants_bulk = False
        """Whether the other end may make a channel of bytes."""
        self._owner = owner
        self._clock = clock
        self._strange = 0
        self._held: Channel | None = None
        self._settled = asyncio.Event()
        self._over = asyncio.Event()
        self.has_been_open = False
        self.channel: Channel | None = None
        self.bulk: Channel | None = None
        connection.on_candidate = lambda found: owner.link_found(self, found)
        connection.on_channel = self._announced
        connection.on_state = self._changed
        if role == "publisher":
            self._use(connection.create_channel(CHANNEL))

    @property
    def is_open(self) -> bool:
        """Whether text can be sent."""
        return self.channel is not None and self.channel.is_open

    @property
    def bulk_channel(self) -> Channel | None:
        """The channel of bytes, if it is open."""
        return self.bulk if self.bulk is not None and self.bulk.is_open else None

    @property
    def silent_s(self) -> float:
        """How long nothing was heard."""
        return self._clock() - self.heard_at

    @property
    def unasked_s(self) -> float:
        """How long ago it was asked for a sign of life."""
        return self._clock() - self.asked_at

    def note_question(self) -> None:
        """It is asked for a sign of life."""
        self.asked_at = self._clock()

    def note_life(self) -> None:
        """Somebody is there."""
        self.heard_at = self._clock()

    def send(self, text: str) -> None:
        """Send text.

        Raises: ChannelClosed, FrameTooLarge, QueueFull.
        """
        if self.channel is None:
            raise ChannelClosed("the channel is not open")
        self.channel.send(text)

    def add_bulk(self) -> None:
        """Make the channel of bytes, or let the other end make it: the publisher does."""
        self.wants_bulk = True
        if self._held is not None and self.bulk is None:
            self._use_bulk(self._held)
        if self.role == "publisher" and self.bulk is None and self.is_open:
            try:
                self._use_bulk(self.connection.create_channel(BULK_CHANNEL))
            except PeersError:
                pass

    async def settled(self) -> None:
        """Wait until it is open.

        Raises: ChannelClosed.
        """
        if self.role == "publisher" and self.channel is not None:
            await self.channel.opened()
            if not self.is_closed:
                self._opened()
        await self._settled.wait()
        if self.is_closed:
            raise ChannelClosed(self.reason)

    async def part(self, word: str) -> None:
        """Say a last word, and wait until the other end closes: what it has not read by then, it never reads.

        Raises: ChannelClosed, FrameTooLarge, QueueFull.
        """
        self.is_parting = True
        self.send(word)
        await self._over.wait()

    def release(self) -> None:
        """The other end has heard our last word, or leaves too."""
        self._over.set()

    async def close(self, reason: str) -> None:
        """End it."""
        self._ended(reason)
        await self.connection.close()

    def _opened(self) -> None:
        self.note_life()
        self.has_been_open = True
        self._settled.set()
        self._owner.link_opened(self)

    def _use(self, channel: Channel) -> None:
        self.channel = channel
        channel.on_close = lambda: self._ended("the channel was closed")
        channel.on_message = self._heard

    def _use_bulk(self, channel: Channel) -> None:
        self.bulk = channel
        channel.on_message = self._got

    def _announced(self, channel: Channel) -> None:
        if self.is_closed:
            return
        if channel.label == CHANNEL and self.channel is None:
            # The owner greets first; what the other end said already comes after that.
            self.channel = channel
            self._opened()
            self._use(channel)
        elif channel.label == BULK_CHANNEL and self.bulk is None and self.wants_bulk:
            self._use_bulk(channel)
        elif channel.label == BULK_CHANNEL and self._held is None:
            self._held = channel  # It may overtake the hello that explains it.
        else:
            channel.close()
            self._strange += 1
            if self._strange > _STRANGE_CHANNELS:
                self._ended("the other end made too many channels")

    def _heard(self, data: bytes | str) -> None:
        self.note_life()
        if self.is_closed:
            return
        if isinstance(data, str):
            self._owner.link_heard(self, data)
        else:
            self.bad_frames += 1

    def _got(self, data: bytes | str) -> None:
        self.note_life()
        if not self.is_closed and isinstance(data, bytes):
            self._owner.link_got_bytes(self, data)

    def _changed(self, state: State) -> None:
        if state in ("failed", "closed"):
            self._ended("the connection failed" if state == "failed" else "the connection was closed")

    def _ended(self, reason: str) -> None:
        if not self.is_closed:
            self.is_closed, self.reason = True, "we left" if self.is_parting else reason
            self._settled.set()
            self._over.set()
            self._owner.link_closed(self, self.reason)
