"""Send bytes through a bare wrtc channel, to measure the fast engine alone. See `channel`."""

from __future__ import annotations

import asyncio
import sys
import time

import webrtc
from bench.floors.channel import read_json, write_json

MESSAGE_BYTES = 64 * 1024
HIGH_BYTES, LOW_BYTES = 1024 * 1024, 256 * 1024


async def set_local_description(peer: webrtc.RTCPeerConnection) -> str:
    done = asyncio.Event()
    peer.on("icegatheringstatechange", lambda _: done.set())
    while peer.ice_gathering_state.value != "complete":
        await done.wait()
        done.clear()
    assert peer.local_description is not None
    return str(peer.local_description.sdp)


async def offer(size: int) -> None:
    begun = time.perf_counter()
    peer = webrtc.RTCPeerConnection()
    channel = peer.create_data_channel("raw")
    opened, low, arrived = asyncio.Event(), asyncio.Event(), asyncio.Event()
    channel.on("open", lambda _: opened.set())
    channel.on("bufferedamountlow", lambda _: low.set())
    channel.on("message", lambda _: arrived.set())
    channel.buffered_amount_low_threshold = LOW_BYTES
    await peer.set_local_description(await peer.create_offer())
    write_json(sdp=await set_local_description(peer))
    await peer.set_remote_description(webrtc.RTCSessionDescriptionInit("answer", (await read_json())["sdp"]))
    await opened.wait()
    write_json(connect_s=time.perf_counter() - begun)
    message = b"x" * MESSAGE_BYTES
    while (await read_json())["again"]:
        start_s = time.perf_counter()
        arrived.clear()
        for start in range(0, size, MESSAGE_BYTES):
            channel.send(message[: size - start])
            if channel.buffered_amount > HIGH_BYTES:
                low.clear()
                if channel.buffered_amount > LOW_BYTES:
                    await low.wait()
        await arrived.wait()
        write_json(seconds=time.perf_counter() - start_s)
    peer.close()


async def answer(size: int) -> None:
    peer = webrtc.RTCPeerConnection()
    got = 0

    def on_channel(event: webrtc.RTCDataChannelEvent) -> None:
        def on_message(message: webrtc.MessageEvent) -> None:
            nonlocal got
            got += len(message.data)
            if got % size == 0:
                event.channel.send("done")

        event.channel.on("message", on_message)

    peer.on("datachannel", on_channel)
    await peer.set_remote_description(webrtc.RTCSessionDescriptionInit("offer", (await read_json())["sdp"]))
    await peer.set_local_description(await peer.create_answer())
    write_json(sdp=await set_local_description(peer))
    await read_json()
    peer.close()


if __name__ == "__main__":
    asyncio.run((offer if sys.argv[1] == "offer" else answer)(int(sys.argv[2])))
