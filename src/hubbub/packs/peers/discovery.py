"""Which peers are in the room, which of them we offer a connection, and when.

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


class Discovery:
    """Decides which peers to connect to."""

    def __init__(
        self,
        names: WireNames,
        stream_id: str,
        target: str | None,
        *,
        has_stream: Callable[[str], bool],
    ) -> None:
        self._names = names
        self._own_stream_id = stream_id
        self._target = target if target != stream_id else None
        self.on_due: Callable[[str], None] = lambda stream_id: None
        """Called when it is time to connect to a stream id."""
        self._has_stream = has_stream
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._stream_ids: dict[str, str] = {}
        self._unanswered_offers: set[str] = set()
        self.addresses: dict[str, str] = {}
        """By stream id, the address that the server lists for it."""

    def stream_id_at(self, address: str) -> str | None:
        """Return the stream id that the server lists for an address."""
        return self._stream_ids.get(address)

    def address_to_offer(self, stream_id: str) -> str | None:
        """Return the address for an offer to this peer; None if we should ask for an offer instead."""
        return None if stream_id in self._unanswered_offers else self.addresses.get(stream_id)

    def record_unanswered(self, stream_id: str | None, *, is_offer: bool) -> None:
        """Handle an unanswered offer or request for an offer: use the other of the two next time."""
        if stream_id is not None and is_offer:
            self._unanswered_offers.add(stream_id)
        elif stream_id is not None:
            self._unanswered_offers.discard(stream_id)

    def handle_listing(self, listing: Listing) -> None:
        """Handle the list of members after entering the room, or returning to it."""
        self._stream_ids.clear()
        self.addresses.clear()
        for member in listing.members[: limits.SIGNAL_CLIENTS_PER_ROOM * 2]:
            self._record_member(member)
        if self._target is not None:
            self._schedule(self._target, 0)

    def handle_member(self, member: Member) -> None:
        """Handle a member that joined, or stated its stream id."""
        self._record_member(member)

    def handle_disconnect(self, stream_id: str | None, *, is_final: bool) -> None:
        """Handle the end of a connection; `is_final`: the peer sent `bye`, so it is not retried."""
        if stream_id is None:
            return
        self._cancel_timer(stream_id)
        if is_final or not self._is_wanted(stream_id):
            self._reset_retries(stream_id)
            return
        backoff = self._backoffs.setdefault(stream_id, Backoff(limits.PEER_RETRY_S))
        if backoff.failures < len(limits.PEER_RETRY_S):
            self._schedule(stream_id, backoff.next_s() + self._offer_delay_s(stream_id))
        else:
            self._reset_retries(stream_id)

    def handle_connect(self, stream_id: str | None) -> None:
        """Handle a successful connection."""
        if stream_id is not None:
            self._cancel_timer(stream_id)
            self._reset_retries(stream_id)

    def _reset_retries(self, stream_id: str) -> None:
        self._backoffs.pop(stream_id, None)
        self._unanswered_offers.discard(stream_id)

    def close(self) -> None:
        """Cancel all scheduled connections."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def is_own(self, stream_id: str) -> bool:
        """Whether this is our own stream id."""
        return stream_id == self._own_stream_id

    def _record_member(self, member: Member) -> None:
        clear = None if member.stream_id is None else self._names.plain_stream_id(member.stream_id)
        if clear is None:
            return
        if member.uuid in self._stream_ids:
            self._forget(member.uuid)
        self._stream_ids[member.uuid] = clear
        if len(self._stream_ids) > limits.SIGNAL_CLIENTS:
            self._forget(next(iter(self._stream_ids)))  # Departures are not reported, so drop the oldest entry.
        self.addresses[clear] = member.uuid
        if self._is_wanted(clear) and not self._has_stream(clear):
            self._reset_retries(clear)
            self._schedule(clear, self._offer_delay_s(clear))

    def _forget(self, address: str) -> None:
        name = self._stream_ids.pop(address)
        if self.addresses.get(name) == address:
            del self.addresses[name]

    def _is_wanted(self, stream_id: str) -> bool:
        return stream_id != self._own_stream_id if self._target is None else stream_id == self._target

    def offers_first(self, stream_id: str) -> bool:
        """Return whether we offer immediately, instead of waiting for an offer."""
        return self._target is not None or self._own_stream_id < stream_id

    def _offer_delay_s(self, stream_id: str) -> float:
        return 0.0 if self.offers_first(stream_id) else limits.PEER_VIEW_GRACE_S

    def _schedule(self, stream_id: str, wait_s: float) -> None:
        self._cancel_timer(stream_id)
        self._timers[stream_id] = asyncio.get_running_loop().call_later(wait_s, self._handle_timer, stream_id)

    def _handle_timer(self, stream_id: str) -> None:
        self._timers.pop(stream_id, None)
        if not self._has_stream(stream_id):
            self.on_due(stream_id)

    def _cancel_timer(self, stream_id: str) -> None:
        timer = self._timers.pop(stream_id, None)
        if timer is not None:
            timer.cancel()
