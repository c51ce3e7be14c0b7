"""A VDO.Ninja bridge that transfers files at full speed: one chunk in flight, each chunk acknowledged.

Unlike `scripted_vdo_bridge`, it stores only the file and no messages, so that the speed of a transfer
can be measured. As a program it is one peer of a room in its own process (`bench.rooms` measures with it):

    python -m tests.packs.peers.files.stop_and_wait take HOST ROOM FOLDER [PEER]    receives files
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

from tests.packs.peers.scripted_peer import ScriptedPeer

from hubbub.packs.peers.engine import Channel
from hubbub.packs.peers.trust import PeerAuth
from hubbub.packs.peers.wire import Capabilities, Hello, read_envelope

CHUNK_BYTES = 65_536
SPOOL_THRESHOLD_BYTES = 4_194_304
MAX_EVENTS = 2000


class ReceivedFile:
    """A file that is being received: spooled to disk if it is large, as a VDO.Ninja bridge does."""

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

    def write_chunk(self, seq: int, data: bytes) -> None:
        """Write one chunk; a repeated chunk changes nothing."""
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
        """The hash of the received bytes."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            return hashlib.sha256(self._path.read_bytes()).hexdigest()
        return hashlib.sha256(self.data).hexdigest()


class StopAndWaitBridge(ScriptedPeer):
    """Sends and receives files as a VDO.Ninja bridge does, with MACs, and answers pings."""

    def __init__(self, host: str, name: str = "olga", room: str = "hall", *, folder: Path | None = None) -> None:
        super().__init__(host, name, room)
        self.folder = folder
        self.incoming: dict[str, ReceivedFile] = {}
        self.finished: asyncio.Queue[ReceivedFile] = asyncio.Queue()
        self.is_known = asyncio.Event()
        self.events: list[dict[str, Any]] = []
        self._peer_auth = PeerAuth()
        self._reply_queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    def _attach_channel(self, channel: Channel) -> None:
        super()._attach_channel(channel)
        channel.on_message = self._handle_frame

    def send_envelope(self, kind: str, payload: dict[str, Any]) -> None:
        """Send an envelope, with a MAC once there is a key."""
        self.send_frame(self.trust.frame(self._peer_auth, kind, payload))

    # -- receiving ---------------------------------------------------------------------------

    def _handle_frame(self, text: bytes | str) -> None:
        frame = json.loads(text)
        if "ping" in frame:
            self.send_frame({"pong": frame["ping"]})
            return
        envelope = read_envelope(frame.get("pipe"))
        if envelope is None:
            return
        if envelope.kind.startswith("file."):
            self.trust.check_envelope(self._peer_auth, envelope)
            self._on_file(envelope.kind, envelope.payload)
            return
        reply = envelope.read_payload()
        if isinstance(reply, Hello):
            self.trust.accept_hello(self._peer_auth, envelope, reply)
            self._peer_auth.capabilities = Capabilities()  # A VDO.Ninja bridge ignores our own capabilities.
            self.is_known.set()
        if type(reply) is Hello:
            self.send_hello()

    def _on_file(self, kind: str, payload: dict[str, Any]) -> None:
        name = payload["transfer_id"]
        match kind:
            case "file.offer":
                received_file = self.incoming.setdefault(name, ReceivedFile(payload, self.folder))
                self.send_envelope("file.accept", {"transfer_id": name, "next_seq": received_file.next_seq})
            case "file.chunk":
                self.receive_chunk(name, payload)
            case "file.complete":
                self._complete(name, payload)
            case "file.resume_req":
                received_file = self.incoming[name]
                state = {"transfer_id": name, "next_seq": received_file.next_seq, "status": "receiving"}
                self.send_envelope("file.resume_state", state)
            case _:
                self._reply_queue.put_nowait((kind, payload))

    def receive_chunk(self, name: str, payload: dict[str, Any]) -> None:
        received_file = self.incoming[name]
        data = base64.b64decode(payload["data_base64"])
        assert hashlib.sha256(data).hexdigest() == payload["chunk_hash"]
        received_file.write_chunk(payload["seq"], data)
        ack = {
            "seq": payload["seq"],
            "next_seq": received_file.next_seq,
            "received_bytes": received_file.received_bytes,
        }
        self.send_envelope("file.ack", {"transfer_id": name, **ack})
        # A VDO.Ninja bridge queues an event for each chunk.
        self.events = [*self.events[1 - MAX_EVENTS :], {"type": "file_chunk_received", "transfer_id": name, **ack}]

    def _complete(self, name: str, payload: dict[str, Any]) -> None:
        received_file = self.incoming[name]
        if received_file.digest() != payload["file_hash"]:
            self.send_envelope("file.nack", {"transfer_id": name, "expected_seq": 0, "reason": "file hash mismatch"})
            return
        del self.incoming[name]
        self.send_envelope("file.complete_ack", dict(payload))
        self.finished.put_nowait(received_file)

    # -- sending -----------------------------------------------------------------------------

    async def send_file(self, data: bytes, transfer_id: str, *, file_name: str | None = None) -> float:
        """Send a file, one chunk at a time; return the seconds from the offer to the confirmed hash."""
        start = time.perf_counter()
        chunks = [data[offset : offset + CHUNK_BYTES] for offset in range(0, len(data), CHUNK_BYTES)]
        whole = {"transfer_id": transfer_id, "total_bytes": len(data), "file_hash": hashlib.sha256(data).hexdigest()}
        layout = {"total_chunks": len(chunks), "chunk_bytes": CHUNK_BYTES}
        hashes = [hashlib.sha256(chunk).hexdigest() for chunk in chunks]
        await self._request("file.offer", {**whole, "name": file_name, "mime": None, **layout}, "file.accept")
        for seq, chunk in enumerate(chunks):
            text = base64.b64encode(chunk).decode()
            payload = {"transfer_id": transfer_id, "seq": seq, "data_base64": text, "chunk_hash": hashes[seq]}
            ack = await self._request("file.chunk", payload, "file.ack")
            assert ack["next_seq"] == seq + 1
        await self._request("file.complete", whole, "file.complete_ack")
        return time.perf_counter() - start

    async def _request(self, kind: str, payload: dict[str, Any], answer: str) -> dict[str, Any]:
        self.send_envelope(kind, payload)
        got, reply = await self._reply_queue.get()
        assert got == answer, (got, reply)
        return reply


# -- as a program ----------------------------------------------------------------------------


async def _receive_files(host: str, room: str, folder: str, peer: str | None = None) -> None:
    async with StopAndWaitBridge(host, room=room, folder=Path(folder)) as olga:
        _print_json(is_in_room=True)
        await (olga.wait_for_viewer() if peer is None else olga.view(peer))
        olga.send_hello()
        await olga.is_known.wait()
        _print_json(is_known=True)
        while True:
            await olga.finished.get()


async def _send_files(host: str, room: str, path: str, count: str) -> None:
    async with StopAndWaitBridge(host, "otto", room=room) as otto:
        await otto.view("olga")
        otto.send_hello()
        await otto.is_known.wait()
        data = Path(path).read_bytes()
        for number in range(int(count)):
            _print_json(seconds=await otto.send_file(data, f"file_{number}"))


def _print_json(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    commands: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"take": _receive_files, "send": _send_files}
    asyncio.run(commands[sys.argv[1]](*sys.argv[2:]))
