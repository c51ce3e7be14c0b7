"""Peers that leave, die or return: the other peers notice in time and continue."""

from __future__ import annotations

import asyncio

import pytest
from tests.packs.peers.room_agents import WAIT_S, Clock, RoomAgent, joined_room, signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import load_engine


@pytest.fixture
def no_silence_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the silence timeout, so that only `bye` and closes are detected."""
    monkeypatch.setattr(limits, "PEER_SILENCE_TIMEOUT_S", 3600.0)


@pytest.mark.usefixtures("no_silence_timeout")
async def test_a_peer_that_leaves_is_detected_at_once_and_found_again() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")
            await bob.mesh.disconnect()
            await ann.listener.until(lambda: ann.listener.gone)
            assert ann.listener.gone == ["bob"]
            assert [event["uuid"] for event in ann.listener.of("peer_disconnected")]
            again = RoomAgent(host, "bob")
            async with joined_room(again):
                await ann.wait_for_peers("bob")


async def test_a_restarted_peer_takes_over_its_name() -> None:
    """A killed peer returns before its death is detected; its old connection is replaced."""
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann), ScriptedPeer(host, "vera") as vera:
            await vera.view("ann")
            vera.send_hello()
            await ann.wait_for_peers("vera")
            first = ann.uuid("vera")
            await vera.socket.close()
            async with ScriptedPeer(host, "vera") as again:
                # The first does not answer pings, as if it were dead; ann cannot know it yet.
                await again.view("ann")
                again.send_hello()
                await ann.listener.until(lambda: ann.listener.gone == ["vera"])
                await ann.listener.until(lambda: ann.uuid("vera") != first and ann.knows("vera"))


async def test_a_silent_peer_counts_as_dead_within_ten_seconds() -> None:
    clock = Clock()
    async with signalling() as host:
        ann = RoomAgent(host, "ann", clock=clock)
        async with joined_room(ann), ScriptedPeer(host, "vera") as vera:
            await vera.view("ann")
            vera.send_hello()
            vera.send_frame({"pong": 1})  # It answers pings, and then no more.
            await ann.wait_for_peers("vera")
            await ann.listener.until(lambda: all(peer.answers_pings for peer in ann.mesh.roster))
            for _ in range(20):
                clock.now += 0.5
                ann.mesh.liveness.tick()
            assert ann.listener.gone == ["vera"]
            async with asyncio.timeout(WAIT_S):
                await vera.closed.wait()
            assert any("ping" in frame for frame in vera.received_frames)


@pytest.mark.usefixtures("no_silence_timeout")
async def test_bye_also_ends_a_connection_that_is_still_being_made() -> None:
    """Otherwise its name would stay in use for a while, and its successor could not be reached."""
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann), ScriptedPeer(host) as mallory:
            await mallory.view("ann")
            mallory.send_hello()
            await ann.wait_for_peers("mallory")
            never = load_engine("wrtc").connection()
            never.create_channel("sendChannel")
            offer = mallory.encrypt_description({"type": "offer", "sdp": await never.offer()})
            uuid, stream_id = mallory.server_messages[-1]["UUID"], mallory.names.wire_stream_id("mallory")
            await mallory.send_signal(UUID=uuid, session="zzzzzzzz", streamID=stream_id, **offer)
            await mallory.wait_for_signal(None)
            mallory.send_frame({"bye": True})
            await ann.listener.until(lambda: "mallory" in ann.listener.gone)
            assert ann.mesh.find("mallory") is None
            await never.close()


async def test_two_peers_that_leave_at_the_same_time_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PEER_BYE_TIMEOUT_S", 3600.0)
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")
            await bob.wait_for_peers("ann")
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(ann.mesh.disconnect(), bob.mesh.disconnect())
