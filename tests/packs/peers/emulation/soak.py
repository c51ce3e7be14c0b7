"""Two of our agents and three emulated VDO.Ninja bridges in one room for minutes, all enforcing tokens.

    python -m tests.packs.peers.emulation.soak --minutes 3

Every second each bridge and each of our agents send each other a message by name. Olga and Ann have each other as
target; Oscar has no target; Otto ignores unrequested offers, so that Bob requests one, and views Bob later: two
connections, of which Otto uses one. Prints the counts as JSON and exits with 1 if a message was lost, a channel was
closed or a peer was rejected after the first seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

from tests.packs.peers.emulation.bridge import EmulatedVdoBridge
from tests.packs.peers.room_agents import RecordingListener, signalling

from hubbub.packs.peers.engine import load_engine
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.room import RoomOptions

SECRET = "the right secret"
SETTLE_S = 5.0
ASK_S = 7.0
"""An offer that is ignored is replaced by a request within this time."""
EVERY_S = 1.0


class MessageCounter:
    """Counts numbered messages from one peer to another."""

    def __init__(self) -> None:
        self.sent = 0
        self.refused = 0
        self.seen: set[int] = set()
        self._last_at = time.monotonic()
        self.longest_gap_s = 0.0

    def record(self, number: int) -> None:
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last_at)
        self._last_at = now
        self.seen.add(number)

    def close(self) -> dict[str, Any]:
        self.longest_gap_s = max(self.longest_gap_s, time.monotonic() - self._last_at)
        lost = self.sent - len(self.seen)
        return {"sent": self.sent, "refused": self.refused, "lost": lost, "longest_gap_s": round(self.longest_gap_s, 1)}


class SoakAgent(RecordingListener):
    """One of our agents."""

    def __init__(self, host: str, name: str, heartbeat_s: float, target: str | None) -> None:
        super().__init__()
        options = RoomOptions(
            room="hall",
            stream_id=name,
            host=host,
            target_stream_id=target,
            heartbeat_s=heartbeat_s,
            enforce_join_token=True,
            join_token_secrets=(SECRET,),
        )
        self.name = name
        self.mesh = Mesh(options, self, engine=load_engine("wrtc"))


def count_received(
    inbox: list[tuple[str | None, Any]], to: str, counters: dict[tuple[str, str], MessageCounter]
) -> None:
    """Count received messages by the sender that the receiver reports."""
    for sender, data in inbox:
        counter = counters.get((str(sender), to))
        if counter is not None:
            counter.record(data["n"])
    inbox.clear()


async def run(minutes: float, heartbeat_s: float) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(signalling())
        gate: dict[str, Any] = {"secret": SECRET, "enforce_join_token": True, "heartbeat_s": heartbeat_s}
        olga = await stack.enter_async_context(EmulatedVdoBridge(host, "olga", target="ann", **gate))
        oscar = await stack.enter_async_context(EmulatedVdoBridge(host, "oscar", **gate))
        otto = await stack.enter_async_context(EmulatedVdoBridge(host, "otto", accepts_unasked_offers=False, **gate))
        agents = [SoakAgent(host, "ann", heartbeat_s, "olga"), SoakAgent(host, "bob", heartbeat_s, None)]
        for agent in agents:
            stack.push_async_callback(agent.mesh.disconnect)
            await agent.mesh.connect()
        pairs = [("ann", "olga"), ("bob", "olga"), ("bob", "oscar"), ("bob", "otto")]
        await asyncio.sleep(ASK_S)
        await otto.sdk.view("bob")
        await asyncio.sleep(SETTLE_S)
        vdo_bridges = {"olga": olga, "oscar": oscar, "otto": otto}
        for vdo_bridge in vdo_bridges.values():
            vdo_bridge.received.clear()
            vdo_bridge.rejections.clear()
            vdo_bridge.closed_channels = 0
        for agent in agents:
            agent.events.clear()
            agent.data.clear()
        counters = {way: MessageCounter() for pair in pairs for way in (pair, pair[::-1])}
        ours = {agent.name: agent for agent in agents}
        deadline, number = time.monotonic() + 60 * minutes, 0
        while time.monotonic() < deadline:
            number += 1
            for ours_name, vdo_bridge_name in pairs:
                is_sent = ours[ours_name].mesh.send({"n": number}, to=vdo_bridge_name).ok
                is_back = vdo_bridges[vdo_bridge_name].send({"n": number}, ours_name)
                for way, is_taken in (((ours_name, vdo_bridge_name), is_sent), ((vdo_bridge_name, ours_name), is_back)):
                    counters[way].sent += 1
                    counters[way].refused += not is_taken
            await asyncio.sleep(EVERY_S)
            for name, agent in ours.items():
                count_received(agent.data, name, counters)
            for name, vdo_bridge in vdo_bridges.items():
                count_received(vdo_bridge.received, name, counters)
        types = ("data_channel_close", "connection_failed", "sync_peer_rejected", "peer_disconnected")
        return {
            "messages": {f"{a} to {b}": counter.close() for (a, b), counter in counters.items()},
            "channels_closed": {name: vdo_bridge.closed_channels for name, vdo_bridge in vdo_bridges.items()},
            "connections": {name: len(vdo_bridge.sdk.connections) for name, vdo_bridge in vdo_bridges.items()},
            "rejected_by_originals": {name: vdo_bridge.rejections for name, vdo_bridge in vdo_bridges.items()},
            "events": {name: {type: len(agent.of(type)) for type in types} for name, agent in ours.items()},
        }


def is_clean(found: dict[str, Any]) -> bool:
    messages = found["messages"].values()
    return (
        all(not each["lost"] and not each["refused"] for each in messages)
        and not any(found["channels_closed"].values())
        and not any(found["rejected_by_originals"].values())
        and not any(count for counts in found["events"].values() for count in counts.values())
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--heartbeat", type=float, default=5.0, metavar="SECONDS")
    given = parser.parse_args()
    found = asyncio.run(run(given.minutes, given.heartbeat))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0 if is_clean(found) else 1


if __name__ == "__main__":
    sys.exit(main())
