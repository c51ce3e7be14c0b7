"""A VDO.Ninja bridge learns a peer's name only as its viewer, and names, tokens and allow-lists depend on it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.packs.peers.emulation.bridge import EmulatedVdoBridge
from tests.packs.peers.emulation.message_exchange import exchange_messages
from tests.packs.peers.room_agents import RoomAgent, joined_room, signalling

SECRET = "the right secret"
GATED: dict[str, Any] = {"enforce_join_token": True, "join_token_secrets": (SECRET,)}


@pytest.mark.parametrize("first_in_room", ["ours", "vdo_bridge"])
@pytest.mark.parametrize("targets", [(None, None), (None, "olga"), ("ours", None), ("ours", "olga")])
@pytest.mark.parametrize("name", ["ann", "zoe"])
async def test_a_vdo_bridge_learns_our_name(
    name: str, targets: tuple[str | None, str | None], first_in_room: str
) -> None:
    async with signalling() as host:
        ours = RoomAgent(host, name, target_stream_id=targets[1], target_wait_s=0)
        olga = EmulatedVdoBridge(host, "olga", target=None if targets[0] is None else name)
        if first_in_room == "ours":
            async with joined_room(ours), olga:
                await check_exchange(ours, olga, name)
        else:
            async with olga, joined_room(ours):
                await check_exchange(ours, olga, name)


async def check_exchange(ours: RoomAgent, olga: EmulatedVdoBridge, name: str) -> None:
    await ours.wait_for_peers("olga")
    await olga.until(lambda: olga.knows(name))
    assert not any(peer.stream_id == "olga" for peer in olga.peers.values())
    await exchange_messages(ours, olga, name)


@pytest.mark.parametrize("target", [None, "olga"])
async def test_tokens_of_the_same_secret_are_accepted_in_both_directions(target: str | None) -> None:
    async with signalling() as host:
        ann = RoomAgent(host, "ann", target_stream_id=target, target_wait_s=0, **GATED)
        olga = EmulatedVdoBridge(host, "olga", secret=SECRET, enforce_join_token=True)
        async with olga, joined_room(ann):
            await ann.wait_for_peers("olga")
            await olga.until(lambda: olga.knows("ann"))
            assert [peer.auth_ok for peer in olga.peers.values()] == [True]
            assert (olga.rejections, olga.rejected_by) == ([], [])
            await exchange_messages(ann, olga, "ann")


async def test_an_allow_list_of_a_vdo_bridge_admits_us_by_our_name() -> None:
    async with signalling() as host:
        ann, olga = RoomAgent(host, "ann"), EmulatedVdoBridge(host, "olga", allow=("ann",))
        async with olga, joined_room(ann):
            await ann.wait_for_peers("olga")
            await olga.until(lambda: olga.knows("ann"))
            assert olga.rejections == []
