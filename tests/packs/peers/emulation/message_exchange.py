"""Messages between one of our agents and an emulated VDO.Ninja bridge."""

from __future__ import annotations

from tests.packs.peers.emulation.bridge import EmulatedVdoBridge
from tests.packs.peers.room_agents import RoomAgent


async def exchange_messages(ours: RoomAgent, vdo_bridge: EmulatedVdoBridge, name: str) -> None:
    """Send a message in each direction, addressed by name."""
    assert vdo_bridge.send({"from": vdo_bridge.stream_id}, name), f"the bridge does not know {name}"
    await ours.listener.until(lambda: (vdo_bridge.stream_id, {"from": vdo_bridge.stream_id}) in ours.listener.data)
    assert ours.mesh.send({"from": name}, to=vdo_bridge.stream_id).ok
    await vdo_bridge.until(lambda: (name, {"from": name}) in vdo_bridge.received)
