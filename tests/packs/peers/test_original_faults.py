"""Offers, answers and pings that are ignored, repeated, late or malformed: one connection, one clear reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.packs.peers.emulation.bridge import EmulatedOriginal
from tests.packs.peers.emulation.talk import exchange
from tests.packs.peers.rooms import Clock, End, Notes, room, signalling
from tests.packs.peers.stranger import Stranger
from tests.packs.peers.test_reception import Pipe, Played, breath, with_a_peer

from hubbub.packs.peers import limits
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.signalling import Described, Joined, Member

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


async def test_an_end_that_ignores_our_offer_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEER_ANSWER_S", 0.05)
    async with signalling() as host:
        ann, olga = End(host, "ann"), EmulatedOriginal(host, "olga", accepts_unasked_offers=False)
        async with olga, room(ann):
            await ann.until_knows("olga")
            assert olga.sdk.unasked_offers > 0
            assert ann.notes.of("connection_failed")[0]["detail"]["reason"] == "the offer was not answered"
            peer = ann.mesh.roster.find("olga")
            assert peer is not None
            assert list(peer.links) == ["viewer"]


async def test_an_answer_after_the_offer_was_withdrawn_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEER_ANSWER_S", 0.05)
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with Stranger(host, "mallory") as mallory, room(ann, bob):
            offer = await mallory.server_says(None)
            await ann.notes.until(lambda: ann.notes.of("connection_failed"))
            late = mallory.sealed({"type": "answer", "sdp": SDP})
            for _ in range(3):
                await mallory.tell(UUID=offer["UUID"], session=offer["session"], streamID=offer["streamID"], **late)
            await mallory.server_says("offerSDP")
            await ann.until_knows("bob")
            assert not ann.notes.of("sdk_error")


async def test_a_request_that_crosses_our_offer_makes_no_second_connection() -> None:
    clock = Clock()
    async with signalling() as host:
        ann, olga = End(host, "ann", clock=clock), EmulatedOriginal(host, "olga")
        async with olga, room(ann):
            await olga.until(lambda: olga.knows("ann"))
            await olga.sdk.view("ann")  # It crossed the offer, which is answered already.
            await exchange(ann, olga, "ann")
            clock.now += limits.PEER_ANSWER_S
            await olga.sdk.view("ann")  # It wants another one, long after.
            await ann.notes.until(lambda: len(ann.notes.of("data_channel_open")) == 2)
            await olga.until(olga.sdk.open_peers)
            await exchange(ann, olga, "ann")
            assert len(ann.notes.of("data_channel_open")) == 2
            assert len(ann.notes.of("peer_connected")) == 1


async def test_a_peer_with_another_target_takes_our_offer() -> None:
    async with signalling() as host:
        bob, zoe = End(host, "bob"), End(host, "zoe", target_stream_id="bob")
        ann = End(host, "ann")
        async with room(bob, zoe, ann):
            await ann.until_knows("zoe")
            assert not ann.notes.of("connection_failed")
            peer = zoe.mesh.roster.find("ann")
            assert peer is not None
            assert list(peer.links) == ["viewer"]


async def test_malformed_and_repeated_pings_end_nothing() -> None:
    async with signalling() as host:
        ann = End(host, "ann")
        async with room(ann), Stranger(host, "vera") as vera:
            await vera.view("ann")
            vera.greet()
            await ann.until_knows("vera")
            for frame in MALFORMED_PINGS * 5:
                vera.say(frame)
            for _ in range(500):
                vera.say({"ping": 16})
                vera.say({"pong": 1})
            vera.say({"ping": 17})
            await ann.notes.until(lambda: {"pong": 17} in vera.heard)
            assert vera.heard.count({"pong": 16}) == 500
            assert ann.knows("vera")
            assert not ann.notes.of("data_channel_close")


def test_repeated_offers_of_one_address_are_bounded() -> None:
    async def scene(mesh: Mesh, played: Played, pipe: Pipe, notes: Notes) -> None:
        before = len(played.wires)
        for number in range(200):
            description = {"type": "offer", "sdp": SDP}
            played.on_message(Described("v", f"s{number}", description, None, "mallory"))
            await asyncio.sleep(0)
        await breath()
        assert before < len(played.wires) <= before + limits.PEER_OFFERS
        assert not notes.of("sdk_error")

    with_a_peer(scene, password=False)


@pytest.mark.parametrize("sdp", ["", "v=0", "x" * 100_000, None, 7, [SDP], SDP])
def test_malformed_offers_leave_nothing_behind(sdp: Any) -> None:
    async def scene(mesh: Mesh, played: Played, pipe: Pipe, notes: Notes) -> None:
        for session in ("s", "s", "t"):
            played.on_message(Described("v", session, {"type": "offer", "sdp": sdp}, None, "mallory"))
        await breath()
        assert [peer.uuid for peer in mesh.peers] == ["u"]
        assert not notes.of("sdk_error")

    with_a_peer(scene, password=False)


def test_an_address_of_many_names_is_offered_one_connection() -> None:
    async def scene(mesh: Mesh, played: Played, pipe: Pipe, notes: Notes) -> None:
        before = len(played.wires)
        for number in range(5):
            played.on_message(Joined(Member("v", f"name{number}")))
        await breath()
        assert len(played.wires) == before + 1

    with_a_peer(scene, password=False)
