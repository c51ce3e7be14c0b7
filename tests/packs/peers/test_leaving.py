"""Who leaves, dies or comes back: everybody else notices in time, and goes on."""

from __future__ import annotations

import asyncio

import pytest
from tests.packs.peers.rooms import WAIT_S, Clock, End, room, signalling
from tests.packs.peers.stranger import Stranger

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import load_engine


@pytest.fixture
def silence_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is missed for being silent: what is noticed was said."""
    monkeypatch.setattr(limits, "PEER_DEAD_S", 3600.0)


@pytest.mark.usefixtures("silence_is_ignored")
async def test_who_leaves_is_missed_at_once_and_found_again() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with room(ann, bob):
            await ann.until_knows("bob")
            await bob.mesh.disconnect()
            await ann.notes.until(lambda: ann.notes.gone)
            assert ann.notes.gone == ["bob"]
            assert [event["uuid"] for event in ann.notes.of("peer_disconnected")]
            again = End(host, "bob")
            async with room(again):
                await ann.until_knows("bob")


# -- events --------------------------------------------------------------------------


async def test_who_lost_its_memory_takes_its_name_back() -> None:
    """A peer that was killed comes back before it was missed; the dead connection gives way."""
    async with signalling() as host:
        ann = End(host, "ann")
        async with room(ann), Stranger(host, "vera") as vera:
            await vera.view("ann")
            vera.greet()
            await ann.until_knows("vera")
            first = ann.uuid("vera")
            await vera.socket.close()
            async with Stranger(host, "vera") as again:
                # The first does not answer pings, as if it were dead; ann cannot know it yet.
                await again.view("ann")
                again.greet()
                await ann.notes.until(lambda: ann.notes.gone == ["vera"])
                await ann.notes.until(lambda: ann.uuid("vera") != first and ann.knows("vera"))


async def test_a_silent_peer_is_taken_for_dead_within_ten_seconds() -> None:
    clock = Clock()
    async with signalling() as host:
        ann = End(host, "ann", clock=clock)
        async with room(ann), Stranger(host, "vera") as vera:
            await vera.view("ann")
            vera.greet()
            vera.say({"pong": 1})  # It answers pings, and then no more.
            await ann.until_knows("vera")
            await ann.notes.until(lambda: all(peer.answers_pings for peer in ann.mesh.roster))
            for _ in range(20):
                clock.now += 0.5
                ann.mesh.watch.tick()
            assert ann.notes.gone == ["vera"]
            async with asyncio.timeout(WAIT_S):
                await vera.closed.wait()
            assert any("ping" in frame for frame in vera.heard)


# -- more connections for bytes --------------------------------------------------------------


@pytest.mark.usefixtures("silence_is_ignored")
async def test_who_says_goodbye_is_gone_with_what_was_still_being_made() -> None:
    """Else it would be there for a while by name, and its successor could not be reached."""
    async with signalling() as host:
        ann = End(host, "ann")
        async with room(ann), Stranger(host) as mallory:
            await mallory.view("ann")
            mallory.greet()
            await ann.until_knows("mallory")
            never = load_engine("wrtc").connection()
            never.create_channel("sendChannel")
            offer = mallory.sealed({"type": "offer", "sdp": await never.offer()})
            uuid, stream_id = mallory.said_by_server[-1]["UUID"], mallory.names.stream("mallory")
            await mallory.tell(UUID=uuid, session="zzzzzzzz", streamID=stream_id, **offer)
            await mallory.server_says(None)
            mallory.say({"bye": True})
            await ann.notes.until(lambda: "mallory" in ann.notes.gone)
            assert ann.mesh.find("mallory") is None
            await never.close()


async def test_two_that_leave_at_the_same_time_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEER_BYE_S", 3600.0)
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with room(ann, bob):
            await ann.until_knows("bob")
            await bob.until_knows("ann")
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(ann.mesh.disconnect(), bob.mesh.disconnect())
