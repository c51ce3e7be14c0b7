"""An end that sends and takes files as the original does: its envelopes, its answers, one transfer at a time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.packs.peers.files.ends import FileEnd, file_room
from tests.packs.peers.rooms import WAIT_S, signalling
from tests.packs.peers.stranger import Stranger

DATA = os.urandom(200_000)
CHUNK = 16_384
TOTAL = -(-len(DATA) // CHUNK)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def offer(**changes: Any) -> dict[str, Any]:
    usual = {"transfer_id": "t", "name": "n", "mime": "m", "total_bytes": len(DATA), "total_chunks": TOTAL}
    return {**usual, "chunk_bytes": CHUNK, "file_hash": digest(DATA), **changes}


def chunk(seq: int, data: bytes | None = None, **changes: Any) -> dict[str, Any]:
    part = DATA[seq * CHUNK : (seq + 1) * CHUNK] if data is None else data
    text = base64.b64encode(part).decode()
    return {"transfer_id": "t", "seq": seq, "data_base64": text, "chunk_hash": digest(part), **changes}


COMPLETE = {"transfer_id": "t", "total_bytes": len(DATA), "file_hash": digest(DATA)}


class Original:
    """One end that speaks as the original does."""

    def __init__(self, stranger: Stranger) -> None:
        self.stranger = stranger
        self.answers: Callable[[str, dict[str, Any]], object] = lambda kind, payload: None
        self._read = 0

    def say(self, kind: str, payload: dict[str, Any]) -> None:
        self.stranger.say(self.stranger.trust.frame(None, kind, payload))

    def heard(self, kind: str) -> list[dict[str, Any]]:
        return [envelope["payload"] for envelope in self.stranger.envelopes(kind)]

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                await asyncio.sleep(0.005)

    async def ask(self, kind: str, payload: dict[str, Any], answer: str) -> dict[str, Any]:
        """Say something, and wait for an answer of some kind."""
        before = len(self.heard(answer))
        self.say(kind, payload)
        await self.until(lambda: len(self.heard(answer)) > before)
        return self.heard(answer)[-1]

    async def listen(self) -> None:
        """Answer whatever comes about files."""
        while True:
            pipes = [frame["pipe"] for frame in self.stranger.heard if isinstance(frame.get("pipe"), dict)]
            for pipe in pipes[self._read :]:
                if str(pipe.get("kind")).startswith("file."):
                    self.answers(pipe["kind"], pipe["payload"])
            self._read = len(pipes)
            await asyncio.sleep(0.002)


class Keeper:
    """Receives as the original does: each chunk at its place, each confirmed."""

    def __init__(self, original: Original) -> None:
        self.original = original
        self.offer: dict[str, Any] = {}
        self.chunks: dict[int, bytes] = {}
        self.sizes: list[int] = []
        original.answers = self.answer

    @property
    def next_seq(self) -> int:
        return next(seq for seq in range(10**6) if seq not in self.chunks)

    def answer(self, kind: str, payload: dict[str, Any]) -> None:
        say, name = self.original.say, payload["transfer_id"]
        match kind:
            case "file.offer":
                self.offer = payload
                say("file.accept", {"transfer_id": name, "next_seq": self.next_seq})
            case "file.chunk":
                data = base64.b64decode(payload["data_base64"], validate=True)
                assert digest(data) == payload["chunk_hash"]
                self.chunks.setdefault(payload["seq"], data)
                got = sum(map(len, self.chunks.values()))
                ack = {"transfer_id": name, "seq": payload["seq"], "next_seq": self.next_seq, "received_bytes": got}
                say("file.ack", ack)
            case "file.complete":
                whole = b"".join(data for _, data in sorted(self.chunks.items()))
                if digest(whole) == payload["file_hash"]:
                    say("file.complete_ack", payload)
                else:
                    say("file.nack", {"transfer_id": name, "expected_seq": 0, "reason": "file hash mismatch"})
            case "file.resume_req":
                say("file.resume_state", {"transfer_id": name, "next_seq": self.next_seq, "status": "receiving"})


@asynccontextmanager
async def beside_original(folder: Path, **options: Any) -> AsyncIterator[tuple[FileEnd, Original]]:
    async with signalling() as host:
        bob = FileEnd(host, "bob", folder, **options)
        async with file_room(bob), Stranger(host, "olga") as olga:
            await olga.view("bob")
            olga.greet()
            await bob.notes.until(lambda: bob.mesh.find("olga") and bob.knows("olga"))
            original = Original(olga)
            listening = asyncio.create_task(original.listen())
            try:
                yield bob, original
            finally:
                listening.cancel()
                await asyncio.wait([listening])
