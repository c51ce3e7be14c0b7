"""Synchronisation of one session's shared state with its peers.

A change is sent immediately. A new peer is asked for a snapshot; another Hubbub sends a digest of its state with each
heartbeat, and is asked again while the two differ. Snapshots are sent in pages, each of which can be applied without
the others. So peers converge after loss and partition, even those that never meet, as long as others connect them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import ChannelClosed, WireError
from hubbub.packs.peers.event_queue import iso_time
from hubbub.packs.peers.js_json import stringify
from hubbub.packs.peers.room import PeerView, Room
from hubbub.packs.peers.shared_state import Entry, SharedState
from hubbub.packs.peers.wire import Envelope, StatePatch, StateSnapshot, StateSnapshotReq

_PAUSE_FACTOR: Final = 10
"""Pause after a snapshot as a multiple of its duration: snapshots to one peer take at most a tenth of our time."""


class StateSession(Protocol):
    """What the state needs of its session."""

    @property
    def room(self) -> Room: ...

    def emit(self, type: str, /, **fields: Any) -> None:
        """Emit an event for `vdo_receive`."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that ends with the session."""


class _SnapshotTiming:
    """Timing of the snapshots exchanged with one peer."""

    def __init__(self) -> None:
        self.requested_at = -limits.STATE_SNAPSHOT_S
        self.next_at = 0.0
        """When the next snapshot may be sent to it."""
        self.is_sending = False
        self.is_requested_again = False
        self.pause_s = limits.STATE_SNAPSHOT_S
        """Grows while its snapshots bring nothing new: peers whose tables are full never converge."""
        self.is_reported = False
        """Whether a snapshot of it has caused an event since a caller last asked; after that, only changes do."""


class StateSync:
    """The shared state of one session, and its exchange with peers."""

    def __init__(self, session: StateSession, actor: str, max_keys: int, page_entries: int) -> None:
        self.shared = SharedState(actor, max_keys=max_keys, now=iso_time)
        self._session = session
        self._page_entries = page_entries
        self._peers: dict[str, _SnapshotTiming] = {}

    # -- called by the tools -------------------------------------------------------------

    def set(self, key: str, value: Any) -> Entry:
        """Write a key; return the entry.

        Raises: StateFull, ArgumentsInvalid, JsonError.
        """
        entry = self.shared.set(key, value)
        self._emit_updated(entry, "local")
        return entry

    def delete(self, key: str) -> Entry | None:
        """Delete a key here and at all peers; return the entry of the deletion, or None if there is no such key."""
        entry = self.shared.delete(key)
        if entry is not None:
            self._emit_updated(entry, "local")
            self.send(entry, None)
        return entry

    def send(self, entry: Entry, to: str | None) -> bool:
        """Send one entry; return whether any peer got it."""
        return self._session.room.send_envelope(StatePatch.kind, entry_fields(entry), to=to).ok

    def request_snapshots(self, to: str | None) -> bool:
        """Request snapshots for a caller; return whether any peer was asked."""
        for timing in self._peers.values():
            timing.is_reported = False
        return self._send_request(to)

    def _send_request(self, to: str | None) -> bool:
        room = self._session.room
        payload = {"room": room.options.room, "requester_stream_id": room.options.stream_id}
        return room.send_envelope(StateSnapshotReq.kind, payload, to=to).ok

    async def send_all(self, to: str | None) -> bool:
        """Send all entries to one peer or to all; return whether any peer got them."""
        room = self._session.room
        if to is None:
            peers = [peer for peer in room.peers if peer.is_admitted]
        else:
            found = room.find(to)
            peers = [] if found is None else [found]
        if not peers:
            return self._send_page([], to)
        return any([await self._send_pages(peer.uuid) for peer in peers])

    # -- messages of peers ---------------------------------------------------------------

    def on_peer_ready(self, peer: PeerView) -> None:
        """Ask a new peer for a snapshot. Another Hubbub is asked once; its heartbeats show when its state changes."""
        timing = self._peers.get(peer.uuid)
        if timing is None or not peer.is_hubbub:
            self._request_if_due(peer, timing or self._get_timing(peer))

    def on_peer_gone(self, peer: PeerView) -> None:
        """Forget the timing of a peer that left."""
        self._peers.pop(peer.uuid, None)

    def on_heartbeat(self, peer: PeerView, digest: str | None) -> None:
        """Ask for a snapshot if the digest of a peer differs from ours."""
        if digest is not None and digest != self.shared.digest:
            self._request_if_due(peer, self._get_timing(peer))

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """Handle a `state.*` envelope."""
        try:
            payload = envelope.read_payload()
        except WireError:
            payload = None
        match payload:
            case StatePatch():
                entry = self.shared.apply(envelope.payload, _share_owner(peer))
                if entry is not None:
                    self._emit_updated(entry, "remote", peer)
            case StateSnapshotReq():
                self._handle_request(peer)
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
        changed = self.shared.merge(snapshot.entries, snapshot.actor_clock, _share_owner(peer))
        for entry in changed[: limits.STATE_SNAPSHOT_EVENTS]:
            self._emit_updated(entry, "remote_snapshot", peer)
        timing = self._get_timing(peer)
        if changed:
            timing.pause_s = limits.STATE_SNAPSHOT_S
        elif timing.is_reported:
            return
        timing.is_reported = True
        self._session.emit(
            "state_snapshot_merged",
            from_uuid=peer.uuid,
            from_stream_id=peer.stream_id,
            applied=len(changed),
            offered=len(snapshot.entries),
        )

    def _emit_updated(self, entry: Entry, source: str, peer: PeerView | None = None) -> None:
        extra: dict[str, Any] = {} if peer is None else {"from_uuid": peer.uuid}
        if entry.deleted:
            extra["deleted"] = True
        self._session.emit(
            "state_updated",
            source=source,
            key=entry.key,
            actor=entry.actor,
            clock=entry.clock,
            value=entry.value,
            **extra,
        )

    # -- snapshots -----------------------------------------------------------------------

    def _get_timing(self, peer: PeerView) -> _SnapshotTiming:
        return self._peers.setdefault(peer.uuid, _SnapshotTiming())

    def _request_if_due(self, peer: PeerView, timing: _SnapshotTiming) -> None:
        now = time.monotonic()
        if now - timing.requested_at >= timing.pause_s:
            timing.requested_at = now
            timing.pause_s = min(timing.pause_s * 2, limits.STATE_SNAPSHOT_REQUEST_MAX_S)
            self._send_request(peer.uuid)

    def _handle_request(self, peer: PeerView) -> None:
        timing = self._get_timing(peer)
        if timing.is_sending:
            timing.is_requested_again = True
            return
        timing.is_sending = True
        self._session.spawn(self._send_snapshots(peer.uuid, timing))

    async def _send_snapshots(self, uuid: str, timing: _SnapshotTiming) -> None:
        """Send a snapshot, and another one if it was requested in the meantime, with a pause between them."""
        try:
            while True:
                await asyncio.sleep(timing.next_at - time.monotonic())
                timing.is_requested_again, started = False, time.monotonic()
                await self._send_pages(uuid)
                ended = time.monotonic()
                pause_s = min(_PAUSE_FACTOR * (ended - started), limits.STATE_SNAPSHOT_PAUSE_MAX_S)
                timing.next_at = ended + max(pause_s, limits.STATE_SNAPSHOT_S)
                if not timing.is_requested_again:
                    return
        finally:
            timing.is_sending = False

    async def _send_pages(self, uuid: str) -> bool:
        peer, is_sent = self._session.room.find(uuid), False
        # A VDO.Ninja bridge stores a deletion as a key, so it gets new deletions but not all earlier ones.
        is_hubbub = peer is not None and peer.is_hubbub
        entries = self.shared.entries_and_deletions if is_hubbub else self.shared.entries
        for page in split_pages(entries, self._page_entries):
            if not self._send_page(page, uuid):
                break
            is_sent = True
            try:
                await asyncio.sleep(0)  # Let other tasks run.
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
            "entries": [entry_fields(entry) for entry in page],
            "actor_clock": clocks,
            "generated_at": iso_time(),
        }
        return room.send_envelope(StateSnapshot.kind, payload, to=to).ok


def entry_fields(entry: Entry) -> dict[str, Any]:
    """Return an entry as it is sent and shown."""
    fields = msgspec.structs.asdict(entry)
    if not entry.deleted:
        del fields["deleted"]
    return fields


def _share_owner(peer: PeerView) -> str:
    """Return whose share of the table an entry uses; a peer that reconnects keeps its share."""
    return peer.stream_id or peer.uuid


def split_pages(entries: Sequence[Entry], count: int) -> Iterator[list[Entry]]:
    """Yield the entries in pages that fit into a message each; one empty page if there are none."""
    page: list[Entry] = []
    page_bytes = 0
    for entry in entries:
        entry_bytes = len(stringify(entry_fields(entry)).encode())
        if page and (len(page) >= count or page_bytes + entry_bytes > limits.STATE_PAGE_BYTES):
            yield page
            page, page_bytes = [], 0
        page.append(entry)
        page_bytes += entry_bytes
    yield page
