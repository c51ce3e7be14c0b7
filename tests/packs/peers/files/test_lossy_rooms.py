"""Sender and receiver of a transfer over a room that loses, repeats and reorders messages."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.clock import wait_until
from tests.packs.peers.files.peer_views import make_envelope, make_peer

from hubbub import ToolFailure
from hubbub.packs.peers.files.files import Files
from hubbub.packs.peers.files.options import FileOptions, SendRequest
from hubbub.packs.peers.room import PeerView, Room, SendResult

# Not hypothesis' own randomness: the number of draws depends on the clock.
CHANCES = st.integers(0, 2**32).map(random.Random)


class LossyNetwork:
    """Loses, repeats and delays messages with given probabilities."""

    def __init__(self, chance: random.Random, lost: float, twice: float, late: float) -> None:
        self._chance = chance
        self._lost, self._twice, self._late = lost, twice, late

    def carry(self, deliver: Any, *arguments: Any) -> None:
        chance, loop = self._chance, asyncio.get_running_loop()
        for _ in range(2 if chance.random() < self._twice else 1):
            if chance.random() >= self._lost:
                loop.call_later(chance.random() * 0.003 if chance.random() < self._late else 0, deliver, *arguments)


class LossyAgent:
    """One agent: its files, and a room with one other peer."""

    max_frame = 20_000
    buffered_amount = 0

    def __init__(self, number: int, folder: str, network: LossyNetwork, *, has_bytes: bool) -> None:
        self.network = network
        self.view = make_peer(number)
        self.other: LossyAgent
        self.has_bytes = has_bytes
        self.room = cast("Room", self)
        self.file_options = FileOptions(
            folders=(folder,), spool_dir=folder, spool_threshold_bytes=30_000, ack_timeout_s=0.02, max_retries=60
        )
        self.events: list[str] = []
        self.files = Files(self)

    def emit(self, type: str, /, **fields: Any) -> None:
        self.events.append(type)

    @property
    def peers(self) -> list[PeerView]:
        return [self.other.view]

    def find(self, target: str) -> PeerView:
        return self.other.view

    def bulk(self, uuid: str) -> LossyAgent | None:
        return self if self.has_bytes else None

    def send(self, data: bytes) -> None:
        self.network.carry(self.other.files.on_bytes, self.view, data)

    async def drain(self, *_: Any) -> None: ...

    def queued_bytes(self, uuid: str) -> int:
        return 0

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> SendResult:
        envelope = make_envelope(kind.removeprefix("file."), dict(payload))
        self.network.carry(self.other.files.on_envelope, self.view, envelope)
        return SendResult((to or "",))


@pytest.fixture(scope="module", autouse=True)
def short_timeouts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hubbub.packs.peers.limits.FILE_RESPONSE_TIMEOUT_S", 0.05)
        yield


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    CHANCES,
    st.integers(1, 90_000),
    st.sampled_from([1024, 4000, 65_536]),
    st.floats(0, 0.2),
    st.floats(0, 0.3),
    st.floats(0, 1),
    st.booleans(),
)
def test_a_file_arrives_complete_despite_loss_repetition_and_reordering(
    chance: random.Random, size: int, chunk: int, lost: float, twice: float, late: float, has_bytes: bool
) -> None:
    async def run(folder: str) -> None:
        network = LossyNetwork(chance, lost, twice, late)
        ann, bob = (LossyAgent(number, folder, network, has_bytes=has_bytes) for number in (0, 1))
        ann.other, bob.other = bob, ann
        data = chance.randbytes(size)
        async with asyncio.timeout(60):
            sent = await ann.files.send_data(data, SendRequest(chunk_bytes=min(chunk, 15_000)))
        came = bob.files.get_received(sent.transfer_id)
        assert await bob.files.read(came) == data
        assert sent.file_hash == came.file_hash == hashlib.sha256(data).hexdigest()
        assert bob.events.count("file_received") == 1
        for side in (ann, bob):
            await side.files.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHANCES, st.integers(1, 50_000), st.booleans())
def test_a_file_with_a_wrong_hash_fails_at_both_ends(chance: random.Random, size: int, has_bytes: bool) -> None:
    async def run(folder: str) -> None:
        ann, bob = (
            LossyAgent(number, folder, LossyNetwork(chance, 0, 0, 0.5), has_bytes=has_bytes) for number in (0, 1)
        )
        ann.other, bob.other = bob, ann
        data = chance.randbytes(size)
        sending = SendRequest(chunk_bytes=1024, transfer_id="t")
        wrong = hashlib.sha256(data + b"x").hexdigest()
        send_envelope = ann.send_envelope

        def send_wrong_hash(kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> SendResult:
            return send_envelope(kind, {**payload, "file_hash": wrong} if "file_hash" in payload else payload, to=to)

        ann.send_envelope = send_wrong_hash  # type: ignore[method-assign]
        with pytest.raises(ToolFailure, match="file hash mismatch"):
            await ann.files.send_data(data, sending)
        # Ann may hear of it before Bob has noted it.
        await wait_until(lambda: [each.status for each in bob.files.incoming] == ["failed"])
        assert [each.status for each in ann.files.outgoing] == ["failed"]
        assert "file_received" not in bob.events
        assert "file_transfer_complete" not in ann.events
        for side in (ann, bob):
            await side.files.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))
