"""An original takes a peer's name from the connection: it must view us, so that names, tokens and lists work."""

from __future__ import annotations

from typing import Any

import pytest
from tests.packs.peers.emulation.bridge import EmulatedOriginal
from tests.packs.peers.emulation.talk import exchange
from tests.packs.peers.rooms import End, room, signalling

SECRET = "the right secret"
GATED: dict[str, Any] = {"enforce_join_token": True, "join_token_secrets": (SECRET,)}


@pytest.mark.parametrize("who_comes_first", ["ours", "original"])
@pytest.mark.parametrize("targets", [(None, None), (None, "olga"), ("ours", None), ("ours", "olga")])
@pytest.mark.parametrize("name", ["ann", "zoe"])
async def test_an_original_learns_our_name(
    name: str, targets: tuple[str | None, str | None], who_comes_first: str
) -> None:
    async with signalling() as host:
        ours = End(host, name, target_stream_id=targets[1], target_wait_s=0)
        olga = EmulatedOriginal(host, "olga", target=None if targets[0] is None else name)
        if who_comes_first == "ours":
            async with room(ours), olga:
                await met(ours, olga, name)
        else:
            async with olga, room(ours):
                await met(ours, olga, name)


async def met(ours: End, olga: EmulatedOriginal, name: str) -> None:
    await ours.until_knows("olga")
    await olga.until(lambda: olga.knows(name))
    assert not any(peer.stream_id == "olga" for peer in olga.peers.values())
    await exchange(ours, olga, name)


@pytest.mark.parametrize("target", [None, "olga"])
async def test_tokens_of_the_same_secret_are_accepted_in_both_directions(target: str | None) -> None:
    async with signalling() as host:
        ann = End(host, "ann", target_stream_id=target, target_wait_s=0, **GATED)
        olga = EmulatedOriginal(host, "olga", secret=SECRET, enforce_join_token=True)
        async with olga, room(ann):
            await ann.until_knows("olga")
            await olga.until(lambda: olga.knows("ann"))
            assert [peer.auth_ok for peer in olga.peers.values()] == [True]
            assert (olga.rejections, olga.rejected_by) == ([], [])
            await exchange(ann, olga, "ann")


async def test_an_allow_list_of_an_original_admits_us_by_our_name() -> None:
    async with signalling() as host:
        ann, olga = End(host, "ann"), EmulatedOriginal(host, "olga", allow=("ann",))
        async with olga, room(ann):
            await ann.until_knows("olga")
            await olga.until(lambda: olga.knows("ann"))
            assert olga.rejections == []
