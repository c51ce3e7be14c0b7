"""Who is in the room, whom we offer a connection to, and when.

Of two peers, the one with the smaller stream id offers immediately; the other waits a little and offers too if nothing
arrived: a VDO.Ninja bridge never offers unless it is configured with a target. If we have a target, only the target
gets an offer. A lost peer is retried a few times, and immediately when the signalling server lists it again. A peer
that ignores an offer is asked for one the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hubbub.pack.http import Backoff
from hubbub.packs.peers import limits
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.signalling import Listing, Member


class Finder:
    """Decides which peers to connect to."""

    def __init__(
        self,
        names: WireNames,
        stream_id: str,
        target: str | None,
        *,
        has: Callable[[str], bool],
    ) -> None:
        self._names = names
        self._own = stream_id
        self._target = target if target != stream_id else None
        self.on_due: Callable[[str], None] = lambda stream_id: None
        """Called when it is time to connect to a stream id."""
        self._has = has
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tries: dict[str, Backoff] = {}
        self._listed: dict[str, str] = {}
        self._ignored_offer: set[str] = set()
        self.holders: dict[str, str] = {}
        """By stream id, the address that the server lists for it."""

    def stream_of(self, address: str) -> str | None:
        """Return the stream id that the server lists for an address."""
        return self._listed.get(address)

    def address_to_offer(self, stream_id: str) -> str | None:
        """Return the address for an offer to this peer; None if we should ask for an offer instead."""
        return None if stream_id in self._ignored_offer else self.holders.get(stream_id)

    def note_ignored(self, stream_id: str | None, *, is_offer: bool) -> None:
        """Handle an unanswered offer or request for an offer: use the other of the two next time."""
        if stream_id is not None and is_offer:
            self._ignored_offer.add(stream_id)
        elif stream_id is not None:
            self._ignored_offer.discard(stream_id)

    def entered(self, listing: Listing) -> None:
        """Handle the list of members after entering the room, or returning to it."""
        self._listed.clear()
        self.holders.clear()
        for member in listing.members[: limits.SIGNAL_CLIENTS_OF_ONE_ROOM * 2]:
            self._note(member)
        if self._target is not None:
            self._soon(self._target, 0)

    def came(self, member: Member) -> None:
        """Handle a member that joined, or stated its stream id."""
        self._note(member)

    def lost(self, stream_id: str | None, *, is_over: bool) -> None:
        """Handle the end of a connection; `is_over`: the peer said `bye`, so it is not retried."""
        if stream_id is None:
            return
        self._stop(stream_id)
        if is_over or not self._is_of_interest(stream_id):
            self._give_up(stream_id)
            return
        tries = self._tries.setdefault(stream_id, Backoff(limits.PEER_RETRY_S))
        if tries.failures < len(limits.PEER_RETRY_S):
            self._soon(stream_id, tries.next_s() + self._patience(stream_id))
        else:
            self._give_up(stream_id)

    def found(self, stream_id: str | None) -> None:
        """Handle a successful connection."""
        if stream_id is not None:
            self._stop(stream_id)
            self._give_up(stream_id)

    def _give_up(self, stream_id: str) -> None:
        self._tries.pop(stream_id, None)
        self._ignored_offer.discard(stream_id)

    def close(self) -> None:
        """Cancel all scheduled connections."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def is_own(self, stream_id: str) -> bool:
        """Whether this is our own stream id."""
        return stream_id == self._own

    def _note(self, member: Member) -> None:
        clear = None if member.stream_id is None else self._names.clear(member.stream_id)
        if clear is None:
            return
        if member.uuid in self._listed:
            self._forget(member.uuid)
        self._listed[member.uuid] = clear
        if len(self._listed) > limits.SIGNAL_CLIENTS:
            self._forget(next(iter(self._listed)))  # Departures are not reported, so drop the oldest entry.
        self.holders[clear] = member.uuid
        if self._is_of_interest(clear) and not self._has(clear):
            self._give_up(clear)
            self._soon(clear, self._patience(clear))

    def _forget(self, address: str) -> None:
        name = self._listed.pop(address)
        if self.holders.get(name) == address:
            del self.holders[name]

    def _is_of_interest(self, stream_id: str) -> bool:
        return stream_id != self._own if self._target is None else stream_id == self._target

    def is_our_turn(self, stream_id: str) -> bool:
        """Return whether we offer immediately, instead of waiting for an offer."""
        return self._target is not None or self._own < stream_id

    def _patience(self, stream_id: str) -> float:
        return 0.0 if self.is_our_turn(stream_id) else limits.PEER_VIEW_GRACE_S

    def _soon(self, stream_id: str, wait_s: float) -> None:
        self._stop(stream_id)
        self._timers[stream_id] = asyncio.get_running_loop().call_later(wait_s, self._now, stream_id)

    def _now(self, stream_id: str) -> None:
        self._timers.pop(stream_id, None)
        if not self._has(stream_id):
            self.on_due(stream_id)

    def _stop(self, stream_id: str) -> None:
        timer = self._timers.pop(stream_id, None)
        if timer is not None:
            timer.cancel()
