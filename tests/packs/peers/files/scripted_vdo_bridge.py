"""A scripted VDO.Ninja bridge that sends and receives files, one transfer at a time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.packs.peers.files.file_agents import FileAgent, joined_file_room
from tests.packs.peers.room_agents import WAIT_S, signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

DATA = os.urandom(200_000)
CHUNK = 16_384
TOTAL = -(-len(DATA) // CHUNK)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def offer(**changes: Any) -> dict[str, Any]:
    defaults = {"transfer_id": "t", "name": "n", "mime": "m", "total_bytes": len(DATA), "total_chunks": TOTAL}
    return {**defaults, "chunk_bytes": CHUNK, "file_hash": digest(DATA), **changes}


def chunk(seq: int, data: bytes | None = None, **changes: Any) -> dict[str, Any]:
    part = DATA[seq * CHUNK : (seq + 1) * CHUNK] if data is None else data
    text = base64.b64encode(part).decode()
    return {"transfer_id": "t", "seq": seq, "data_base64": text, "chunk_hash": digest(part), **changes}


COMPLETE = {"transfer_id": "t", "total_bytes": len(DATA), "file_hash": digest(DATA)}


class ScriptedVdoBridge:
    """A peer that sends the envelopes of a VDO.Ninja bridge."""

    def __init__(self, scripted_peer: ScriptedPeer) -> None:
        self.scripted_peer = scripted_peer
        self.on_envelope: Callable[[str, dict[str, Any]], object] = lambda kind, payload: None
        self._handled = 0

    def send(self, kind: str, payload: dict[str, Any]) -> None:
        self.scripted_peer.send_frame(self.scripted_peer.trust.frame(None, kind, payload))

    def received(self, kind: str) -> list[dict[str, Any]]:
        return [envelope["payload"] for envelope in self.scripted_peer.envelopes(kind)]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.005)

    async def request(self, kind: str, payload: dict[str, Any], answer: str) -> dict[str, Any]:
        """Send an envelope, and wait for an answer of that kind."""
        before = len(self.received(answer))
        self.send(kind, payload)
        await self.until(lambda: len(self.received(answer)) > before)
        return self.received(answer)[-1]

    async def listen(self) -> None:
        """Answer all envelopes about files."""
        while True:
            pipes = [
                frame["pipe"] for frame in self.scripted_peer.received_frames if isinstance(frame.get("pipe"), dict)
            ]
            for pipe in pipes[self._handled :]:
                if str(pipe.get("kind")).startswith("file."):
                    self.on_envelope(pipe["kind"], pipe["payload"])
            self._handled = len(pipes)
            await asyncio.sleep(0.002)


class VdoBridgeReceiver:
    """Receives like a VDO.Ninja bridge, which acknowledges each chunk."""

    def __init__(self, vdo_bridge: ScriptedVdoBridge) -> None:
        self.vdo_bridge = vdo_bridge
        self.offer: dict[str, Any] = {}
        self.chunks: dict[int, bytes] = {}
        self.sizes: list[int] = []
        vdo_bridge.on_envelope = self.handle_envelope

    @property
    def next_seq(self) -> int:
        return next(seq for seq in range(10**6) if seq not in self.chunks)

    def handle_envelope(self, kind: str, payload: dict[str, Any]) -> None:
        send, name = self.vdo_bridge.send, payload["transfer_id"]
        match kind:
            case "file.offer":
                self.offer = payload
                send("file.accept", {"transfer_id": name, "next_seq": self.next_seq})
            case "file.chunk":
                data = base64.b64decode(payload["data_base64"], validate=True)
                assert digest(data) == payload["chunk_hash"]
                self.chunks.setdefault(payload["seq"], data)
                received = sum(map(len, self.chunks.values()))
                ack = {
                    "transfer_id": name,
                    "seq": payload["seq"],
                    "next_seq": self.next_seq,
                    "received_bytes": received,
                }
                send("file.ack", ack)
            case "file.complete":
                data = b"".join(part for _, part in sorted(self.chunks.items()))
                if digest(data) == payload["file_hash"]:
                    send("file.complete_ack", payload)
                else:
                    send("file.nack", {"transfer_id": name, "expected_seq": 0, "reason": "file hash mismatch"})
            case "file.resume_req":
                send("file.resume_state", {"transfer_id": name, "next_seq": self.next_seq, "status": "receiving"})


@asynccontextmanager
async def with_vdo_bridge(folder: Path, **options: Any) -> AsyncIterator[tuple[FileAgent, ScriptedVdoBridge]]:
    async with signalling() as host:
        bob = FileAgent(host, "bob", folder, **options)
        async with joined_file_room(bob), ScriptedPeer(host, "olga") as olga:
            await olga.view("bob")
            olga.send_hello()
            await bob.listener.until(lambda: bob.mesh.find("olga") and bob.knows("olga"))
            vdo_bridge = ScriptedVdoBridge(olga)
            listening = asyncio.create_task(vdo_bridge.listen())
            try:
                yield bob, vdo_bridge
            finally:
                listening.cancel()
                await asyncio.wait([listening])
