"""The receiver, with chunks in any order, repeated, wrong or missing."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs.peers.files.file_agents import limit_file_size
from tests.packs.peers.room_agents import WAIT_S

from hubbub.packs.peers.files.chunk_map import ChunkLayout
from hubbub.packs.peers.files.receiver import Receiver
from hubbub.packs.peers.files.spool import MemoryStore, SpoolStore
from hubbub.packs.peers.files.transfer import IncomingTransfer
from hubbub.packs.peers.wire import FileChunk, FileComplete


class RecordingCallbacks:
    """Records what the receiver sends and emits."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.over: list[IncomingTransfer] = []

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None) -> None:
        self.sent.append((kind, payload))

    def emit(self, type: str, /, **fields: Any) -> None:
        self.events.append((type, fields))

    def handle_finished(self, transfer: IncomingTransfer) -> None:
        self.over.append(transfer)

    def sent_payloads(self, kind: str) -> list[Mapping[str, Any]]:
        return [payload for sent_kind, payload in self.sent if sent_kind == kind]

    def events_of(self, type: str) -> list[Mapping[str, Any]]:
        return [fields for emitted_type, fields in self.events if emitted_type == type]


class ReceiverHarness:
    """A receiver of one file, and the file."""

    def __init__(self, data: bytes, chunk: int, folder: Path | None = None, *, file_hash: str | None = None) -> None:
        self.data, self.layout, self.callbacks = data, ChunkLayout(len(data), chunk), RecordingCallbacks()
        self.transfer = IncomingTransfer("t", "name", "mime", self.layout)
        self.transfer.file_hash = file_hash or hashlib.sha256(data).hexdigest()
        self.transfer.peer_uuid = "u"
        self.store = MemoryStore(len(data)) if folder is None else SpoolStore(folder / os.urandom(4).hex())
        self.receiver = Receiver(self.callbacks, self.transfer, self.store)

    def part(self, first: int, last: int) -> memoryview:
        return memoryview(self.data)[self.layout.offset(first) : self.layout.offset(last)]

    def chunk(self, seq: int, /, **changes: Any) -> FileChunk:
        data = bytes(self.part(seq, seq + 1))
        fields: dict[str, Any] = {
            "transfer_id": "t",
            "seq": seq,
            "data_base64": base64.b64encode(data).decode(),
            "chunk_hash": hashlib.sha256(data).hexdigest(),
        }
        return FileChunk(**fields | changes)

    def complete(self, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "transfer_id": "t",
            "total_bytes": len(self.data),
            "file_hash": hashlib.sha256(self.data).hexdigest(),
        }
        self.receiver.handle_complete(FileComplete(**fields | changes))

    async def until(self, is_so: Any) -> None:
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                await asyncio.sleep(0)

    async def wait_idle(self) -> None:
        await self.until(lambda: self.receiver.is_idle)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 16), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_chunks_in_any_order_and_repeated_make_the_file(
    size: int, chunk: int, chance: random.Random, is_spooled: bool, is_hubbub: bool
) -> None:
    async def run(folder: Path | None) -> None:
        harness = ReceiverHarness(chance.randbytes(size), chunk, folder)
        harness.receiver.replies.is_hubbub = is_hubbub
        total = harness.layout.total_chunks
        runs = [(first, min(first + chance.randint(1, 3), total)) for first in range(total)]
        runs += chance.choices(runs, k=chance.randint(0, 8))
        chance.shuffle(runs)
        for first, last in runs:
            if chance.random() < 0.5:
                harness.receiver.handle_bytes(first, harness.part(first, last))
            else:
                for seq in range(first, last):
                    harness.receiver.handle_chunk(harness.chunk(seq))
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        await harness.wait_idle()
        assert harness.transfer.status == "completed"
        assert harness.store.read(0, size) == harness.data
        harness.complete()
        assert (
            len(harness.callbacks.sent_payloads("file.complete_ack")) == 1 + is_hubbub
        )  # A Hubbub sender also gets one before file.complete.
        assert len(harness.callbacks.events_of("file_received")) == 1
        await harness.receiver.close(keep=False)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) if is_spooled else None))
        assert not list(Path(folder).iterdir())


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 300), st.integers(1, 16), st.randoms(use_true_random=False))
def test_missing_chunks_are_requested_and_the_transfer_stays_incomplete(
    size: int, chunk: int, chance: random.Random
) -> None:
    async def run() -> None:
        harness = ReceiverHarness(chance.randbytes(size), chunk)
        harness.receiver.replies.is_hubbub = True
        total = harness.layout.total_chunks
        lost = {seq for seq in range(total) if chance.random() < 0.4} or {chance.randrange(total)}
        for seq in set(range(total)) - lost:
            harness.receiver.handle_bytes(seq, harness.part(seq, seq + 1))
        await harness.wait_idle()
        harness.complete()
        await harness.wait_idle()
        status = harness.transfer.status
        assert status == "receiving"
        nack = harness.callbacks.sent_payloads("file.nack")[-1]
        assert (nack["reason"], nack["expected_seq"]) == ("missing_chunks", min(lost))
        assert {seq for first, last in nack["missing"] for seq in range(first, last)} >= lost
        harness.receiver.replies.send_state()
        state = harness.callbacks.sent_payloads("file.resume_state")[-1]
        assert (state["next_seq"], state["status"]) == (min(lost), "receiving")
        for first, last in state["missing"]:
            harness.receiver.handle_bytes(first, harness.part(first, last))
        await harness.wait_idle()
        assert harness.transfer.status == "completed"
        assert harness.store.read(0, size) == harness.data

    asyncio.run(run())


async def test_a_received_chunk_is_not_replaced() -> None:
    harness = ReceiverHarness(b"a" * 10 + b"b" * 10, 10)
    harness.receiver.handle_bytes(0, harness.part(0, 1))
    harness.receiver.handle_bytes(0, memoryview(b"x" * 10))
    await harness.wait_idle()
    harness.receiver.handle_bytes(0, memoryview(b"y" * 10))
    harness.receiver.handle_bytes(1, harness.part(1, 2))
    await harness.wait_idle()
    assert harness.transfer.status == "completed"
    assert harness.store.read(0, 20) == harness.data


@pytest.mark.parametrize("is_spooled", [False, True])
async def test_a_file_with_a_wrong_hash_fails_and_is_removed(is_spooled: bool, tmp_path: Path) -> None:
    harness = ReceiverHarness(b"abc" * 10, 10, tmp_path if is_spooled else None, file_hash="0" * 64)
    harness.receiver.handle_bytes(0, harness.part(0, 3))
    await harness.wait_idle()
    assert (harness.transfer.status, harness.transfer.last_error) == ("failed", "file hash mismatch")
    assert [nack["reason"] for nack in harness.callbacks.sent_payloads("file.nack")] == ["file hash mismatch"]
    assert not harness.transfer.has_data
    assert not list(tmp_path.iterdir())
    harness.complete()
    assert not harness.callbacks.sent_payloads("file.complete_ack")
    harness.receiver.replies.send_state()
    # A VDO.Ninja bridge would take the number of the last chunk for success.
    assert harness.callbacks.sent_payloads("file.resume_state")[-1]["next_seq"] == 0
    assert not harness.callbacks.events_of("file_received")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"total_bytes": 29}, "byte size mismatch expected=29 got=30"),
        ({"file_hash": "1" * 64}, "file hash mismatch"),
    ],
)
async def test_file_complete_that_contradicts_the_offer_fails_the_transfer(change: dict[str, Any], reason: str) -> None:
    harness = ReceiverHarness(b"abc" * 10, 10)
    harness.receiver.handle_bytes(0, harness.part(0, 2))
    await harness.wait_idle()
    harness.complete(**change)
    assert (harness.transfer.status, harness.transfer.last_error) == ("failed", reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seq": 3}, "out_of_range_seq"),
        ({"data_base64": "!!!"}, "invalid_chunk_data"),
        ({"data_base64": "YWJj"}, "invalid_chunk_data"),
        ({"data_base64": "é"}, "invalid_chunk_data"),
        ({"chunk_hash": "0" * 64}, "chunk_hash_mismatch"),
    ],
)
async def test_an_invalid_chunk_is_rejected_and_the_valid_one_accepted(changes: dict[str, Any], reason: str) -> None:
    harness = ReceiverHarness(b"abc" * 10, 10)
    harness.receiver.handle_chunk(harness.chunk(1, **changes))
    assert harness.callbacks.events_of("file_chunk_rejected") == [
        {"transfer_id": "t", "seq": changes.get("seq", 1), "reason": reason}
    ]
    assert harness.callbacks.sent_payloads("file.nack")[0]["reason"] == reason
    for seq in range(3):
        harness.receiver.handle_chunk(harness.chunk(seq))
    await harness.wait_idle()
    assert harness.transfer.status == "completed"


@pytest.mark.parametrize(("seq", "size"), [(0, 31), (0, 5), (2, 11), (3, 1), (2**60, 10), (1, 25)])
async def test_bytes_that_are_not_whole_chunks_are_rejected(seq: int, size: int) -> None:
    harness = ReceiverHarness(b"abc" * 10, 10)
    harness.receiver.handle_bytes(seq, memoryview(b"x" * size))
    assert harness.callbacks.events_of("file_chunk_rejected")[0]["reason"] == "out_of_range_seq"
    assert harness.transfer.chunk_map.count == 0


async def test_each_chunk_of_a_vdo_bridge_is_acknowledged_with_its_own_seq() -> None:
    harness = ReceiverHarness(b"abc" * 10, 10)
    harness.receiver.handle_chunk(harness.chunk(0))
    await harness.wait_idle()
    harness.receiver.handle_chunk(harness.chunk(2))
    await harness.wait_idle()
    acks = [(ack["seq"], ack["next_seq"], ack["received_bytes"]) for ack in harness.callbacks.sent_payloads("file.ack")]
    assert acks == [(0, 1, 10), (2, 1, 20)]


async def test_resume_state_names_the_last_acknowledged_chunk_to_a_vdo_bridge() -> None:
    harness = ReceiverHarness(b"abc" * 10, 10)
    harness.receiver.replies.send_state()
    harness.receiver.handle_chunk(harness.chunk(0))
    harness.receiver.handle_chunk(harness.chunk(1))
    await harness.wait_idle()
    harness.receiver.replies.send_state()
    assert [state["next_seq"] for state in harness.callbacks.sent_payloads("file.resume_state")] == [0, 1]
    assert "missing" not in harness.callbacks.sent_payloads("file.resume_state")[0]


async def test_chunks_over_the_backlog_limit_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.packs.peers.limits.FILE_BACKLOG_BYTES", 40)
    harness = ReceiverHarness(b"abc" * 30, 10, tmp_path)
    for seq in range(9):
        harness.receiver.handle_bytes(seq, harness.part(seq, seq + 1))
    assert [each["reason"] for each in harness.callbacks.events_of("file_chunk_rejected")] == ["too_fast"] * 5
    await harness.wait_idle()
    assert harness.transfer.chunk_map.count == 4
    harness.receiver.handle_bytes(4, harness.part(4, 8))
    await harness.wait_idle()
    harness.receiver.handle_bytes(8, harness.part(8, 9))
    await harness.wait_idle()
    assert harness.transfer.status == "completed"
    await harness.receiver.close(keep=False)


async def test_long_transfers_emit_few_progress_events() -> None:
    harness = ReceiverHarness(os.urandom(2000), 1)
    for seq in range(2000):
        harness.receiver.handle_bytes(seq, harness.part(seq, seq + 1))
        await asyncio.sleep(0)
    await harness.wait_idle()
    progress_events = harness.callbacks.events_of("file_chunk_received")
    assert 10 < len(progress_events) < 40
    assert progress_events[-1] == {
        "transfer_id": "t",
        "seq": 1999,
        "next_seq": 2000,
        "received_bytes": 2000,
        "total_bytes": 2000,
    }


async def test_a_disk_error_fails_the_transfer(tmp_path: Path) -> None:
    harness = ReceiverHarness(b"abc" * 10, 10, tmp_path)
    assert isinstance(harness.store, SpoolStore)
    with limit_file_size(20):
        harness.receiver.handle_bytes(0, harness.part(0, 3))
        await harness.wait_idle()
    assert harness.transfer.status == "failed"
    assert "cannot be written" in (harness.transfer.last_error or "")
