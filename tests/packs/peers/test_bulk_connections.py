"""Bulk connections over real WebRTC: how many are opened, and which peers may request them."""

from __future__ import annotations

from functools import partial

import pytest
from tests.packs.peers.room_agents import RoomAgent, joined_room, signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

from hubbub.packs.peers.engine import Channel


def bulk_connection_channels(agent: RoomAgent, other: str) -> list[Channel]:
    peer = agent.mesh.roster.find(other)
    assert peer is not None
    return [
        bulk_connection.channel
        for bulk_connection in peer.bulk_connections.values()
        if bulk_connection.channel is not None
    ]


def has_open_bulk_connections(agent: RoomAgent, other: str, count: int) -> bool:
    return sum(channel.is_open for channel in bulk_connection_channels(agent, other)) == count


@pytest.mark.parametrize("wanted_counts", [(3, 1), (1, 3), (9, 9)])
async def test_bytes_use_as_many_connections_as_either_peer_wants_up_to_the_limit(
    wanted_counts: tuple[int, int],
) -> None:
    async with signalling() as host:
        ann, bob = (
            RoomAgent(host, name, bulk_connections=connection_count)
            for name, connection_count in zip(("ann", "bob"), wanted_counts, strict=True)
        )
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")
            await bob.wait_for_peers("ann")
            wanted = min(max(wanted_counts), 4) - 1
            for agent, other in ((ann, "bob"), (bob, "ann")):
                await agent.listener.until(partial(has_open_bulk_connections, agent, other, wanted))
            bulk = ann.mesh.bulk(ann.uuid("bob"))
            assert bulk is not None
            for number in range(200):
                bulk.send(number.to_bytes(2, "big") + b"x" * 10_000)
            used = [channel.buffered_amount for channel in bulk_connection_channels(ann, "bob")]
            await bulk.drain()
            await bulk.flush()
            await bob.listener.until(lambda: len(bob.listener.bytes) == 200)
            assert sorted(int.from_bytes(data[:2], "big") for _, data in bob.listener.bytes) == list(range(200))
            assert len(used) == wanted
            assert not bob.listener.of("protocol_auth_failed")
            await bob.mesh.disconnect()
            await ann.listener.until(lambda: ann.listener.gone)
            assert ann.mesh.bulk("bob") is None


async def test_a_vdo_bridge_cannot_open_bulk_connections() -> None:
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann), ScriptedPeer(host, "vera") as vdo_bridge:
            await vdo_bridge.view("ann")
            vdo_bridge.send_hello()
            await ann.wait_for_peers("vera")
            vdo_bridge.send_frame(vdo_bridge.trust.frame(None, "link.offer", {"index": 1, "sdp": "v=0"}))
            vdo_bridge.send_frame({"ping": 1})
            await ann.listener.until(lambda: {"pong": 1} in vdo_bridge.received_frames)
            vera = ann.mesh.roster.find("vera")
            assert vera is not None
            assert not vera.bulk_connections
