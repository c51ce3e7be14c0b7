"""Arbitrary file messages of an admitted peer: nothing fails, and memory stays bounded."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs.peers.files.peer_views import make_envelope, make_peer

from hubbub.packs.peers import limits
from hubbub.packs.peers.files.files import Files
from hubbub.packs.peers.files.frames import write_frame
from hubbub.packs.peers.files.options import FileOptions, SendRequest
from hubbub.packs.peers.room import PeerView, Room, SendResult
from hubbub.packs.peers.wire import Envelope

KINDS = (
    "offer", "accept", "chunk", "ack", "nack", "complete", "complete_ack", "resume_req", "resume_state", "cancel",
)  # fmt: skip


class SilentRoom:
    """A room that records sent envelopes and delivers none."""

    def __init__(self, peers: Sequence[PeerView] = ()) -> None:
        self.peers = peers
        self.sent: list[tuple[str, Mapping[str, Any]]] = []

    def find(self, target: str) -> PeerView | None:
        return next((peer for peer in self.peers if target in (peer.uuid, peer.stream_id)), None)

    def bulk(self, uuid: str) -> None:
        return None

    async def drain(self, uuid: str, low: int = 0) -> None: ...

    def queued_bytes(self, uuid: str) -> int:
        return 0

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> SendResult:
        self.sent.append((kind, payload))
        return SendResult((to or "",))


class FileOnlySession:
    """A session with nothing but files."""

    def __init__(self, folder: str, peers: Sequence[PeerView] = ()) -> None:
        self.silent_room = SilentRoom(peers)
        self.room = cast("Room", self.silent_room)
        self.file_options = FileOptions(
            folders=(folder,), spool_dir=folder, max_bytes=100_000, spool_threshold_bytes=5000, ack_timeout_s=0.01
        )
        self.events: list[str] = []
        self.files = Files(self)

    def emit(self, type: str, /, **fields: Any) -> None:
        self.events.append(type)


IDS = st.sampled_from(["a", "b", "c"]) | st.text(max_size=5)
NUMBERS = st.sampled_from([0, 1, 2, 1024, 5000, 5001, 2**53 - 1]) | st.integers(-3, 10)
ANYTHING = (
    st.none() | st.booleans() | NUMBERS | st.text(max_size=4) | st.lists(st.lists(NUMBERS, max_size=3), max_size=3)
)
FIELDS = st.fixed_dictionaries(
    {"transfer_id": IDS},
    optional={
        "name": st.text(max_size=9),
        "total_bytes": NUMBERS,
        "total_chunks": NUMBERS,
        "chunk_bytes": NUMBERS,
        "seq": NUMBERS,
        "next_seq": NUMBERS,
        "expected_seq": NUMBERS,
        "received_bytes": NUMBERS,
        "data_base64": st.sampled_from(["", "AAAA", "!", "A" * 1368, "é"]),
        "chunk_hash": st.sampled_from(["", "0" * 64]),
        "file_hash": st.sampled_from(["", "0" * 64, "x"]),
        "reason": st.text(max_size=9),
        "status": st.text(max_size=9),
        "missing": ANYTHING,
    },
)
OFFERS = st.fixed_dictionaries(
    {
        "transfer_id": IDS,
        "total_bytes": st.just(5001),
        "total_chunks": st.just(5),
        "chunk_bytes": st.just(1024),
        "file_hash": st.just("0" * 64),
    }
)
ENVELOPES = st.tuples(st.sampled_from(KINDS), FIELDS) | st.tuples(st.just("offer"), OFFERS)
FRAMES = st.binary(max_size=20) | st.builds(
    write_frame, st.sampled_from(["a", "b", "c"]), st.integers(0, 6), st.sampled_from([bytes(1024), bytes(905), b"x"])
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), ENVELOPES | FRAMES), max_size=40), st.booleans())
def test_arbitrary_file_messages_break_nothing_and_complete_nothing(
    messages: list[tuple[int, Any]], is_hubbub: bool
) -> None:
    async def run(folder: str) -> None:
        session = FileOnlySession(folder)
        for number, thing in messages:
            if isinstance(thing, bytes):
                session.files.on_bytes(make_peer(number, is_hubbub=is_hubbub), thing)
            else:
                session.files.on_envelope(make_peer(number, is_hubbub=is_hubbub), make_envelope(*thing))
            await asyncio.sleep(0)
        assert not [each for each in session.files.incoming if each.status == "completed"]
        await session.files.close()
        assert not list(Path(folder).iterdir())

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), FIELDS), max_size=30), st.integers(1, 5000))
def test_arbitrary_replies_do_not_complete_a_transfer(messages: list[tuple[str, dict[str, Any]]], size: int) -> None:
    async def run(folder: str) -> None:
        session = FileOnlySession(folder, [make_peer(0)])
        sending = asyncio.create_task(session.files.send_data(bytes(size), SendRequest(transfer_id="a", max_retries=1)))
        for kind, payload in messages:
            session.files.on_envelope(make_peer(0), make_envelope(kind, {**payload, "transfer_id": "a"}))
            for _ in range(5):
                await asyncio.sleep(0)
        await session.files.close()
        await asyncio.wait([sending])
        assert sending.exception() is not None
        assert not {kind for kind, _ in session.silent_room.sent} - {f"file.{kind}" for kind in KINDS}
        assert "file_transfer_complete" not in session.events

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


def make_offer(name: str, size: int = 5001) -> Envelope:
    chunks = -(-size // 1024)
    return make_envelope(
        "offer",
        {"transfer_id": name, "total_bytes": size, "total_chunks": chunks, "chunk_bytes": 1024, "file_hash": "0" * 64},
    )


async def test_transfers_of_departed_peers_are_limited(tmp_path: Path) -> None:
    session = FileOnlySession(str(tmp_path))
    for number in range(2 * limits.FILE_INCOMING_TOTAL):
        session.files.on_envelope(make_peer(number), make_offer(f"t{number}"))
    unfinished = [each for each in session.files.incoming if not each.is_over]
    assert len(unfinished) == limits.FILE_INCOMING_TOTAL
    assert unfinished[-1].transfer_id == f"t{2 * limits.FILE_INCOMING_TOTAL - 1}"
    assert len([path for path in tmp_path.rglob("incoming_*") if path.is_file()]) == len(unfinished)
    assert len(session.files.incoming) <= limits.FILE_INCOMING_TOTAL + limits.FILES_FINISHED_TOTAL
    await session.files.close()


async def test_connected_peers_keep_their_transfer_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.packs.peers.limits.FILE_INCOMING_TOTAL", 3)
    session = FileOnlySession(str(tmp_path), [make_peer(number) for number in range(4)])
    for number in range(4):
        session.files.on_envelope(make_peer(number), make_offer(f"t{number}"))
    assert [each.transfer_id for each in session.files.incoming] == ["t0", "t1", "t2"]
    assert session.events.count("file_offer_rejected") == 1
    await session.files.close()


async def test_an_abandoned_transfer_is_replaced_by_the_next_of_its_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = FileOnlySession(str(tmp_path))
    for number in range(limits.FILE_INCOMING_PER_PEER):
        session.files.on_envelope(make_peer(0), make_offer(f"t{number}"))
    session.files.on_envelope(make_peer(0), make_offer("one too many"))
    session.files.on_envelope(make_peer(0), make_offer("many"))
    assert session.events.count("file_offer_rejected") == 2
    session.files.on_peer_gone(make_peer(0))
    assert {each.last_error for each in session.files.incoming} == {
        "the sender left; the transfer continues if it returns"
    }
    monkeypatch.setattr("hubbub.packs.peers.limits.FILE_IDLE_S", -1.0)
    session.files.on_envelope(make_peer(0), make_offer("after"))
    assert [each.transfer_id for each in session.files.incoming if not each.is_over] == ["after"]
    await session.files.close()
