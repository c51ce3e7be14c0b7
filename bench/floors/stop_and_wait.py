"""A file over aiortc as the original sends one: chunks of 64 KiB in JSON, each sent when the last was confirmed.

See `channel`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
import time

from aiortc import RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from bench.floors.channel import read_json, write_json

CHUNK_BYTES = 64 * 1024


async def offer(size: int) -> None:
    begun = time.perf_counter()
    peer = RTCPeerConnection()
    channel = peer.createDataChannel("sendChannel")
    opened, confirmed = asyncio.Event(), asyncio.Event()
    channel.on("open", opened.set)
    channel.on("message", lambda _: confirmed.set())
    await peer.setLocalDescription(await peer.createOffer())
    write_json(sdp=peer.localDescription.sdp)
    await peer.setRemoteDescription(RTCSessionDescription((await read_json())["sdp"], "answer"))
    await opened.wait()
    write_json(connect_s=time.perf_counter() - begun)
    whole = b"x" * CHUNK_BYTES
    while (await read_json())["again"]:
        start_s = time.perf_counter()
        for seq, start in enumerate(range(0, size, CHUNK_BYTES)):
            confirmed.clear()
            channel.send(chunk(seq, whole[: size - start]))
            await confirmed.wait()
        write_json(seconds=time.perf_counter() - start_s)
    await peer.close()


def chunk(seq: int, data: bytes) -> str:
    payload = {
        "transfer_id": "file_0",
        "seq": seq,
        "data_base64": base64.b64encode(data).decode(),
        "chunk_hash": hashlib.sha256(data).hexdigest(),
    }
    return json.dumps({"pipe": {"kind": "file.chunk", "payload": payload}})


async def answer(size: int) -> None:
    peer = RTCPeerConnection()
    got = 0

    def on_channel(channel: RTCDataChannel) -> None:
        def on_message(message: str) -> None:
            nonlocal got
            chunk = json.loads(message)["pipe"]["payload"]
            data = base64.b64decode(chunk["data_base64"])
            if hashlib.sha256(data).hexdigest() != chunk["chunk_hash"]:
                raise ValueError("a chunk is damaged")
            got += len(data)
            ack = {"transfer_id": "file_0", "seq": chunk["seq"], "next_seq": chunk["seq"] + 1, "received_bytes": got}
            channel.send(json.dumps({"pipe": {"kind": "file.ack", "payload": ack}}))

        channel.on("message", on_message)

    peer.on("datachannel", on_channel)
    await peer.setRemoteDescription(RTCSessionDescription((await read_json())["sdp"], "offer"))
    await peer.setLocalDescription(await peer.createAnswer())
    write_json(sdp=peer.localDescription.sdp)
    await read_json()
    await peer.close()


if __name__ == "__main__":
    asyncio.run((offer if sys.argv[1] == "offer" else answer)(int(sys.argv[2])))
