"""Offers, answers and pings that are ignored, repeated, late or malformed: one connection, one clear reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.packs.peers.emulation.bridge import EmulatedVdoBridge
from tests.packs.peers.emulation.message_exchange import exchange_messages
from tests.packs.peers.room_agents import Clock, RecordingListener, RoomAgent, joined_room, signalling
from tests.packs.peers.scripted_peer import ScriptedPeer
from tests.packs.peers.test_inbound import FakeChannel, FakeNetwork, run_pending, run_with_peer

from hubbub.packs.peers import limits
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.signalling import Description, Member, MemberJoined

SDP = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=ice-ufrag:x\r\na=fingerprint:sha-256 00\r\n"
MALFORMED_PINGS = (
    '{"ping":null}',
    '{"ping":"1"}',
    '{"ping":[]}',
    '{"ping":{"ping":1}}',
    '{"ping":1e400}',
    '{"ping":-1e400}',
    '{"ping":' + "9" * 5000 + "}",
    '{"ping":true}',
    '{"pong":null}',
    '{"pong":"late"}',
    '{"ping":',
    "ping",
    "",
)


async def test_a_peer_that_ignores_our_offer_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEER_RESPONSE_TIMEOUT_S", 0.05)
    async with signalling() as host:
        ann, olga = RoomAgent(host, "ann"), EmulatedVdoBridge(host, "olga", accepts_unasked_offers=False)
        async with olga, joined_room(ann):
            await ann.wait_for_peers("olga")
            assert olga.sdk.unasked_offers > 0
            assert ann.listener.of("connection_failed")[0]["detail"]["reason"] == "the offer was not answered"
            peer = ann.mesh.roster.find("olga")
            assert peer is not None
            assert list(peer.links) == ["viewer"]


async def test_an_answer_after_the_offer_was_withdrawn_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEER_RESPONSE_TIMEOUT_S", 0.05)
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with ScriptedPeer(host, "mallory") as mallory, joined_room(ann, bob):
            offer = await mallory.wait_for_signal(None)
            await ann.listener.until(lambda: ann.listener.of("connection_failed"))
            late = mallory.encrypt_description({"type": "answer", "sdp": SDP})
            for _ in range(3):
                await mallory.send_signal(
                    UUID=offer["UUID"], session=offer["session"], streamID=offer["streamID"], **late
                )
            await mallory.wait_for_signal("offerSDP")
            await ann.wait_for_peers("bob")
            assert not ann.listener.of("sdk_error")


async def test_a_request_that_crosses_our_offer_makes_no_second_connection() -> None:
    clock = Clock()
    async with signalling() as host:
        ann, olga = RoomAgent(host, "ann", clock=clock), EmulatedVdoBridge(host, "olga")
        async with olga, joined_room(ann):
            await olga.until(lambda: olga.knows("ann"))
            await olga.sdk.view("ann")  # It crossed the offer, which is answered already.
            await exchange_messages(ann, olga, "ann")
            clock.now += limits.PEER_RESPONSE_TIMEOUT_S
            await olga.sdk.view("ann")  # It wants another one, long after.
            await ann.listener.until(lambda: len(ann.listener.of("data_channel_open")) == 2)
            await olga.until(olga.sdk.open_peers)
            await exchange_messages(ann, olga, "ann")
            assert len(ann.listener.of("data_channel_open")) == 2
            assert len(ann.listener.of("peer_connected")) == 1


async def test_a_peer_with_another_target_takes_our_offer() -> None:
    async with signalling() as host:
        bob, zoe = RoomAgent(host, "bob"), RoomAgent(host, "zoe", target_stream_id="bob")
        ann = RoomAgent(host, "ann")
        async with joined_room(bob, zoe, ann):
            await ann.wait_for_peers("zoe")
            assert not ann.listener.of("connection_failed")
            peer = zoe.mesh.roster.find("ann")
            assert peer is not None
            assert list(peer.links) == ["viewer"]


async def test_malformed_and_repeated_pings_close_nothing() -> None:
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann), ScriptedPeer(host, "vera") as vera:
            await vera.view("ann")
            vera.send_hello()
            await ann.wait_for_peers("vera")
            for frame in MALFORMED_PINGS * 5:
                vera.send_frame(frame)
            for _ in range(500):
                vera.send_frame({"ping": 16})
                vera.send_frame({"pong": 1})
            vera.send_frame({"ping": 17})
            await ann.listener.until(lambda: {"pong": 17} in vera.received_frames)
            assert vera.received_frames.count({"pong": 16}) == 500
            assert ann.knows("vera")
            assert not ann.listener.of("data_channel_close")


def test_repeated_offers_of_one_address_are_limited() -> None:
    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        before = len(network.connections)
        for number in range(200):
            description = {"type": "offer", "sdp": SDP}
            network.on_message(Description("v", f"s{number}", description, None, "mallory"))
            await asyncio.sleep(0)
        await run_pending()
        assert before < len(network.connections) <= before + limits.PEER_OFFERS
        assert not notes.of("sdk_error")

    run_with_peer(scenario, password=False)


@pytest.mark.parametrize("sdp", ["", "v=0", "x" * 100_000, None, 7, [SDP], SDP])
def test_malformed_offers_leave_nothing_behind(sdp: Any) -> None:
    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        for session in ("s", "s", "t"):
            network.on_message(Description("v", session, {"type": "offer", "sdp": sdp}, None, "mallory"))
        await run_pending()
        assert [peer.uuid for peer in mesh.peers] == ["u"]
        assert not notes.of("sdk_error")

    run_with_peer(scenario, password=False)


def test_an_address_with_many_stream_ids_gets_one_offer() -> None:
    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        before = len(network.connections)
        for number in range(5):
            network.on_message(MemberJoined(Member("v", f"name{number}")))
        await run_pending()
        assert len(network.connections) == before + 1

    run_with_peer(scenario, password=False)
