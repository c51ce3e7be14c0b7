"""Data that peers without a channel send through the signalling server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.packs.peers.callers import connected_caller
from tests.packs.peers.room_agents import signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

DATA_EVENTS = ("data_received", "protocol_auth_failed")


async def test_fallback_data_through_the_signalling_server_is_delivered() -> None:
    async with signalling() as host, connected_caller(host) as ann, ScriptedPeer(host, "bob") as bob:
        await ann.connect("ann")
        joined = await bob.wait_for_signal("someonejoined")
        for data in (
            {"type": "bridge.keepalive"},
            {"__vdo_mcp": "vdo_mcp_bridge_v1", "kind": "state.patch"},
            {"n": 1},
            0,
        ):
            await bob.send_signal(UUID=joined["UUID"], pipe=data, __fallback=True)
        await bob.send_signal(pipe="for all", __fallback=True)
        delivered: list[object] = [{"n": 1}, 0, "for all"]
        for expected in delivered:
            event = await ann.wait_for_event("data_received")
            assert (event["data"], event["fallback"], event["streamID"]) == (expected, True, "bob")


@pytest.mark.parametrize(
    "requirements",
    [{"require_session_mac": True}, {"allow_peer_stream_ids": ["bob"]},
     {"enforce_join_token": True, "join_token_secret": "sek"}],
)  # fmt: skip
async def test_fallback_data_is_refused_if_peers_must_authenticate(requirements: dict[str, Any]) -> None:
    async with signalling() as host, connected_caller(host) as ann, ScriptedPeer(host, "bob") as bob:
        await ann.connect("ann", **requirements)
        await bob.wait_for_signal("someonejoined")
        for _ in range(5):
            await bob.send_signal(pipe="psst", __fallback=True)
        # The reply to this request comes after everything that the server relayed before.
        await bob.send_signal(request="seed", streamID="x")
        await bob.wait_for_signal("seeded")
        await ann.wait_for_event("protocol_auth_failed", kind="fallback data")
        assert not [event for event in await ann.read_events() if event["type"] in DATA_EVENTS]
