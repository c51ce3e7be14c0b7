"""Who is in the room, and whom we ask for a connection, and when.

Of two that could ask each other, the one with the smaller name asks at once; the other
waits a little, and asks too if nothing came: an original never asks unless it was told
whom. With a target only the target is asked. Who was lost is asked again, a few times,
and at once when the signalling server says that it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from hubbub import bounds
from hubbub.net.backoff import Backoff
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.signalling import Listing, Member

_AGAIN_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


class Finder:
    """Decides whom to view."""

    def __init__(
        self,
        names: WireNames,
        stream_id: str,
        target: str | None,
        *,
        ask: Callable[[str], None],
        has: Callable[[str], bool],
    ) -> None:
        self._names = names
        self._own = stream_id
        self._target = target if target != stream_id else None
        self._ask = ask
        self._has = has
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tries: dict[str, Backoff] = {}
        self._listed: dict[str, str] = {}
        self.holders: dict[str, str] = {}
        """By stream id, the address of who has it, as the server says."""

    def stream_of(self, address: str) -> str | None:
        """The stream id of an address, as the server says."""
        return self._listed.get(address)

    def entered(self, listing: Listing) -> None:
        """We came into the room, or came back: that is who is there."""
        self._listed.clear()
        self.holders.clear()
        for member in listing.members[: bounds.SIGNAL_CLIENTS_OF_ONE_ROOM * 2]:
            self._note(member)
        if self._target is not None:
            self._soon(self._target, 0)

    def came(self, member: Member) -> None:
        """Somebody came, or said their stream id."""
        self._note(member)

    def lost(self, stream_id: str | None, *, is_over: bool) -> None:
        """The connection to somebody ended; `is_over`: they said goodbye."""
        if stream_id is None:
            return
        self._stop(stream_id)
        if is_over or not self._is_of_interest(stream_id):
            self._tries.pop(stream_id, None)
            return
        tries = self._tries.setdefault(stream_id, Backoff(_AGAIN_S))
        if tries.failures < len(_AGAIN_S):
            self._soon(stream_id, tries.next_s() + self._patience(stream_id))
        else:
            del self._tries[stream_id]

    def found(self, stream_id: str | None) -> None:
        """There is a connection to somebody."""
        if stream_id is not None:
            self._stop(stream_id)
            self._tries.pop(stream_id, None)

    def close(self) -> None:
        """Ask nobody any longer."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def wants(self, stream_id: str | None) -> bool:
        """Whether we may have asked for this stream."""
        return stream_id is not None and self._is_of_interest(stream_id)

    def _note(self, member: Member) -> None:
        clear = None if member.stream_id is None else self._names.clear(member.stream_id)
        if clear is None:
            return
        self._listed.pop(member.uuid, None)
        self._listed[member.uuid] = clear
        if len(self._listed) > bounds.SIGNAL_CLIENTS:
            self._forget(next(iter(self._listed)))  # Who leaves is not told, so the oldest has to go some time.
        self.holders[clear] = member.uuid
        if self._is_of_interest(clear) and not self._has(clear):
            self._tries.pop(clear, None)
            self._soon(clear, self._patience(clear))

    def _forget(self, address: str) -> None:
        name = self._listed.pop(address)
        if self.holders.get(name) == address:
            del self.holders[name]

    def _is_of_interest(self, stream_id: str) -> bool:
        return stream_id != self._own if self._target is None else stream_id == self._target

    def is_our_turn(self, stream_id: str) -> bool:
        """Whether it is for us to ask, and not for them."""
        return self._target is not None or self._own < stream_id

    def _patience(self, stream_id: str) -> float:
        return 0.0 if self.is_our_turn(stream_id) else bounds.PEER_VIEW_GRACE_S

    def _soon(self, stream_id: str, wait_s: float) -> None:
        self._stop(stream_id)
        self._timers[stream_id] = asyncio.get_running_loop().call_later(wait_s, self._now, stream_id)

    def _now(self, stream_id: str) -> None:
        self._timers.pop(stream_id, None)
        if not self._has(stream_id):
            self._ask(stream_id)

    def _stop(self, stream_id: str) -> None:
        timer = self._timers.pop(stream_id, None)
        if timer is not None:
            timer.cancel()
