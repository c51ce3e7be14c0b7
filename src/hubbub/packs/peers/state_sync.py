"""The shared state of one session, kept the same as that of its peers.

A change is sent at once. Whoever comes is asked for all it has; another Hubbub tells with
each heartbeat a digest of what it has, and is asked again while the two differ. Snapshots
go in pages, each of which can be taken without the others. So ends agree after loss and
partition, also those that never meet, as long as others are between them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from hubbub import bounds
from hubbub.packs.peers.event_queue import iso_time
from hubbub.packs.peers.failures import ChannelClosed, WireError
from hubbub.packs.peers.javascript import stringify
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.room import Room
from hubbub.packs.peers.shared_state import Entry, SharedState
from hubbub.packs.peers.wire import Envelope, StatePatch, StateSnapshot, StateSnapshotReq

_REST: Final = 10
"""Snapshots to one peer take a tenth of our time at most, however often it asks."""


class StateSession(Protocol):
    """What the state needs of its session."""

    @property
    def room(self) -> Room: ...

    def emit(self, type: str, /, **fields: Any) -> None:
        """Tell what `vdo_receive` shows."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something meanwhile."""


class _Correspondent:
    """What was exchanged with one peer."""

    def __init__(self) -> None:
        self.asked_at = -bounds.STATE_SNAPSHOT_S
        self.next_at = 0.0
        """When it may be sent a snapshot again."""
        self.is_sending = False
        self.is_asked_again = False
        self.pause_s = bounds.STATE_SNAPSHOT_S
        """Grows while its snapshots bring nothing: ends whose tables are full never come to agree."""


class StateSync:
    """One session's state and its peers'."""

    def __init__(self, session: StateSession, actor: str, max_keys: int, page_entries: int) -> None:
        self.shared = SharedState(actor, max_keys=max_keys, now=iso_time)
        self._session = session
        self._page_entries = page_entries
        self._peers: dict[str, _Correspondent] = {}

    # -- what tools ask ------------------------------------------------------------------

    def set(self, key: str, value: Any) -> Entry:
        """Write; the entry.

        Raises: StateFull, ValueError.
        """
        entry = self.shared.set(key, value)
        self._told(entry, "local")
        return entry

    def send(self, entry: Entry, to: str | None) -> bool:
        """Send one entry; whether anybody got it."""
        return self._session.room.send_envelope(StatePatch.kind, fields_of(entry), to=to).ok

    def ask(self, to: str | None) -> bool:
        """Ask for everything; whether anybody was asked."""
        room = self._session.room
        payload = {"room": room.options.room, "requester_stream_id": room.options.stream_id}
        return room.send_envelope(StateSnapshotReq.kind, payload, to=to).ok

    async def send_all(self, to: str | None) -> bool:
        """Send everything to one peer or to all; whether anybody got it."""
        room = self._session.room
        if to is None:
            peers = [peer for peer in room.peers if peer.is_admitted]
        else:
            found = room.find(to)
            peers = [] if found is None else [found]
        if not peers:
            return self._send_page([], to)
        return any([await self._send_pages(peer.uuid) for peer in peers])

    # -- what peers say ------------------------------------------------------------------

    def on_peer_ready(self, peer: PeerView) -> None:
        """Somebody is there: ask for what they have. Another Hubbub will tell us when that changes."""
        known = self._peers.get(peer.uuid)
        if known is None or not peer.is_hubbub:
            self._ask_now_and_then(peer, known or self._of(peer))

    def on_peer_gone(self, peer: PeerView) -> None:
        """Somebody is gone."""
        self._peers.pop(peer.uuid, None)

    def on_heartbeat(self, peer: PeerView, digest: str | None) -> None:
        """Somebody told what they have."""
        if digest is not None and digest != self.shared.digest:
            self._ask_now_and_then(peer, self._of(peer))

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """Somebody sent a `state.*` envelope."""
        try:
            payload = envelope.read()
        except WireError:
            payload = None
        match payload:
            case StatePatch():
                entry = self.shared.apply(envelope.payload)
                if entry is not None:
                    self._told(entry, "remote")
            case StateSnapshotReq():
                self._asked(peer)
            case StateSnapshot():
                self._merge(peer, payload)
            case _:
                self._session.emit(
                    "state_protocol_unhandled",
                    kind=envelope.kind[:64],
                    from_uuid=peer.uuid,
                    from_stream_id=peer.stream_id,
                )

    def _merge(self, peer: PeerView, snapshot: StateSnapshot) -> None:
        won = self.shared.merge(snapshot.entries, snapshot.actor_clock)
        for entry in won[: bounds.STATE_NOTICES]:
            self._told(entry, "remote_snapshot")
        if won:
            self._of(peer).pause_s = bounds.STATE_SNAPSHOT_S
        self._session.emit(
            "state_snapshot_merged",
            from_uuid=peer.uuid,
            from_stream_id=peer.stream_id,
            applied=len(won),
            offered=len(snapshot.entries),
        )

    def _told(self, entry: Entry, source: str) -> None:
        self._session.emit(
            "state_updated", source=source, key=entry.key, actor=entry.actor, clock=entry.clock, value=entry.value
        )

    # -- snapshots -----------------------------------------------------------------------

    def _of(self, peer: PeerView) -> _Correspondent:
        return self._peers.setdefault(peer.uuid, _Correspondent())

    def _ask_now_and_then(self, peer: PeerView, known: _Correspondent) -> None:
        now = time.monotonic()
        if now - known.asked_at >= known.pause_s:
            known.asked_at = now
            known.pause_s = min(known.pause_s * 2, bounds.STATE_SNAPSHOT_PAUSE_S)
            self.ask(peer.uuid)

    def _asked(self, peer: PeerView) -> None:
        known = self._of(peer)
        if known.is_sending:
            known.is_asked_again = True
            return
        known.is_sending = True
        self._session.spawn(self._answer(peer.uuid, known))

    async def _answer(self, uuid: str, known: _Correspondent) -> None:
        """Send everything, and once more if that was asked for meanwhile; never in quick succession."""
        try:
            while True:
                await asyncio.sleep(known.next_at - time.monotonic())
                known.is_asked_again, begun = False, time.monotonic()
                await self._send_pages(uuid)
                ended = time.monotonic()
                pause_s = min(_REST * (ended - begun), bounds.STATE_SNAPSHOT_REST_S)
                known.next_at = ended + max(pause_s, bounds.STATE_SNAPSHOT_S)
                if not known.is_asked_again:
                    return
        finally:
            known.is_sending = False

    async def _send_pages(self, uuid: str) -> bool:
        is_sent = False
        for page in pages(self.shared.entries, self._page_entries):
            if not self._send_page(page, uuid):
                break
            is_sent = True
            try:
                await asyncio.sleep(0)  # Others have something to do, too.
                await self._session.room.drain(uuid)
            except ChannelClosed:
                break
        return is_sent

    def _send_page(self, page: Sequence[Entry], to: str | None) -> bool:
        room = self._session.room
        clocks: dict[str, int] = {}
        for entry in page:
            clocks[entry.actor] = max(clocks.get(entry.actor, 0), entry.clock)
        payload = {
            "room": room.options.room,
            "stream_id": room.options.stream_id,
            "entries": [fields_of(entry) for entry in page],
            "actor_clock": clocks,
            "generated_at": iso_time(),
        }
        return room.send_envelope(StateSnapshot.kind, payload, to=to).ok


def fields_of(entry: Entry) -> dict[str, Any]:
    """An entry as it is sent and shown."""
    return msgspec.structs.asdict(entry)


def pages(entries: Sequence[Entry], count: int) -> Iterator[list[Entry]]:
    """The entries in portions that fit into a message each; one empty portion if there are none."""
    page: list[Entry] = []
    taken = 0
    for entry in entries:
        takes = len(stringify(fields_of(entry)).encode())
        if page and (len(page) >= count or taken + takes > bounds.STATE_PAGE_BYTES):
            yield page
            page, taken = [], 0
        page.append(entry)
        taken += takes
    yield page
