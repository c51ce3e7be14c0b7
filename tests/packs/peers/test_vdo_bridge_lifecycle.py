"""VDO.Ninja bridges in a room for minutes: healthy connections stay open, and dead peers are detected.

The tests advance a virtual clock. The same in real minutes: `python -m tests.packs.peers.emulation.soak`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.packs.peers.emulation.bridge import EmulatedVdoBridge
from tests.packs.peers.emulation.message_exchange import exchange_messages
from tests.packs.peers.room_agents import Clock, RoomAgent, joined_room, signalling

from hubbub.packs.peers import limits

SECRET = "the right secret"
GATED: dict[str, Any] = {"enforce_join_token": True, "join_token_secrets": (SECRET,), "heartbeat_s": 5.0}
TICK_S = 0.5
MINUTES_S = 180


async def pass_time(
    clock: Clock, seconds: float, *agents: RoomAgent, vdo_bridges: tuple[EmulatedVdoBridge, ...] = ()
) -> None:
    """Move the clock in small steps; every ping that is due is sent, and answered before the next step."""
    for step in range(1, round(seconds / TICK_S) + 1):
        clock.now += TICK_S
        for agent in agents:
            agent.mesh.liveness.tick()
        if step % 10 == 0:
            for vdo_bridge in vdo_bridges:
                vdo_bridge.send_heartbeat()
        asked = [peer for agent in agents for peer in agent.mesh.roster if peer.last_pinged_at == clock.now]
        async with asyncio.timeout(60):
            while any(peer.last_received_at < clock.now for peer in asked):
                await asyncio.sleep(0.001)


def disconnect_events(agent: RoomAgent) -> list[dict[str, Any]]:
    return [
        *agent.listener.of("data_channel_close"),
        *agent.listener.of("peer_disconnected"),
        *agent.listener.of("connection_failed"),
    ]


@asynccontextmanager
async def connected_both_ways(
    monkeypatch: pytest.MonkeyPatch, ours: dict[str, Any], theirs: dict[str, Any]
) -> AsyncIterator[tuple[Clock, RoomAgent, EmulatedVdoBridge, str]]:
    """Ann and a VDO.Ninja bridge view each other: two connections, of which the bridge uses one."""
    monkeypatch.setattr(limits, "PEER_RESPONSE_TIMEOUT_S", 0.05)  # It ignores our offer, so we ask it for one.
    clock = Clock()
    async with signalling() as host:
        ann = RoomAgent(host, "ann", clock=clock, **ours)
        olga = EmulatedVdoBridge(host, "olga", accepts_unasked_offers=False, **theirs)
        async with olga, joined_room(ann):
            await ann.wait_for_peers("olga")
            await olga.sdk.view("ann")
            await olga.until(lambda: len(olga.sdk.connections) == 2 and olga.knows("ann"))
            await ann.listener.until(lambda: len(ann.mesh.roster.find("olga").open_links) == 2)  # type: ignore[union-attr]
            ann.listener.events.clear()
            olga.rejections.clear()
            yield clock, ann, olga, host


async def test_a_vdo_bridge_that_answers_pings_on_its_other_channel_stays_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_both_ways(monkeypatch, {}, {}) as (clock, ann, olga, _):
        await pass_time(clock, MINUTES_S, ann)
        assert disconnect_events(ann) == []
        assert olga.closed_channels == 0
        assert all(len(connection.pings) > 20 for connection in olga.sdk.connections.values())
        await exchange_messages(ann, olga, "ann")


async def test_enforced_tokens_keep_peers_connected_for_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = {"secret": SECRET, "enforce_join_token": True}
    async with connected_both_ways(monkeypatch, GATED, theirs) as (clock, ann, olga, _):
        for _ in range(MINUTES_S // 20):
            await pass_time(clock, 20, ann, vdo_bridges=(olga,))
            await exchange_messages(ann, olga, "ann")
            ann.listener.data.clear()
            olga.received.clear()
        assert disconnect_events(ann) == []
        assert olga.closed_channels == 0
        assert (olga.rejections, ann.listener.of("sync_peer_rejected")) == ([], [])


@pytest.mark.parametrize("target", [None, "ann"])
async def test_two_agents_and_a_vdo_bridge_stay_connected_for_minutes(target: str | None) -> None:
    clock = Clock()
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann", clock=clock, **GATED), RoomAgent(host, "bob", clock=clock, **GATED)
        olga = EmulatedVdoBridge(host, "olga", target=target, secret=SECRET, enforce_join_token=True)
        async with olga, joined_room(ann, bob):
            for agent, others in ((ann, ("bob", "olga")), (bob, ("ann", "olga"))):
                await agent.wait_for_peers(*others)
            await olga.until(lambda: olga.knows("ann") and olga.knows("bob"))
            await pass_time(clock, 20, ann, bob, vdo_bridges=(olga,))
            await exchange_messages(ann, olga, "ann")
            ann.listener.events.clear()
            for _ in range(MINUTES_S // 20):
                await pass_time(clock, 20, ann, bob, vdo_bridges=(olga,))
                for agent, name in ((ann, "ann"), (bob, "bob")):
                    await exchange_messages(agent, olga, name)
                    agent.listener.data.clear()
                olga.received.clear()
            assert disconnect_events(ann) + disconnect_events(bob) == []
            assert (olga.closed_channels, olga.rejections, olga.rejected_by) == (0, [], [])
            assert ann.knows("bob", "olga")
            assert ann.listener.events == []  # Periodic messages emit no events.


@pytest.mark.parametrize("is_connected_twice", [False, True])
async def test_a_hung_vdo_bridge_is_detected(monkeypatch: pytest.MonkeyPatch, is_connected_twice: bool) -> None:
    async with connected_both_ways(monkeypatch, {}, {}) as (clock, ann, olga, _):
        if not is_connected_twice:
            peer = ann.mesh.roster.find("olga")
            assert peer is not None
            peer.links["viewer"].end("for the test")
            assert len(peer.links) == 1
        await pass_time(clock, 20, ann)
        olga.sdk.is_hung = True
        (peer,) = ann.mesh.roster
        while clock.now + TICK_S <= peer.last_received_at + limits.PEER_SILENCE_TIMEOUT_S:
            clock.now += TICK_S
            ann.mesh.liveness.tick()
        assert ann.listener.gone == []
        clock.now += TICK_S
        ann.mesh.liveness.tick()
        assert ann.listener.gone == ["olga"]
        assert ann.listener.of("peer_disconnected")[0]["detail"]["reason"] == "no sign of life"


async def test_an_impostor_does_not_take_the_name_of_a_vdo_bridge_that_still_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_both_ways(monkeypatch, {}, {}) as (clock, ann, olga, host):
        await olga.sdk.lose_signalling()  # The server gives its name to the next client; its channels stay open.
        async with EmulatedVdoBridge(host, "olga", target="ann") as impostor:
            await impostor.until(impostor.sdk.open_peers)
            await ann.listener.until(lambda: any(peer.claim is not None for peer in ann.mesh.roster))
            await pass_time(clock, 2 * limits.PEER_CLAIM_S, ann)
            await ann.listener.until(lambda: ann.listener.of("sync_peer_rejected"))
            impostor.send({"from": "impostor"})
            await ann.listener.until(lambda: ann.listener.of("protocol_auth_failed"))
            assert ann.listener.data == []
            assert olga.closed_channels == 0
            assert olga.send("it is me", "ann")
            await ann.listener.until(lambda: ann.listener.data == [("olga", "it is me")])


async def test_a_vdo_bridge_that_returns_after_a_crash_gets_its_name_again() -> None:
    clock = Clock()
    async with signalling() as host:
        ann = RoomAgent(host, "ann", clock=clock)
        async with joined_room(ann):
            first = EmulatedVdoBridge(host, "olga", target="ann")
            async with first:
                await ann.wait_for_peers("olga")
                first.sdk.is_hung = True
                await first.sdk.lose_signalling()
                async with EmulatedVdoBridge(host, "olga", target="ann") as second:
                    await ann.listener.until(lambda: any(peer.claim is not None for peer in ann.mesh.roster))
                    for _ in range(10):
                        clock.now += TICK_S
                        ann.mesh.liveness.tick()
                    await ann.listener.until(lambda: len(ann.mesh.peers) == 1 and ann.knows("olga"))
                    await second.until(lambda: second.knows("ann"))
                    await exchange_messages(ann, second, "ann")
