"""Rooms over real WebRTC, in one process: who finds whom, what passes, what happens when things go."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from tests.packs.peers.rooms import End, room, signalling
from tests.packs.peers.stranger import Stranger

from hubbub.packs.peers import limits, tokens
from hubbub.packs.peers.engine import Channel
from hubbub.packs.peers.failures import PeersError, SignallingFailed, StreamIdTaken

PATCH = {"key": "k", "value": 1, "actor": "mallory", "clock": 1, "updated_at": ""}
SECRET = "sek"


# -- meeting -------------------------------------------------------------------------


@pytest.mark.parametrize("engines", [("wrtc",) * 3, ("aiortc",) * 3, ("wrtc", "aiortc", "wrtc")], ids="-".join)
async def test_everybody_in_a_room_finds_everybody(engines: tuple[str, ...]) -> None:
    async with signalling() as host:
        ends = [End(host, name, engine) for name, engine in zip(("ann", "bob", "carol"), engines, strict=True)]
        ann, bob, carol = ends
        async with room(*ends):
            await ann.until_knows("bob", "carol")
            await bob.until_knows("ann", "carol")
            await carol.until_knows("ann", "bob")
            assert len(ann.mesh.send({"hi": "é"}).to) == 2
            await bob.notes.until(lambda: bob.notes.data)
            await carol.notes.until(lambda: carol.notes.data)
            assert bob.notes.data == carol.notes.data == [("ann", {"hi": "é"})]
            assert bob.mesh.send(0, to="ann").ok
            assert bob.mesh.send({"type": "response"}, to=bob.uuid("ann")).ok
            await ann.notes.until(lambda: len(ann.notes.data) == 2)
            assert ann.notes.data == [("bob", 0), ("bob", {"type": "response"})]


async def test_envelopes_and_bytes_pass_signed() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann", require_session_mac=True), End(host, "bob", require_session_mac=True)
        async with room(ann, bob):
            await ann.until_knows("bob")
            await bob.until_knows("ann")
            assert ann.mesh.send_envelope("state.patch", PATCH).ok
            await bob.notes.until(lambda: bob.notes.envelopes)
            assert bob.notes.envelopes[0][1].mac is not None
            await ann.notes.until(lambda: ann.mesh.bulk(ann.uuid("bob")))
            await bob.notes.until(lambda: bob.mesh.bulk(bob.uuid("ann")))
            there, back = ann.mesh.bulk(ann.uuid("bob")), bob.mesh.bulk(bob.uuid("ann"))
            assert there is not None
            assert back is not None
            largest = b"x" * there.max_frame
            there.send(largest)
            back.send(b"back")
            await bob.notes.until(lambda: bob.notes.bytes)
            await ann.notes.until(lambda: ann.notes.bytes)
            assert bob.notes.bytes == [("ann", largest)]
            assert ann.notes.bytes == [("bob", b"back")]


async def test_a_target_is_there_when_connect_returns_and_nobody_else_is_asked() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        zoe = End(host, "zoe", target_stream_id="bob")
        async with room(ann, bob, zoe):
            peer = zoe.mesh.find("bob")
            assert peer is not None
            assert peer.is_connected
            await ann.until_knows("bob", "zoe")  # Ann has no target, and asks.


async def test_a_target_that_comes_later_is_found() -> None:
    async with signalling() as host:
        zoe = End(host, "zoe", target_stream_id="bob", target_wait_s=0.1)
        bob = End(host, "bob", target_stream_id="zoe")
        async with room(zoe, bob):
            await zoe.until_knows("bob")
            await bob.until_knows("zoe")


async def test_other_rooms_and_other_passwords_stay_apart() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob", room="other")
        carol, dora = End(host, "carol", password="p"), End(host, "dora", password="p")
        async with room(ann, bob, carol, dora):
            await carol.until_knows("dora")
            assert not ann.mesh.peers
            assert not bob.mesh.peers


async def test_without_a_password_nothing_is_sealed_and_it_works() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann", password=False), End(host, "bob", password=False)
        async with room(ann, bob):
            await ann.until_knows("bob")


async def test_the_life_of_a_connection_is_told_without_secrets() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann", heartbeat_s=0.2, join_token_secrets=(SECRET,)), End(host, "bob", heartbeat_s=0.2)
        ann.notes.digest = "d1"
        async with room(ann, bob):
            await ann.until_knows("bob")
            await bob.notes.until(lambda: "d1" in bob.notes.digests)
            assert ann.mesh.heartbeat_at
            assert ann.mesh.announce(to="bob").ok
            assert [event["ok"] for event in ann.notes.of("heartbeat_sent")] == [True]
            types = [event["type"] for event in ann.notes.events]
            assert types[:2] == ["connected", "ready"]
            for type in ("peer_connected", "data_channel_open", "sync_hello_sent", "sync_peer_updated"):
                assert type in types
        text = json.dumps(ann.notes.events)
        assert SECRET not in text
        assert "a=fingerprint" not in text
        assert "eyJ" not in text


async def test_what_cannot_be_sent_is_told() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with room(ann):
            assert not ann.mesh.send("x").ok
            assert ann.mesh.send("x", to="bob").failed == {"bob": "no_open_data_channel"}
            assert [event["reason"] for event in ann.notes.of("send_rejected")] == ["no_open_data_channel"] * 2
            async with room(bob):
                await ann.until_knows("bob")
                assert ann.mesh.send("x" * limits.PEER_FRAME_BYTES).failed == {ann.uuid("bob"): "too_large"}
                assert ann.notes.of("send_error")
                assert ann.mesh.send("still").ok
                await bob.notes.until(lambda: bob.notes.data)


# -- first connects that fail, and later losses ------------------------------------------


async def test_a_first_connect_that_fails_raises_and_leaves_nothing() -> None:
    before = asyncio.all_tasks()
    end = End("ws://127.0.0.1:9", "ann")
    with pytest.raises(SignallingFailed, match="hubbub signal"):
        await end.mesh.connect()
    assert end.mesh.state == "stopped"
    assert asyncio.all_tasks() == before
    assert end.notes.events == []


async def test_a_stream_id_that_is_taken_raises() -> None:
    async with signalling() as host:
        ann, second = End(host, "ann"), End(host, "ann")
        async with room(ann):
            with pytest.raises(StreamIdTaken):
                await second.mesh.connect()


async def test_enforcement_without_a_secret_is_refused() -> None:
    with pytest.raises(PeersError, match="join_token_secret"):
        await End("ws://127.0.0.1:9", "ann", enforce_join_token=True).mesh.connect()


async def test_channels_outlive_the_signalling_server() -> None:
    async with signalling() as host:
        port = int(host.rpartition(":")[2])
        ann, bob = End(host, "ann", reconnect_s=0.1), End(host, "bob", reconnect_s=0.1)
        await ann.mesh.connect()
        await bob.mesh.connect()
        await ann.until_knows("bob")
        await bob.until_knows("ann")
    try:
        await ann.notes.until(lambda: ann.notes.of("reconnect_scheduled"))
        assert ann.mesh.state == "reconnecting"
        uuid = ann.uuid("bob")
        ann.mesh.send("while it is away", to="bob")
        await bob.notes.until(lambda: bob.notes.data)
        async with signalling(port=port):
            for end in (ann, bob):
                await end.notes.until(lambda end=end: end.mesh.state == "connected")
                assert len(end.notes.of("ready")) == len(end.notes.of("connected")) == 2
                assert end.notes.of("ready")[0] == end.notes.of("ready")[1]
            carol = End(host, "carol")
            async with room(carol):
                await carol.until_knows("ann", "bob")
                await ann.until_knows("bob", "carol")
            assert ann.uuid("bob") == uuid
            assert "bob" not in ann.notes.gone
            assert (
                ann.notes.events.count(
                    {"type": "data_channel_open", "detail": {"uuid": uuid, "type": "publisher", "streamID": "bob"}}
                )
                == 1
            )
            ann.mesh.send("when it is back", to="bob")
            await bob.notes.until(lambda: len(bob.notes.data) == 2)
    finally:
        await ann.mesh.disconnect()
        await bob.mesh.disconnect()


# -- originals and strangers ---------------------------------------------------------------


@pytest.mark.parametrize("role", ["viewer", "publisher"])
async def test_an_original_is_understood_in_both_roles(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if role == "publisher":
        monkeypatch.setattr(limits, "PEER_ANSWER_S", 0.05)  # Who ignores our offer is asked for one soon.
    async with signalling() as host:
        ann = End(host, "ann")
        async with room(ann), Stranger(host, "vera") as original:
            await (original.view("ann") if role == "viewer" else original.be_viewed())
            original.greet()
            await ann.until_knows("vera")
            await ann.notes.until(lambda: original.envelopes("sync.hello_ack"))
            first = original.heard[0]
            assert first == (
                {"info": {"label": "mcp_bridge"}}
                if role == "viewer"
                else {"audio": False, "video": False, "info": {"label": "mcp_bridge"}}
            )
            original.say({"pipe": {"n": 1}})
            original.say({"ping": 17})
            original.say({"pipe": {"type": "bridge.keepalive", "ts": 1, "streamID": "vera"}})
            await ann.notes.until(lambda: {"pong": 17} in original.heard)
            assert ann.notes.data == [("vera", {"n": 1})]
            # Signed for it, and not counted; what it would lose is not sent.
            assert ann.mesh.send_envelope("state.patch", PATCH, to="vera").ok
            await ann.notes.until(lambda: original.envelopes("state.patch"))
            assert original.envelopes("state.patch")[0]["nonce"].startswith("p_")
            assert original.envelopes("state.patch")[0]["mac"]
            assert ann.mesh.send(0, to="vera").failed == {ann.uuid("vera"): "undeliverable"}
            assert ann.mesh.bulk(ann.uuid("vera")) is None
            original.say({"bye": True})
            await ann.notes.until(lambda: ann.notes.gone == ["vera"])


GATES: list[dict[str, Any]] = [
    {"enforce_join_token": True, "join_token_secrets": (SECRET,)},
    {"allow_peer_stream_ids": ("bob",)},
    {"require_session_mac": True},
]


@pytest.mark.parametrize("gate", GATES, ids=["token", "list", "mac"])
@pytest.mark.parametrize("greeting", ["none", "plain", "keyless"])
async def test_a_stranger_gets_nothing_through_a_gate(gate: dict[str, Any], greeting: str) -> None:
    async with signalling() as host:
        ann = End(host, "ann", **gate)
        async with room(ann), Stranger(host, "mallory") as mallory:
            await mallory.view("ann")
            if greeting != "none":
                mallory.greet(**({"public_key": None} if greeting == "keyless" else {}))
            mallory.say({"pipe": "data"})
            mallory.say({"pipe": 0})
            for kind in ("state.patch", "file.offer"):
                mallory.say(mallory.trust.frame(None, kind, PATCH))
            mallory.say({"ping": 1})
            await ann.notes.until(lambda: {"pong": 1} in mallory.heard)
            is_mac_and_key = "require_session_mac" in gate and greeting == "plain"
            assert ann.notes.data == ([("mallory", "data"), ("mallory", 0)] if is_mac_and_key else [])
            assert ann.notes.envelopes == []
            assert ann.notes.of("protocol_auth_failed")
            if not is_mac_and_key:
                assert not ann.mesh.send("secret").ok
                assert ann.mesh.send("secret", to="mallory").failed == {ann.uuid("mallory"): "not_admitted"}
                assert not any("secret" in json.dumps(frame) for frame in mallory.heard)
            if greeting == "plain" and not is_mac_and_key:
                assert mallory.envelopes("sync.reject")
                assert ann.notes.of("sync_peer_rejected")


async def test_a_token_of_somebody_else_does_not_help() -> None:
    async with signalling() as host:
        ann = End(host, "ann", enforce_join_token=True, join_token_secrets=(SECRET,))
        bob = End(host, "bob", enforce_join_token=True, join_token_secrets=(SECRET,))
        stolen = tokens.mint(SECRET, "hall", "bob", 2**53 - 1, "n")
        async with room(ann, bob), Stranger(host, "mallory") as mallory:
            await ann.until_knows("bob")
            await mallory.view("ann")
            mallory.greet(join_token=stolen)
            await ann.notes.until(lambda: ann.notes.of("sync_peer_rejected"))
            assert ann.notes.of("sync_peer_rejected")[0]["reason"] == "join token stream mismatch"


async def test_a_hello_that_was_overheard_opens_no_gate() -> None:
    gate: dict[str, Any] = {"enforce_join_token": True, "join_token_secrets": (SECRET,)}
    async with signalling() as host:
        bob, carol = End(host, "bob", **gate), End(host, "carol", **gate)
        async with Stranger(host, None) as spy, room(bob):
            await spy.view("bob")
            await bob.notes.until(lambda: spy.envelopes("sync.hello"))
        async with room(carol), Stranger(host, "bob") as mallory:
            await mallory.view("carol")
            mallory.say({"pipe": spy.envelopes("sync.hello")[0]})
            mallory.say({"pipe": "I am bob"})
            await carol.notes.until(lambda: carol.notes.data or carol.notes.of("protocol_auth_failed"))
            assert carol.notes.data == []
            assert not carol.mesh.send("secret").ok


async def test_a_name_that_is_somebody_elses_is_refused() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with room(ann, bob), Stranger(host, None) as mallory:
            await ann.until_knows("bob")
            mallory.trust = Stranger(host, "bob").trust
            await mallory.view("ann")
            mallory.greet()
            await ann.notes.until(lambda: ann.notes.of("sync_peer_rejected"))
            mallory.say({"pipe": "I am bob"})
            mallory.say({"ping": 1})
            await ann.notes.until(lambda: {"pong": 1} in mallory.heard)
            assert ann.notes.data == []
            assert ann.knows("bob")


async def test_a_name_is_bound_to_its_connection() -> None:
    async with signalling() as host:
        ann = End(host, "ann")
        async with room(ann), Stranger(host, "mallory") as mallory:
            await mallory.view("ann")
            mallory.greet()
            await ann.until_knows("mallory")
            mallory.say(Stranger(host, "carol").trust.frame(None, "state.patch", PATCH))
            mallory.say(Stranger(host, "mallory", room="other").trust.frame(None, "state.patch", PATCH))
            await ann.notes.until(lambda: len(ann.notes.of("protocol_auth_failed")) == 2)
            assert ann.notes.envelopes == []


async def test_an_offer_in_the_name_of_somebody_else_is_not_taken() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with room(ann, bob):
            await ann.until_knows("bob")
            async with Stranger(host, None) as mallory:
                listed = mallory.said_by_server[0]["list"]
                there = next(each["UUID"] for each in listed if each["streamID"] == mallory.names.stream("ann"))
                await mallory.send_offer(there, "bob")
                assert mallory.connection is not None
                await mallory.connection.close()
                await mallory.offer(there, "carol")  # It comes after the other, and is the one that is answered.
                assert sorted(str(peer.stream_id) for peer in ann.mesh.peers) == ["bob", "carol"]


async def test_a_name_that_was_only_said_in_an_offer_goes_to_who_has_it() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with room(ann), Stranger(host, None) as mallory:
            there = mallory.said_by_server[0]["list"][0]["UUID"]
            await mallory.offer(there, "bob")
            async with room(bob):
                await ann.until_knows("bob")
                mallory.say({"pipe": "I am bob"})
                await ann.notes.until(lambda: ann.notes.data)
                assert ann.notes.data == [(None, "I am bob")]


async def test_who_takes_a_name_at_a_restarted_server_does_not_speak_in_it() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(AsyncExitStack())
        host = await server.enter_async_context(signalling())
        ann, bob = End(host, "ann", reconnect_s=0.1), End(host, "bob", reconnect_s=30.0, max_reconnect_s=30.0)
        await stack.enter_async_context(room(ann, bob))
        await ann.until_knows("bob")
        await server.aclose()
        await stack.enter_async_context(signalling(port=int(host.rpartition(":")[2])))
        await ann.notes.until(lambda: ann.mesh.state == "connected" and len(ann.notes.of("connected")) == 2)
        mallory = await stack.enter_async_context(Stranger(host, "bob"))
        await mallory.view("ann")
        mallory.say({"pipe": "I am bob"})
        await ann.notes.until(lambda: ann.notes.data or ann.notes.of("protocol_auth_failed"))
        assert ann.notes.data == []
        assert bob.mesh.send("so am I", to="ann").ok
        await ann.notes.until(lambda: ann.notes.data)
        assert ann.notes.data == [("bob", "so am I")]


async def test_garbage_ends_a_connection_and_harms_no_other() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann"), End(host, "bob")
        async with room(ann, bob), Stranger(host, "mallory") as mallory:
            await ann.until_knows("bob")
            await mallory.view("ann")
            for frame in ("", "x", "[]", "{}", '{"pipe":', '{"description":1}', '{"candidates":[1,{"candidate":2}]}'):
                mallory.say(frame)
            mallory.say({"pipe": {"__vdo_mcp": "vdo_mcp_bridge_v1", "kind": 7}})
            mallory.say('{"ping":1e999}')
            mallory.say({"ping": 5})
            await ann.notes.until(lambda: {"pong": 5} in mallory.heard)
            for _ in range(200):
                try:
                    mallory.say("garbage")
                except PeersError:
                    break
            async with asyncio.timeout(60):
                await mallory.closed.wait()
            assert ann.mesh.send("on we go", to="bob").ok
            await bob.notes.until(lambda: bob.notes.data)
            assert not ann.notes.of("sdk_error")


async def test_endless_wishes_and_offers_are_bounded() -> None:
    async with signalling() as host:
        ann = End(host, "ann")
        async with room(ann), Stranger(host, "mallory") as mallory:
            for _ in range(100):
                await mallory.tell(request="play", streamID=mallory.names.stream("ann"))
            await mallory.view("ann")
            offers = [message for message in mallory.said_by_server if "description" in message]
            assert len(offers) <= limits.PEER_OFFERS
            address = mallory.said_by_server[0]["list"][0]["UUID"]
            for number in range(100):
                await mallory.tell(
                    UUID=address,
                    session=f"s{number}",
                    streamID=mallory.names.stream("mallory"),
                    **mallory.sealed({"type": "offer", "sdp": "v=0"}),
                )
                await mallory.tell(UUID=address, session="s", type="local", candidates=[{"candidate": "x"}] * 500)
                await mallory.tell(UUID=address, session="s", description={"a": 1}, streamID="x")
            mallory.say({"ping": 1})
            await ann.notes.until(lambda: {"pong": 1} in mallory.heard)
            assert len(ann.mesh.peers) == 1
            assert not ann.notes.of("sdk_error")


async def test_a_full_mesh_takes_no_more() -> None:
    async with signalling() as host:
        ann, bob = End(host, "ann", max_peers=1), End(host, "bob")
        async with room(ann, bob), Stranger(host, "mallory") as mallory:
            await ann.until_knows("bob")
            await mallory.tell(request="play", streamID=mallory.names.stream("ann"))
            await ann.notes.until(lambda: ann.notes.of("connection_failed"))
            assert len(ann.mesh.peers) == 1


def strand_channels(end: End, other: str) -> list[Channel]:
    peer = end.mesh.roster.find(other)
    assert peer is not None
    return [strand.channel for strand in peer.strands.values() if strand.channel is not None]


def has_open_strands(end: End, other: str, count: int) -> bool:
    return sum(channel.is_open for channel in strand_channels(end, other)) == count


@pytest.mark.parametrize("wishes", [(3, 1), (1, 3), (9, 9)])
async def test_bytes_go_over_as_many_connections_as_either_end_wants(wishes: tuple[int, int]) -> None:
    async with signalling() as host:
        ann, bob = (End(host, name, bulk_connections=wish) for name, wish in zip(("ann", "bob"), wishes, strict=True))
        async with room(ann, bob):
            await ann.until_knows("bob")
            await bob.until_knows("ann")
            wanted = min(max(wishes), 4) - 1
            for end, other in ((ann, "bob"), (bob, "ann")):
                await end.notes.until(partial(has_open_strands, end, other, wanted))
            line = ann.mesh.bulk(ann.uuid("bob"))
            assert line is not None
            for number in range(200):
                line.send(number.to_bytes(2, "big") + b"x" * 10_000)
            used = [channel.buffered_amount for channel in strand_channels(ann, "bob")]
            await line.drain()
            await line.flush()
            await bob.notes.until(lambda: len(bob.notes.bytes) == 200)
            assert sorted(int.from_bytes(data[:2], "big") for _, data in bob.notes.bytes) == list(range(200))
            assert len(used) == wanted
            assert not bob.notes.of("protocol_auth_failed")
            await bob.mesh.disconnect()
            await ann.notes.until(lambda: ann.notes.gone)
            assert ann.mesh.bulk("bob") is None


async def test_an_original_cannot_ask_for_more_connections() -> None:
    async with signalling() as host:
        ann = End(host, "ann")
        async with room(ann), Stranger(host, "vera") as original:
            await original.view("ann")
            original.greet()
            await ann.until_knows("vera")
            original.say(original.trust.frame(None, "link.offer", {"index": 1, "sdp": "v=0"}))
            original.say({"ping": 1})
            await ann.notes.until(lambda: {"pong": 1} in original.heard)
            vera = ann.mesh.roster.find("vera")
            assert vera is not None
            assert not vera.strands
