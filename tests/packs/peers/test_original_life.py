"""Originals in a room for minutes: no healthy connection is cut, and a peer that is really gone is noticed.

Time is a clock that the tests move. The same in real minutes: `python -m tests.packs.peers.emulation.soak`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.packs.peers.emulation.bridge import EmulatedOriginal
from tests.packs.peers.emulation.talk import exchange
from tests.packs.peers.rooms import Clock, End, room, signalling

from hubbub.packs.peers import limits

SECRET = "the right secret"
GATED: dict[str, Any] = {"enforce_join_token": True, "join_token_secrets": (SECRET,), "heartbeat_s": 5.0}
TICK_S = 0.5
MINUTES_S = 180


async def pass_time(clock: Clock, seconds: float, *ends: End, originals: tuple[EmulatedOriginal, ...] = ()) -> None:
    """Move the clock in small steps; every ping that is due is sent, and answered before the next step."""
    for step in range(1, round(seconds / TICK_S) + 1):
        clock.now += TICK_S
        for end in ends:
            end.mesh.watch.tick()
        if step % 10 == 0:
            for original in originals:
                original.beat()
        asked = [peer for end in ends for peer in end.mesh.roster if peer.asked_at == clock.now]
        async with asyncio.timeout(60):
            while any(peer.heard_at < clock.now for peer in asked):
                await asyncio.sleep(0.001)


def cuts(end: End) -> list[dict[str, Any]]:
    return [*end.notes.of("data_channel_close"), *end.notes.of("peer_disconnected"), *end.notes.of("connection_failed")]


@asynccontextmanager
async def connected_twice(
    monkeypatch: pytest.MonkeyPatch, ours: dict[str, Any], theirs: dict[str, Any]
) -> AsyncIterator[tuple[Clock, End, EmulatedOriginal, str]]:
    """Ann and an original, each of whom views the other: two connections, of which the original uses one."""
    monkeypatch.setattr(limits, "PEER_ANSWER_S", 0.05)  # It ignores our offer, so it is asked for one.
    clock = Clock()
    async with signalling() as host:
        ann = End(host, "ann", clock=clock, **ours)
        olga = EmulatedOriginal(host, "olga", accepts_unasked_offers=False, **theirs)
        async with olga, room(ann):
            await ann.until_knows("olga")
            await olga.sdk.view("ann")
            await olga.until(lambda: len(olga.sdk.connections) == 2 and olga.knows("ann"))
            await ann.notes.until(lambda: len(ann.mesh.roster.find("olga").open_links) == 2)  # type: ignore[union-attr]
            ann.notes.events.clear()
            olga.rejections.clear()
            yield clock, ann, olga, host


async def test_an_original_that_answers_on_the_channel_it_prefers_stays_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_twice(monkeypatch, {}, {}) as (clock, ann, olga, _):
        await pass_time(clock, MINUTES_S, ann)
        assert cuts(ann) == []
        assert olga.closed_channels == 0
        assert all(len(connection.pings) > 20 for connection in olga.sdk.connections.values())
        await exchange(ann, olga, "ann")


async def test_tokens_are_enforced_for_minutes_with_a_heartbeat_of_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = {"secret": SECRET, "enforce_join_token": True}
    async with connected_twice(monkeypatch, GATED, theirs) as (clock, ann, olga, _):
        for _ in range(MINUTES_S // 20):
            await pass_time(clock, 20, ann, originals=(olga,))
            await exchange(ann, olga, "ann")
            ann.notes.data.clear()
            olga.received.clear()
        assert cuts(ann) == []
        assert olga.closed_channels == 0
        assert (olga.rejections, ann.notes.of("sync_peer_rejected")) == ([], [])


@pytest.mark.parametrize("target", [None, "ann"])
async def test_three_parties_are_in_a_room_for_minutes(target: str | None) -> None:
    clock = Clock()
    async with signalling() as host:
        ann, bob = End(host, "ann", clock=clock, **GATED), End(host, "bob", clock=clock, **GATED)
        olga = EmulatedOriginal(host, "olga", target=target, secret=SECRET, enforce_join_token=True)
        async with olga, room(ann, bob):
            for end, others in ((ann, ("bob", "olga")), (bob, ("ann", "olga"))):
                await end.until_knows(*others)
            await olga.until(lambda: olga.knows("ann") and olga.knows("bob"))
            await pass_time(clock, 20, ann, bob, originals=(olga,))
            await exchange(ann, olga, "ann")
            ann.notes.events.clear()
            for _ in range(MINUTES_S // 20):
                await pass_time(clock, 20, ann, bob, originals=(olga,))
                for end, name in ((ann, "ann"), (bob, "bob")):
                    await exchange(end, olga, name)
                    end.notes.data.clear()
                olga.received.clear()
            assert cuts(ann) + cuts(bob) == []
            assert (olga.closed_channels, olga.rejections, olga.rejected_by) == (0, [], [])
            assert ann.knows("bob", "olga")
            assert ann.notes.events == []  # Nothing of the routine wakes whoever waits for events.


@pytest.mark.parametrize("is_connected_twice", [False, True])
async def test_an_original_that_hangs_is_noticed(monkeypatch: pytest.MonkeyPatch, is_connected_twice: bool) -> None:
    async with connected_twice(monkeypatch, {}, {}) as (clock, ann, olga, _):
        if not is_connected_twice:
            peer = ann.mesh.roster.find("olga")
            assert peer is not None
            peer.links["viewer"].end("for the test")
            assert len(peer.links) == 1
        await pass_time(clock, 20, ann)
        olga.sdk.is_hung = True
        (peer,) = ann.mesh.roster
        while clock.now + TICK_S <= peer.heard_at + limits.PEER_DEAD_S:
            clock.now += TICK_S
            ann.mesh.watch.tick()
        assert ann.notes.gone == []
        clock.now += TICK_S
        ann.mesh.watch.tick()
        assert ann.notes.gone == ["olga"]
        assert ann.notes.of("peer_disconnected")[0]["detail"]["reason"] == "no sign of life"


async def test_an_impostor_does_not_take_the_name_of_an_original_that_answers_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_twice(monkeypatch, {}, {}) as (clock, ann, olga, host):
        await olga.sdk.lose_signalling()  # The server gives its name to whoever comes next; its channels live on.
        async with EmulatedOriginal(host, "olga", target="ann") as impostor:
            await impostor.until(impostor.sdk.open_peers)
            await ann.notes.until(lambda: any(peer.claim is not None for peer in ann.mesh.roster))
            await pass_time(clock, 2 * limits.PEER_CLAIM_S, ann)
            await ann.notes.until(lambda: ann.notes.of("sync_peer_rejected"))
            impostor.send({"from": "impostor"})
            await ann.notes.until(lambda: ann.notes.of("protocol_auth_failed"))
            assert ann.notes.data == []
            assert olga.closed_channels == 0
            assert olga.send("it is me", "ann")
            await ann.notes.until(lambda: ann.notes.data == [("olga", "it is me")])


async def test_an_original_that_comes_back_after_a_crash_gets_its_name_again() -> None:
    clock = Clock()
    async with signalling() as host:
        ann = End(host, "ann", clock=clock)
        async with room(ann):
            first = EmulatedOriginal(host, "olga", target="ann")
            async with first:
                await ann.until_knows("olga")
                first.sdk.is_hung = True
                await first.sdk.lose_signalling()
                async with EmulatedOriginal(host, "olga", target="ann") as second:
                    await ann.notes.until(lambda: any(peer.claim is not None for peer in ann.mesh.roster))
                    for _ in range(10):
                        clock.now += TICK_S
                        ann.mesh.watch.tick()
                    await ann.notes.until(lambda: len(ann.mesh.peers) == 1 and ann.knows("olga"))
                    await second.until(lambda: second.knows("ann"))
                    await exchange(ann, second, "ann")
