"""An original that moves files at full speed: one chunk on its way as a sender, each chunk confirmed as a receiver.

Unlike `original`, which follows a script, this end keeps nothing of what it was sent but
the file, so that the speed of a transfer can be measured. As a program it is one end of a
room in a process of its own (`bench.rooms` measures with it):

    python -m tests.packs.peers.files.stop_and_wait take HOST ROOM FOLDER [PEER]    takes files
    python -m tests.packs.peers.files.stop_and_wait send HOST ROOM FILE COUNT       sends a file several times
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.packs.peers.stranger import Stranger

from hubbub.packs.peers.engine import Channel
from hubbub.packs.peers.trust import Standing
from hubbub.packs.peers.wire import Capabilities, Hello, read_envelope

CHUNK_BYTES = 65_536
SPOOL_THRESHOLD_BYTES = 4_194_304
KEEP_EVENTS = 2000


class Incoming:
    """A file that is being taken: spooled to disk if it is large, as the original does."""

    def __init__(self, offer: dict[str, Any], folder: Path | None) -> None:
        self.offer = offer
        self.got = [False] * offer["total_chunks"]
        self.next_seq = 0
        self.received_bytes = 0
        self.is_spooled = folder is not None and offer["total_bytes"] >= SPOOL_THRESHOLD_BYTES
        self.data = bytearray(offer["total_bytes"])
        self._file = None
        if self.is_spooled:
            assert folder is not None
            self._path = folder / f"incoming_{offer['transfer_id']}.bin"
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def take(self, seq: int, data: bytes) -> None:
        """Put one chunk at its place; a second time it changes nothing."""
        if self.got[seq]:
            return
        self.got[seq] = True
        self.received_bytes += len(data)
        offset = seq * self.offer["chunk_bytes"]
        if self._file is not None:
            os.pwrite(self._file, data, offset)
        self.data[offset : offset + len(data)] = data
        while self.next_seq < len(self.got) and self.got[self.next_seq]:
            self.next_seq += 1

    def digest(self) -> str:
        """The hash of what is here."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            return hashlib.sha256(self._path.read_bytes()).hexdigest()
        return hashlib.sha256(self.data).hexdigest()


class FileOriginal(Stranger):
    """Sends and takes files as the original does, with MACs, and answers pings."""

    def __init__(self, host: str, name: str = "olga", room: str = "hall", *, folder: Path | None = None) -> None:
        super().__init__(host, name, room)
        self.folder = folder
        self.incoming: dict[str, Incoming] = {}
        self.finished: asyncio.Queue[Incoming] = asyncio.Queue()
        self.is_known = asyncio.Event()
        self.events: list[dict[str, Any]] = []
        self._standing = Standing()
        self._answers: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    def _use(self, channel: Channel) -> None:
        super()._use(channel)
        channel.on_message = self._came

    def speak(self, kind: str, payload: dict[str, Any]) -> None:
        """Send an envelope, with a MAC once there is a key."""
        self.say(self.trust.frame(self._standing, kind, payload))

    # -- what comes --------------------------------------------------------------------------

    def _came(self, text: bytes | str) -> None:
        frame = json.loads(text)
        if "ping" in frame:
            self.say({"pong": frame["ping"]})
            return
        envelope = read_envelope(frame.get("pipe"))
        if envelope is None:
            return
        if envelope.kind.startswith("file."):
            self.trust.check_envelope(self._standing, envelope)
            self._on_file(envelope.kind, envelope.payload)
            return
        said = envelope.read()
        if isinstance(said, Hello):
            self.trust.take_hello(self._standing, envelope, said)
            self._standing.capabilities = Capabilities()  # An original knows nothing of ours.
            self.is_known.set()
        if type(said) is Hello:
            self.greet()

    def _on_file(self, kind: str, payload: dict[str, Any]) -> None:
        name = payload["transfer_id"]
        match kind:
            case "file.offer":
                taken = self.incoming.setdefault(name, Incoming(payload, self.folder))
                self.speak("file.accept", {"transfer_id": name, "next_seq": taken.next_seq})
            case "file.chunk":
                self.take_chunk(name, payload)
            case "file.complete":
                self._complete(name, payload)
            case "file.resume_req":
                taken = self.incoming[name]
                state = {"transfer_id": name, "next_seq": taken.next_seq, "status": "receiving"}
                self.speak("file.resume_state", state)
            case _:
                self._answers.put_nowait((kind, payload))

    def take_chunk(self, name: str, payload: dict[str, Any]) -> None:
        taken = self.incoming[name]
        data = base64.b64decode(payload["data_base64"])
        assert hashlib.sha256(data).hexdigest() == payload["chunk_hash"]
        taken.take(payload["seq"], data)
        ack = {"seq": payload["seq"], "next_seq": taken.next_seq, "received_bytes": taken.received_bytes}
        self.speak("file.ack", {"transfer_id": name, **ack})
        # The original keeps an event for each chunk.
        self.events = [*self.events[1 - KEEP_EVENTS :], {"type": "file_chunk_received", "transfer_id": name, **ack}]

    def _complete(self, name: str, payload: dict[str, Any]) -> None:
        taken = self.incoming[name]
        if taken.digest() != payload["file_hash"]:
            self.speak("file.nack", {"transfer_id": name, "expected_seq": 0, "reason": "file hash mismatch"})
            return
        del self.incoming[name]
        self.speak("file.complete_ack", dict(payload))
        self.finished.put_nowait(taken)

    # -- sending -----------------------------------------------------------------------------

    async def send_file(self, data: bytes, transfer_id: str, *, file_name: str | None = None) -> float:
        """Send a file, one chunk at a time; the seconds from the offer to the confirmed hash."""
        start = time.perf_counter()
        chunks = [data[offset : offset + CHUNK_BYTES] for offset in range(0, len(data), CHUNK_BYTES)]
        whole = {"transfer_id": transfer_id, "total_bytes": len(data), "file_hash": hashlib.sha256(data).hexdigest()}
        layout = {"total_chunks": len(chunks), "chunk_bytes": CHUNK_BYTES}
        hashes = [hashlib.sha256(chunk).hexdigest() for chunk in chunks]
        await self._ask("file.offer", {**whole, "name": file_name, "mime": None, **layout}, "file.accept")
        for seq, chunk in enumerate(chunks):
            text = base64.b64encode(chunk).decode()
            payload = {"transfer_id": transfer_id, "seq": seq, "data_base64": text, "chunk_hash": hashes[seq]}
            ack = await self._ask("file.chunk", payload, "file.ack")
            assert ack["next_seq"] == seq + 1
        await self._ask("file.complete", whole, "file.complete_ack")
        return time.perf_counter() - start

    async def _ask(self, kind: str, payload: dict[str, Any], answer: str) -> dict[str, Any]:
        self.speak(kind, payload)
        got, said = await self._answers.get()
        assert got == answer, (got, said)
        return said


# -- as a program ----------------------------------------------------------------------------


async def _take_files(host: str, room: str, folder: str, peer: str | None = None) -> None:
    async with FileOriginal(host, room=room, folder=Path(folder)) as olga:
        _tell(is_in_room=True)
        await (olga.be_viewed() if peer is None else olga.view(peer))
        olga.greet()
        await olga.is_known.wait()
        _tell(is_known=True)
        while True:
            await olga.finished.get()


async def _send_files(host: str, room: str, path: str, count: str) -> None:
    async with FileOriginal(host, "otto", room=room) as otto:
        await otto.view("olga")
        otto.greet()
        await otto.is_known.wait()
        data = Path(path).read_bytes()
        for number in range(int(count)):
            _tell(seconds=await otto.send_file(data, f"file_{number}"))


def _tell(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    commands: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"take": _take_files, "send": _send_files}
    asyncio.run(commands[sys.argv[1]](*sys.argv[2:]))
