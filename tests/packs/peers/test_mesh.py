"""Rooms over real WebRTC, in one process: discovery, messages, disconnects."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.packs.peers.room_agents import RoomAgent, joined_room, signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

from hubbub.packs.peers import limits, tokens
from hubbub.packs.peers.errors import PeersError, SignallingFailed, StreamIdTaken

PATCH = {"key": "k", "value": 1, "actor": "mallory", "clock": 1, "updated_at": ""}
SECRET = "sek"


# -- discovery -----------------------------------------------------------------------


@pytest.mark.parametrize("engines", [("wrtc",) * 3, ("aiortc",) * 3, ("wrtc", "aiortc", "wrtc")], ids="-".join)
async def test_all_peers_of_a_room_connect_to_each_other(engines: tuple[str, ...]) -> None:
    async with signalling() as host:
        agents = [RoomAgent(host, name, engine) for name, engine in zip(("ann", "bob", "carol"), engines, strict=True)]
        ann, bob, carol = agents
        async with joined_room(*agents):
            await ann.wait_for_peers("bob", "carol")
            await bob.wait_for_peers("ann", "carol")
            await carol.wait_for_peers("ann", "bob")
            assert len(ann.mesh.send({"hi": "é"}).recipients) == 2
            await bob.listener.until(lambda: bob.listener.data)
            await carol.listener.until(lambda: carol.listener.data)
            assert bob.listener.data == carol.listener.data == [("ann", {"hi": "é"})]
            assert bob.mesh.send(0, to="ann").ok
            assert bob.mesh.send({"type": "response"}, to=bob.uuid("ann")).ok
            await ann.listener.until(lambda: len(ann.listener.data) == 2)
            assert ann.listener.data == [("bob", 0), ("bob", {"type": "response"})]


async def test_envelopes_and_bytes_are_signed() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann", require_session_mac=True), RoomAgent(host, "bob", require_session_mac=True)
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")
            await bob.wait_for_peers("ann")
            assert ann.mesh.send_envelope("state.patch", PATCH).ok
            await bob.listener.until(lambda: bob.listener.envelopes)
            assert bob.listener.envelopes[0][1].mac is not None
            await ann.listener.until(lambda: ann.mesh.bulk(ann.uuid("bob")))
            await bob.listener.until(lambda: bob.mesh.bulk(bob.uuid("ann")))
            there, back = ann.mesh.bulk(ann.uuid("bob")), bob.mesh.bulk(bob.uuid("ann"))
            assert there is not None
            assert back is not None
            largest = b"x" * there.max_frame
            there.send(largest)
            back.send(b"back")
            await bob.listener.until(lambda: bob.listener.bytes)
            await ann.listener.until(lambda: ann.listener.bytes)
            assert bob.listener.bytes == [("ann", largest)]
            assert ann.listener.bytes == [("bob", b"back")]


async def test_connect_waits_for_the_target_peer() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        zoe = RoomAgent(host, "zoe", target_stream_id="bob")
        async with joined_room(ann, bob, zoe):
            peer = zoe.mesh.find("bob")
            assert peer is not None
            assert peer.is_connected
            await ann.wait_for_peers("bob", "zoe")  # Ann has no target, so she connects to both.


async def test_a_target_that_joins_later_is_connected() -> None:
    async with signalling() as host:
        zoe = RoomAgent(host, "zoe", target_stream_id="bob", target_wait_s=0.1)
        bob = RoomAgent(host, "bob", target_stream_id="zoe")
        async with joined_room(zoe, bob):
            await zoe.wait_for_peers("bob")
            await bob.wait_for_peers("zoe")


async def test_other_rooms_and_other_passwords_are_separate() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob", room="other")
        carol, dora = RoomAgent(host, "carol", password="p"), RoomAgent(host, "dora", password="p")
        async with joined_room(ann, bob, carol, dora):
            await carol.wait_for_peers("dora")
            assert not ann.mesh.peers
            assert not bob.mesh.peers


async def test_rooms_without_a_password_use_no_encryption_of_descriptions() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann", password=False), RoomAgent(host, "bob", password=False)
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")


async def test_connection_events_contain_no_secrets() -> None:
    async with signalling() as host:
        ann, bob = (
            RoomAgent(host, "ann", heartbeat_s=0.2, join_token_secrets=(SECRET,)),
            RoomAgent(host, "bob", heartbeat_s=0.2),
        )
        ann.listener.digest = "d1"
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")
            await bob.listener.until(lambda: "d1" in bob.listener.digests)
            assert ann.mesh.heartbeat_at
            assert ann.mesh.announce(to="bob").ok
            assert [event["ok"] for event in ann.listener.of("heartbeat_sent")] == [True]
            types = [event["type"] for event in ann.listener.events]
            assert types[:2] == ["connected", "ready"]
            for type in ("peer_connected", "data_channel_open", "sync_hello_sent", "sync_peer_updated"):
                assert type in types
        text = json.dumps(ann.listener.events)
        assert SECRET not in text
        assert "a=fingerprint" not in text
        assert "eyJ" not in text


async def test_undeliverable_messages_are_reported() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with joined_room(ann):
            assert not ann.mesh.send("x").ok
            assert ann.mesh.send("x", to="bob").failed == {"bob": "no_open_data_channel"}
            assert [event["reason"] for event in ann.listener.of("send_rejected")] == ["no_open_data_channel"] * 2
            async with joined_room(bob):
                await ann.wait_for_peers("bob")
                assert ann.mesh.send("x" * limits.PEER_FRAME_BYTES).failed == {ann.uuid("bob"): "too_large"}
                assert ann.listener.of("send_error")
                assert ann.mesh.send("still").ok
                await bob.listener.until(lambda: bob.listener.data)


# -- failed first connects and lost signalling -------------------------------------------


async def test_a_failed_first_connect_raises_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    agent = RoomAgent("ws://127.0.0.1:9", "ann")
    with pytest.raises(SignallingFailed, match="hubbub signal"):
        await agent.mesh.connect()
    assert agent.mesh.state == "stopped"
    assert asyncio.all_tasks() == before
    assert agent.listener.events == []


async def test_connecting_with_a_stream_id_in_use_raises() -> None:
    async with signalling() as host:
        ann, second = RoomAgent(host, "ann"), RoomAgent(host, "ann")
        async with joined_room(ann):
            with pytest.raises(StreamIdTaken):
                await second.mesh.connect()


async def test_enforce_join_token_without_a_secret_is_refused() -> None:
    with pytest.raises(PeersError, match="join_token_secret"):
        await RoomAgent("ws://127.0.0.1:9", "ann", enforce_join_token=True).mesh.connect()


async def test_channels_stay_open_while_the_signalling_server_restarts() -> None:
    async with signalling() as host:
        port = int(host.rpartition(":")[2])
        ann, bob = RoomAgent(host, "ann", reconnect_s=0.1), RoomAgent(host, "bob", reconnect_s=0.1)
        await ann.mesh.connect()
        await bob.mesh.connect()
        await ann.wait_for_peers("bob")
        await bob.wait_for_peers("ann")
    try:
        await ann.listener.until(lambda: ann.listener.of("reconnect_scheduled"))
        assert ann.mesh.state == "reconnecting"
        uuid = ann.uuid("bob")
        ann.mesh.send("while it is away", to="bob")
        await bob.listener.until(lambda: bob.listener.data)
        async with signalling(port=port):
            for agent in (ann, bob):
                await agent.listener.until(lambda agent=agent: agent.mesh.state == "connected")
                assert len(agent.listener.of("ready")) == len(agent.listener.of("connected")) == 2
                assert agent.listener.of("ready")[0] == agent.listener.of("ready")[1]
            carol = RoomAgent(host, "carol")
            async with joined_room(carol):
                await carol.wait_for_peers("ann", "bob")
                await ann.wait_for_peers("bob", "carol")
            assert ann.uuid("bob") == uuid
            assert "bob" not in ann.listener.gone
            assert (
                ann.listener.events.count(
                    {"type": "data_channel_open", "detail": {"uuid": uuid, "type": "publisher", "streamID": "bob"}}
                )
                == 1
            )
            ann.mesh.send("when it is back", to="bob")
            await bob.listener.until(lambda: len(bob.listener.data) == 2)
    finally:
        await ann.mesh.disconnect()
        await bob.mesh.disconnect()


# -- VDO.Ninja bridges and unknown peers ---------------------------------------------------


@pytest.mark.parametrize("role", ["viewer", "publisher"])
async def test_a_vdo_bridge_is_served_in_both_roles(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if role == "publisher":
        monkeypatch.setattr(limits, "PEER_RESPONSE_TIMEOUT_S", 0.05)  # Ask a peer that ignores our offer for one soon.
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann), ScriptedPeer(host, "vera") as vdo_bridge:
            await (vdo_bridge.view("ann") if role == "viewer" else vdo_bridge.wait_for_viewer())
            vdo_bridge.send_hello()
            await ann.wait_for_peers("vera")
            await ann.listener.until(lambda: vdo_bridge.envelopes("sync.hello_ack"))
            first = vdo_bridge.received_frames[0]
            assert first == (
                {"info": {"label": "mcp_bridge"}}
                if role == "viewer"
                else {"audio": False, "video": False, "info": {"label": "mcp_bridge"}}
            )
            vdo_bridge.send_frame({"pipe": {"n": 1}})
            vdo_bridge.send_frame({"ping": 17})
            vdo_bridge.send_frame({"pipe": {"type": "bridge.keepalive", "ts": 1, "streamID": "vera"}})
            await ann.listener.until(lambda: {"pong": 17} in vdo_bridge.received_frames)
            assert ann.listener.data == [("vera", {"n": 1})]
            # Its envelopes are signed without a counter; data that it would drop is not sent.
            assert ann.mesh.send_envelope("state.patch", PATCH, to="vera").ok
            await ann.listener.until(lambda: vdo_bridge.envelopes("state.patch"))
            assert vdo_bridge.envelopes("state.patch")[0]["nonce"].startswith("p_")
            assert vdo_bridge.envelopes("state.patch")[0]["mac"]
            assert ann.mesh.send(0, to="vera").failed == {ann.uuid("vera"): "undeliverable"}
            assert ann.mesh.bulk(ann.uuid("vera")) is None
            vdo_bridge.send_frame({"bye": True})
            await ann.listener.until(lambda: ann.listener.gone == ["vera"])


GATES: list[dict[str, Any]] = [
    {"enforce_join_token": True, "join_token_secrets": (SECRET,)},
    {"allow_peer_stream_ids": ("bob",)},
    {"require_session_mac": True},
]


@pytest.mark.parametrize("gate", GATES, ids=["token", "list", "mac"])
@pytest.mark.parametrize("greeting", ["none", "plain", "keyless"])
async def test_an_unadmitted_peer_neither_sends_nor_receives_messages(gate: dict[str, Any], greeting: str) -> None:
    async with signalling() as host:
        ann = RoomAgent(host, "ann", **gate)
        async with joined_room(ann), ScriptedPeer(host, "mallory") as mallory:
            await mallory.view("ann")
            if greeting != "none":
                mallory.send_hello(**({"public_key": None} if greeting == "keyless" else {}))
            mallory.send_frame({"pipe": "data"})
            mallory.send_frame({"pipe": 0})
            for kind in ("state.patch", "file.offer"):
                mallory.send_frame(mallory.trust.frame(None, kind, PATCH))
            mallory.send_frame({"ping": 1})
            await ann.listener.until(lambda: {"pong": 1} in mallory.received_frames)
            is_mac_and_key = "require_session_mac" in gate and greeting == "plain"
            assert ann.listener.data == ([("mallory", "data"), ("mallory", 0)] if is_mac_and_key else [])
            assert ann.listener.envelopes == []
            assert ann.listener.of("protocol_auth_failed")
            if not is_mac_and_key:
                assert not ann.mesh.send("secret").ok
                assert ann.mesh.send("secret", to="mallory").failed == {ann.uuid("mallory"): "not_admitted"}
                assert not any("secret" in json.dumps(frame) for frame in mallory.received_frames)
            if greeting == "plain" and not is_mac_and_key:
                assert mallory.envelopes("sync.reject")
                assert ann.listener.of("sync_peer_rejected")


async def test_a_join_token_of_another_peer_is_rejected() -> None:
    async with signalling() as host:
        ann = RoomAgent(host, "ann", enforce_join_token=True, join_token_secrets=(SECRET,))
        bob = RoomAgent(host, "bob", enforce_join_token=True, join_token_secrets=(SECRET,))
        stolen = tokens.mint(SECRET, "hall", "bob", 2**53 - 1, "n")
        async with joined_room(ann, bob), ScriptedPeer(host, "mallory") as mallory:
            await ann.wait_for_peers("bob")
            await mallory.view("ann")
            mallory.send_hello(join_token=stolen)
            await ann.listener.until(lambda: ann.listener.of("sync_peer_rejected"))
            assert ann.listener.of("sync_peer_rejected")[0]["reason"] == "join token stream mismatch"


async def test_a_replayed_hello_does_not_admit_a_peer() -> None:
    gate: dict[str, Any] = {"enforce_join_token": True, "join_token_secrets": (SECRET,)}
    async with signalling() as host:
        bob, carol = RoomAgent(host, "bob", **gate), RoomAgent(host, "carol", **gate)
        async with ScriptedPeer(host, None) as spy, joined_room(bob):
            await spy.view("bob")
            await bob.listener.until(lambda: spy.envelopes("sync.hello"))
        async with joined_room(carol), ScriptedPeer(host, "bob") as mallory:
            await mallory.view("carol")
            mallory.send_frame({"pipe": spy.envelopes("sync.hello")[0]})
            mallory.send_frame({"pipe": "I am bob"})
            await carol.listener.until(lambda: carol.listener.data or carol.listener.of("protocol_auth_failed"))
            assert carol.listener.data == []
            assert not carol.mesh.send("secret").ok


async def test_a_stream_id_of_another_peer_is_rejected() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with joined_room(ann, bob), ScriptedPeer(host, None) as mallory:
            await ann.wait_for_peers("bob")
            mallory.trust = ScriptedPeer(host, "bob").trust
            await mallory.view("ann")
            mallory.send_hello()
            await ann.listener.until(lambda: ann.listener.of("sync_peer_rejected"))
            mallory.send_frame({"pipe": "I am bob"})
            mallory.send_frame({"ping": 1})
            await ann.listener.until(lambda: {"pong": 1} in mallory.received_frames)
            assert ann.listener.data == []
            assert ann.knows("bob")


async def test_envelopes_with_another_stream_id_or_room_are_refused() -> None:
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann), ScriptedPeer(host, "mallory") as mallory:
            await mallory.view("ann")
            mallory.send_hello()
            await ann.wait_for_peers("mallory")
            mallory.send_frame(ScriptedPeer(host, "carol").trust.frame(None, "state.patch", PATCH))
            mallory.send_frame(ScriptedPeer(host, "mallory", room="other").trust.frame(None, "state.patch", PATCH))
            await ann.listener.until(lambda: len(ann.listener.of("protocol_auth_failed")) == 2)
            assert ann.listener.envelopes == []


async def test_an_offer_under_the_stream_id_of_another_peer_is_ignored() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")
            async with ScriptedPeer(host, None) as mallory:
                listed = mallory.server_messages[0]["list"]
                there = next(each["UUID"] for each in listed if each["streamID"] == mallory.names.wire_stream_id("ann"))
                await mallory.send_offer(there, "bob")
                assert mallory.connection is not None
                await mallory.connection.close()
                await mallory.offer(there, "carol")  # Sent after the other; only this one is answered.
                assert sorted(str(peer.stream_id) for peer in ann.mesh.peers) == ["bob", "carol"]


async def test_a_name_stated_only_in_an_offer_is_cleared_when_its_owner_joins() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with joined_room(ann), ScriptedPeer(host, None) as mallory:
            there = mallory.server_messages[0]["list"][0]["UUID"]
            await mallory.offer(there, "bob")
            async with joined_room(bob):
                await ann.wait_for_peers("bob")
                mallory.send_frame({"pipe": "I am bob"})
                await ann.listener.until(lambda: ann.listener.data)
                assert ann.listener.data == [(None, "I am bob")]


async def test_a_name_taken_at_a_restarted_server_does_not_displace_its_owner() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(AsyncExitStack())
        host = await server.enter_async_context(signalling())
        ann, bob = (
            RoomAgent(host, "ann", reconnect_s=0.1),
            RoomAgent(host, "bob", reconnect_s=30.0, max_reconnect_s=30.0),
        )
        await stack.enter_async_context(joined_room(ann, bob))
        await ann.wait_for_peers("bob")
        await server.aclose()
        await stack.enter_async_context(signalling(port=int(host.rpartition(":")[2])))
        await ann.listener.until(lambda: ann.mesh.state == "connected" and len(ann.listener.of("connected")) == 2)
        mallory = await stack.enter_async_context(ScriptedPeer(host, "bob"))
        await mallory.view("ann")
        mallory.send_frame({"pipe": "I am bob"})
        await ann.listener.until(lambda: ann.listener.data or ann.listener.of("protocol_auth_failed"))
        assert ann.listener.data == []
        assert bob.mesh.send("so am I", to="ann").ok
        await ann.listener.until(lambda: ann.listener.data)
        assert ann.listener.data == [("bob", "so am I")]


async def test_unreadable_frames_close_only_their_own_connection() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann"), RoomAgent(host, "bob")
        async with joined_room(ann, bob), ScriptedPeer(host, "mallory") as mallory:
            await ann.wait_for_peers("bob")
            await mallory.view("ann")
            for frame in ("", "x", "[]", "{}", '{"pipe":', '{"description":1}', '{"candidates":[1,{"candidate":2}]}'):
                mallory.send_frame(frame)
            mallory.send_frame({"pipe": {"__vdo_mcp": "vdo_mcp_bridge_v1", "kind": 7}})
            mallory.send_frame('{"ping":1e999}')
            mallory.send_frame({"ping": 5})
            await ann.listener.until(lambda: {"pong": 5} in mallory.received_frames)
            for _ in range(200):
                try:
                    mallory.send_frame("garbage")
                except PeersError:
                    break
            async with asyncio.timeout(60):
                await mallory.closed.wait()
            assert ann.mesh.send("on we go", to="bob").ok
            await bob.listener.until(lambda: bob.listener.data)
            assert not ann.listener.of("sdk_error")


async def test_repeated_play_requests_and_offers_are_limited() -> None:
    async with signalling() as host:
        ann = RoomAgent(host, "ann")
        async with joined_room(ann), ScriptedPeer(host, "mallory") as mallory:
            for _ in range(100):
                await mallory.send_signal(request="play", streamID=mallory.names.wire_stream_id("ann"))
            await mallory.view("ann")
            offers = [message for message in mallory.server_messages if "description" in message]
            assert len(offers) <= limits.PEER_OFFERS
            address = mallory.server_messages[0]["list"][0]["UUID"]
            for number in range(100):
                await mallory.send_signal(
                    UUID=address,
                    session=f"s{number}",
                    streamID=mallory.names.wire_stream_id("mallory"),
                    **mallory.encrypt_description({"type": "offer", "sdp": "v=0"}),
                )
                await mallory.send_signal(
                    UUID=address, session="s", type="local", candidates=[{"candidate": "x"}] * 500
                )
                await mallory.send_signal(UUID=address, session="s", description={"a": 1}, streamID="x")
            mallory.send_frame({"ping": 1})
            await ann.listener.until(lambda: {"pong": 1} in mallory.received_frames)
            assert len(ann.mesh.peers) == 1
            assert not ann.listener.of("sdk_error")


async def test_a_full_mesh_refuses_more_peers() -> None:
    async with signalling() as host:
        ann, bob = RoomAgent(host, "ann", max_peers=1), RoomAgent(host, "bob")
        async with joined_room(ann, bob), ScriptedPeer(host, "mallory") as mallory:
            await ann.wait_for_peers("bob")
            await mallory.send_signal(request="play", streamID=mallory.names.wire_stream_id("ann"))
            await ann.listener.until(lambda: ann.listener.of("connection_failed"))
            assert len(ann.mesh.peers) == 1
