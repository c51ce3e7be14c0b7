"""One agent in a separate process: reads commands from stdin, writes events to stdout, as JSON lines."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from hubbub.packs.peers.engine import load_engine
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.room import PeerView, RoomOptions
from hubbub.packs.peers.wire import Envelope


def write_event(type: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"type": type, **fields}) + "\n")
    sys.stdout.flush()


class PrintingListener:
    def __init__(self) -> None:
        self.received = 0

    def on_data(self, peer: PeerView, data: Any) -> None:
        write_event("data", peer=peer.stream_id, data=data)

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        write_event("envelope", peer=peer.stream_id, kind=envelope.kind, is_signed=envelope.mac is not None)

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        self.received += len(data)
        if not data:
            write_event("bytes", peer=peer.stream_id, count=self.received)

    def on_peer_ready(self, peer: PeerView) -> None:
        write_event("ready_peer", peer=peer.stream_id)

    def on_bulk_open(self, peer: PeerView) -> None: ...

    def on_peer_gone(self, peer: PeerView) -> None:
        write_event("gone", peer=peer.stream_id)

    def on_heartbeat(self, peer: PeerView, state_digest: str | None) -> None: ...

    def on_event(self, type: str, fields: Any) -> None:
        write_event("event", event=type)

    def state_digest(self) -> str | None:
        return None


async def send_bytes(mesh: Mesh, to: str, count: int) -> None:
    peer = mesh.find(to)
    assert peer is not None
    while (bulk := mesh.bulk(peer.uuid)) is None:
        await asyncio.sleep(0.01)
    chunk, started = b"x" * 65000, time.monotonic()
    for _ in range(count // len(chunk)):
        bulk.send(chunk)
        if bulk.buffered_amount > 1 << 20:
            await bulk.drain()
    bulk.send(b"")
    await bulk.flush()
    write_event("sent", seconds=time.monotonic() - started)


async def main(engine: str, options: dict[str, Any]) -> None:
    mesh = Mesh(RoomOptions(**options), PrintingListener(), engine=load_engine(engine))
    await mesh.connect()
    write_event("in", peers=len(mesh.peers))
    loop = asyncio.get_running_loop()
    try:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            match json.loads(line):
                case ["send", data]:
                    write_event("sent_to", count=len(mesh.send(data).recipients))
                case ["bytes", to, count]:
                    await send_bytes(mesh, to, count)
                case ["leave"]:
                    break
    finally:
        await mesh.disconnect()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
