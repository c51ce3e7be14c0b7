"""Every event of the contract, produced by its real cause and read with `vdo_receive`.

Tests are named after event types; `test_every_type_has_a_test` fails if one is missing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.callers import Caller, callers_in_room, connected_caller
from tests.packs.peers.emulation.bridge import EmulatedVdoBridge
from tests.packs.peers.room_agents import signalling
from tests.packs.peers.scripted_peer import ScriptedPeer
from websockets.asyncio.server import ServerConnection, serve

from hubbub.packs.peers import limits

CONTRACT = (
    "ready", "connected", "disconnected", "connection_failed", "sdk_error", "reconnect_scheduled",
    "peer_connected", "peer_disconnected", "data_channel_open", "data_channel_close",
    "data_received", "send_error", "send_rejected", "heartbeat_sent",
    "sync_hello_sent", "sync_peer_updated", "sync_peer_rejected", "protocol_auth_failed",
    "file_offer_received", "file_chunk_received", "file_chunk_rejected", "file_received", "file_transfer_complete",
    "file_transfer_cancelled",
    "state_updated", "state_snapshot_merged", "state_protocol_unhandled",
)  # fmt: skip
UNLISTED = (
    "protocol_unknown", "file_offer_rejected", "file_protocol_error", "file_protocol_unhandled", "stopped",
)  # fmt: skip
"""Events of the VDO.Ninja bridge that its contract does not list."""


@asynccontextmanager
async def single_caller(**arguments: Any) -> AsyncIterator[tuple[Caller, str]]:
    """One agent in the room `hall`, and the URL of the signalling server."""
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("ann", **arguments)
        yield ann, host


@asynccontextmanager
async def with_scripted_peer(sends_hello: bool = True, **arguments: Any) -> AsyncIterator[tuple[Caller, ScriptedPeer]]:
    """One agent, and a scripted peer."""
    async with single_caller(**arguments) as (ann, host), ScriptedPeer(host, "mallory") as mallory:
        await mallory.view("ann")
        if sends_hello:
            mallory.send_hello()
            await ann.wait_for_peers("mallory")
        yield ann, mallory


@asynccontextmanager
async def caller_pair(**arguments: Any) -> AsyncIterator[tuple[Caller, Caller]]:
    """Two agents, connected to each other."""
    async with signalling() as host, callers_in_room(host, "ann", "bob", **arguments) as (ann, bob):
        yield ann, bob


def small_file(**arguments: Any) -> dict[str, Any]:
    return {"data_base64": base64.b64encode(b"hello").decode(), "name": "a.txt", **arguments}


# -- lifecycle -----------------------------------------------------------------------------


async def test_ready() -> None:
    async with single_caller(target_stream_id="ann", password="x") as (ann, host):
        event = await ann.wait_for_event("ready")
        del event["ts"]
        assert event == {
            "type": "ready",
            "room": "hall",
            "streamID": "ann",
            "targetStreamID": None,
            "host": host,
            "forceTURN": False,
        }


async def test_connected() -> None:
    async with single_caller() as (ann, _):
        event = await ann.wait_for_event("connected")
        assert event.keys() == {"type", "ts"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["ts"])


async def test_disconnected_and_reconnect_scheduled() -> None:
    async with connected_caller() as ann:
        async with signalling() as host:
            ann.host = host
            await ann.connect("ann", reconnect_ms=50)
        assert (await ann.wait_for_event("disconnected")).keys() == {"type", "ts"}
        event = await ann.wait_for_event("reconnect_scheduled")
        assert event["reason"] == "the connection to the signalling server was lost"
        assert 30 <= event["inMs"] <= 70
        status = await ann.call("vdo_status")
        assert (status["state"], status["connected"]) == ("reconnecting", False)
        assert status["reconnect_count"] >= 1
        assert status["last_disconnected_at"]
        async with signalling(port=int(host.rpartition(":")[2])):
            await ann.wait_for_event("connected")
            assert (await ann.until(lambda status: status["connected"]))["reconnect_delay_ms"] == 50


async def test_connection_failed() -> None:
    async with single_caller() as (ann, host), ScriptedPeer(host, "mallory") as mallory:
        address = mallory.server_messages[0]["list"][0]["UUID"]
        sdp = "v=0\nm=application nonsense\na=ice-ufrag:\na=fingerprint:\n"
        offer = mallory.encrypt_description({"type": "offer", "sdp": sdp})
        await mallory.send_signal(UUID=address, session="s1", streamID=mallory.names.wire_stream_id("mallory"), **offer)
        detail = (await ann.wait_for_event("connection_failed"))["detail"]
        assert detail["streamID"] == "mallory"
        assert detail["reason"]


async def test_sdk_error() -> None:
    async def send_alert(client: ServerConnection) -> None:
        await client.recv()
        await client.send(json.dumps({"request": "listing", "list": []}))
        await client.recv()
        await client.send(json.dumps({"request": "alert", "message": "we close at noon"}))
        await client.wait_closed()

    async with serve(send_alert, "127.0.0.1", 0) as server, connected_caller() as ann:
        ann.host = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await ann.connect("ann")
        assert (await ann.wait_for_event("sdk_error"))["detail"] == {"message": "we close at noon"}


async def test_peer_connected_and_data_channel_open() -> None:
    async with caller_pair() as (ann, _):
        event = await ann.wait_for_event("peer_connected")
        assert event["uuid"] == await ann.uuid("bob")
        detail = {"uuid": event["uuid"], "type": "publisher", "streamID": "bob"}
        assert event["detail"] == detail
        assert (await ann.wait_for_event("data_channel_open"))["detail"] == detail


async def test_peer_disconnected_and_data_channel_close() -> None:
    async with caller_pair() as (ann, bob):
        uuid = await ann.uuid("bob")
        await bob.call("vdo_disconnect")
        assert (await ann.wait_for_event("data_channel_close"))["detail"]["uuid"] == uuid
        event = await ann.wait_for_event("peer_disconnected")
        assert event["uuid"] == uuid
        assert event["detail"] == {"uuid": uuid, "streamID": "bob", "reason": "bye"}
        assert (await ann.call("vdo_status"))["peer_count"] == 0


async def test_data_received() -> None:
    async with caller_pair() as (ann, bob):
        sent: list[Any] = [None, 0, "", False, [], {"type": "request"}, "x", {"a": {"b": 1.5}}]
        for data in sent:
            assert (await ann.call("vdo_send", data=data))["ok"]
            event = await bob.wait_for_event("data_received")
            assert (event["data"], event["streamID"], event["binaryBase64"]) == (data, "ann", None)


async def test_send_error() -> None:
    async with caller_pair() as (ann, _):
        sent = await ann.call("vdo_send", data="x" * limits.PEER_FRAME_BYTES)
        assert (sent["ok"], list(sent["failed"].values())) == (False, ["too_large"])
        assert "accepts 262144" in (await ann.wait_for_event("send_error"))["message"]
        assert (await ann.wait_for_event("send_rejected"))["reason"] == "too_large"
        assert (await ann.call("vdo_send", data="still there"))["ok"]


async def test_send_rejected() -> None:
    async with single_caller() as (ann, _):
        assert not (await ann.call("vdo_send", data=1))["ok"]
        event = await ann.wait_for_event("send_rejected")
        assert (event["reason"], event["target"]) == ("no_open_data_channel", None)
        assert not (await ann.call("vdo_send", data=1, target="nobody"))["ok"]
        assert (await ann.wait_for_event("send_rejected"))["target"] == "nobody"


async def test_send_rejected_while_signalling_is_lost_and_no_peer_is_connected() -> None:
    async with connected_caller() as ann:
        async with signalling() as host:
            ann.host = host
            await ann.connect("ann")
        await ann.wait_for_event("reconnect_scheduled")
        assert not (await ann.call("vdo_send", data=1))["ok"]
        assert (await ann.wait_for_event("send_rejected"))["reason"] == "not_connected"


async def test_heartbeat_sent() -> None:
    """Only for an announced heartbeat; periodic ones appear in the status only."""
    async with caller_pair() as (ann, bob):
        assert (await ann.call("vdo_status"))["last_heartbeat_at"] is None
        await ann.call("vdo_sync_announce")
        assert (await ann.wait_for_event("heartbeat_sent")).items() >= {"ok": True}.items()
        assert (await ann.call("vdo_status"))["last_heartbeat_at"]
        await wait_for_heartbeats(bob, 1)
    async with single_caller() as (ann, _):
        await ann.call("vdo_sync_announce")
        await ann.wait_for_event("heartbeat_sent", ok=False)


async def wait_for_heartbeats(caller: Caller, times: int) -> None:
    """Wait for a number of heartbeats of the only other peer."""
    seen: set[str | None] = {None}
    async with asyncio.timeout(60):
        while len(seen) <= times:
            (peer,) = (await caller.call("vdo_sync_peers"))["peers"]
            seen.add(peer["last_heartbeat_at"])
            await asyncio.sleep(0.005)


async def test_heartbeats_and_repeated_hellos_do_not_end_a_long_poll() -> None:
    async with caller_pair(heartbeat_ms=30) as (ann, bob):
        await wait_for_heartbeats(bob, 8)
        await ann.read_events()
        request_id = ann.client.send_request(
            "tools/call", {"name": "vdo_receive", "arguments": {"session_id": ann.session_id, "wait_ms": 30_000}}
        )
        await wait_for_heartbeats(bob, 20)
        await bob.call("vdo_send", data="at last", target="ann")
        result = (await ann.client.response_to(request_id))["result"]["structuredContent"]
        assert [(event["type"], event.get("data")) for event in result["events"]] == [("data_received", "at last")]


def has_more_requests_than(olga: EmulatedVdoBridge, times: int) -> bool:
    return olga.kinds.count("state.snapshot_req") > times


async def test_repeated_hellos_of_a_vdo_bridge_do_not_end_a_long_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hello causes snapshot requests; only changes and snapshots that a caller requested emit events."""
    monkeypatch.setattr(limits, "STATE_SNAPSHOT_S", 0.0)
    async with single_caller() as (ann, host), EmulatedVdoBridge(host, "olga") as olga:
        await olga.until(lambda: olga.knows("ann"))
        await ann.wait_for_event("state_snapshot_merged")
        for number in range(5):
            before = olga.kinds.count("state.snapshot_req")
            olga.send_hello()
            await olga.until(partial(has_more_requests_than, olga, before))
            olga.send({"n": number}, "ann")
            await ann.wait_for_event("data_received", data={"n": number})
        ann.events.clear()
        await ann.read_events()
        request_id = ann.client.send_request(
            "tools/call", {"name": "vdo_receive", "arguments": {"session_id": ann.session_id, "wait_ms": 30_000}}
        )
        before = olga.kinds.count("state.snapshot_req")
        olga.send_hello()
        await olga.until(partial(has_more_requests_than, olga, before))
        olga.send("at last", "ann")
        result = (await ann.client.response_to(request_id))["result"]["structuredContent"]
        assert [event["type"] for event in result["events"]] == ["data_received"]
        await ann.call("vdo_state_sync", mode="request")
        await ann.wait_for_event("state_snapshot_merged")


async def test_stopped() -> None:
    async with single_caller() as (ann, _):
        await ann.read_events()
        request_id = ann.client.send_request(
            "tools/call", {"name": "vdo_receive", "arguments": {"session_id": ann.session_id, "wait_ms": 30_000}}
        )
        await ann.client.wait_until_idle()
        await ann.call("vdo_disconnect")
        result = (await ann.client.response_to(request_id))["result"]["structuredContent"]
        assert [event["type"] for event in result["events"]] == ["stopped"]


# -- peers -----------------------------------------------------------------------------------


async def test_sync_hello_sent() -> None:
    async with caller_pair() as (ann, _):
        uuid = await ann.uuid("bob")
        await ann.wait_for_event("sync_hello_sent", ok=True, target_uuid=uuid)
        await ann.read_events()
        ann.events.clear()
        assert (await ann.call("vdo_sync_announce", target="bob"))["used_target"] == uuid
        await ann.wait_for_event("sync_hello_sent", ok=True, target_uuid=uuid)


async def test_sync_peer_updated() -> None:
    async with caller_pair() as (ann, _):
        uuid = await ann.uuid("bob")
        event = await ann.wait_for_event("sync_peer_updated", uuid=uuid, stream_id="bob")
        assert event["handshake_state"] in ("hello_received", "ready")
        assert (event["auth_ok"], event["shared_key_ready"]) == (True, True)


async def test_sync_peer_rejected() -> None:
    async with with_scripted_peer(sends_hello=False, allow_peer_stream_ids=["bob"]) as (ann, mallory):
        mallory.send_hello()
        event = await ann.wait_for_event("sync_peer_rejected")
        assert (event["stream_id"], event["reason"]) == ("mallory", "peer_not_allowed")
        (peer,) = (await ann.call("vdo_sync_peers"))["peers"]
        assert (peer["handshake_state"], peer["rejected_reason"]) == ("rejected", "peer not on allowlist")


async def test_protocol_auth_failed() -> None:
    async with with_scripted_peer() as (ann, mallory):
        frame = mallory.trust.frame(None, "state.patch", {"key": "k", "value": 1, "actor": "m", "clock": 1})
        forged = json.loads(frame)
        forged["pipe"]["mac"] = "0" * 64
        mallory.send_frame(forged)
        event = await ann.wait_for_event("protocol_auth_failed")
        assert (event["kind"], event["stream_id"]) == ("state.patch", "mallory")


async def test_protocol_unknown() -> None:
    async with with_scripted_peer() as (ann, mallory):
        mallory.send_frame(mallory.trust.frame(None, "dance.waltz", {}))
        event = await ann.wait_for_event("protocol_unknown")
        assert (event["kind"], event["stream_id"]) == ("dance.waltz", "mallory")


# -- files -----------------------------------------------------------------------------------


async def test_a_file_transfer_emits_events_from_offer_to_completion() -> None:
    """file_offer_received, file_chunk_received, file_received, file_transfer_complete."""
    async with caller_pair() as (ann, bob):
        sent = (await ann.call("vdo_file_send", **small_file(transfer_id="t1")))["transfer"]
        offer = await bob.wait_for_event("file_offer_received")
        assert (offer["transfer_id"], offer["from_stream_id"], offer["total_bytes"]) == ("t1", "ann", 5)
        assert (offer["name"], offer["total_chunks"], offer["next_seq"]) == ("a.txt", 1, 0)
        chunk = await bob.wait_for_event("file_chunk_received")
        assert (chunk["transfer_id"], chunk["seq"], chunk["received_bytes"], chunk["total_bytes"]) == ("t1", 0, 5, 5)
        received = await bob.wait_for_event("file_received")
        assert (received["transfer_id"], received["file_hash"]) == ("t1", sent["file_hash"])
        complete = await ann.wait_for_event("file_transfer_complete")
        assert (complete["transfer_id"], complete["target_uuid"]) == ("t1", await ann.uuid("bob"))


def make_offer(**changes: Any) -> dict[str, Any]:
    plain = {"transfer_id": "t1", "name": "a", "mime": "", "total_bytes": 5, "total_chunks": 1, "chunk_bytes": 1024}
    return {**plain, "file_hash": "0" * 64, **changes}


async def test_file_chunk_rejected() -> None:
    async with with_scripted_peer() as (ann, mallory):
        mallory.send_frame(mallory.trust.frame(None, "file.offer", make_offer()))
        await ann.wait_for_event("file_offer_received")
        chunk = {"transfer_id": "t1", "seq": 0, "data_base64": "aGVsbG8=", "chunk_hash": "1" * 64}
        mallory.send_frame(mallory.trust.frame(None, "file.chunk", chunk))
        event = await ann.wait_for_event("file_chunk_rejected")
        assert (event["transfer_id"], event["seq"], event["reason"]) == ("t1", 0, "chunk_hash_mismatch")


async def test_file_offer_rejected() -> None:
    async with with_scripted_peer() as (ann, mallory):
        mallory.send_frame(mallory.trust.frame(None, "file.offer", make_offer(total_bytes=0)))
        event = await ann.wait_for_event("file_offer_rejected")
        assert event["transfer_id"] == "t1"
        assert event["reason"].startswith("total_bytes must be")


async def test_file_transfer_cancelled() -> None:
    async with with_scripted_peer() as (ann, mallory):
        mallory.send_frame(mallory.trust.frame(None, "file.offer", make_offer()))
        await ann.wait_for_event("file_offer_received")
        mallory.send_frame(mallory.trust.frame(None, "file.cancel", {"transfer_id": "t1"}))
        event = await ann.wait_for_event("file_transfer_cancelled")
        assert (event["transfer_id"], event["from_uuid"]) == ("t1", await ann.uuid("mallory"))


async def test_file_protocol_error() -> None:
    async with with_scripted_peer() as (ann, mallory):
        mallory.send_frame(mallory.trust.frame(None, "file.chunk", {"seq": 0}))
        event = await ann.wait_for_event("file_protocol_error")
        assert (event["reason"], event["kind"]) == ("missing_transfer_id", "file.chunk")


async def test_file_protocol_unhandled() -> None:
    async with with_scripted_peer() as (ann, mallory):
        mallory.send_frame(mallory.trust.frame(None, "file.fold", {"transfer_id": "t1"}))
        event = await ann.wait_for_event("file_protocol_unhandled")
        assert (event["transfer_id"], event["kind"]) == ("t1", "file.fold")


# -- state -----------------------------------------------------------------------------------


async def test_state_updated() -> None:
    async with caller_pair() as (ann, bob):
        await ann.call("vdo_state_set", key="k", value=[1])
        fields: dict[str, Any] = {"key": "k", "actor": "ann", "clock": 1, "value": [1]}
        await ann.wait_for_event("state_updated", source="local", **fields)
        await bob.wait_for_event("state_updated", source="remote", **fields)
        async with connected_caller(ann.host) as carol:
            await carol.connect("carol")
            await carol.wait_for_event("state_updated", source="remote_snapshot", **fields)


async def test_state_snapshot_merged() -> None:
    async with caller_pair() as (ann, bob):
        await ann.call("vdo_state_set", key="k", value=1, broadcast=False)
        await bob.read_events()
        await ann.call("vdo_state_sync", mode="send", target="bob")
        event = await bob.wait_for_event("state_snapshot_merged", applied=1)
        assert (event["from_stream_id"], event["from_uuid"], event["offered"]) == ("ann", await bob.uuid("ann"), 1)


async def test_state_protocol_unhandled() -> None:
    async with with_scripted_peer() as (ann, mallory):
        mallory.send_frame(mallory.trust.frame(None, "state.forget", {}))
        event = await ann.wait_for_event("state_protocol_unhandled")
        assert (event["kind"], event["from_stream_id"]) == ("state.forget", "mallory")
        assert event["from_uuid"] == await ann.uuid("mallory")


# -- all events ------------------------------------------------------------------------------


def test_every_type_has_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8").partition("# -- lifecycle")[2]
    for type in (*CONTRACT, *UNLISTED):
        assert re.search(rf'event\("{type}"|"{type}"\]', text), type


async def test_events_contain_no_secrets_and_no_connection_details() -> None:
    secret = {"join_token_secret": "s3kr3t-of-all", "password": "pass-of-all", "enforce_join_token": True}
    async with caller_pair(**secret) as (ann, bob):
        for caller in (ann, bob):
            await caller.call("vdo_send", data="x")
            await caller.call("vdo_file_send", **small_file())
            await caller.call("vdo_state_set", key="k", value=1)
        await bob.call("vdo_disconnect")
        await ann.wait_for_event("peer_disconnected")
        text = json.dumps([ann.events, bob.events, await ann.call("vdo_status"), await ann.call("vdo_sync_peers")])
        for word in ("s3kr3t", "pass-of-all", "candidate", "ice-", "fingerprint", "v=0", "eyJ", "MCowBQYDK2VuAyEA"):
            assert word not in text, word


@pytest.mark.parametrize("host", ["ws://ann:hunter2@127.0.0.1:9/x?key=hunter2", "http://ann:hunter2@there"])
async def test_error_messages_show_the_host_without_credentials(host: str) -> None:
    async with connected_caller() as ann:
        error = await ann.failure("vdo_connect", room="hall", host=host)
        assert "hunter2" not in error["message"]
        assert "there" in error["message"] or "ws://127.0.0.1:9/x" in error["message"]


async def test_a_long_poll_ends_with_the_first_event_of_the_given_types() -> None:
    async with caller_pair() as (ann, bob):
        await bob.read_events()
        request_id = bob.client.send_request(
            "tools/call",
            {
                "name": "vdo_receive",
                "arguments": {"session_id": bob.session_id, "wait_ms": 20_000, "types": ["data_received", "file_*"]},
            },
        )
        await bob.client.wait_until_idle()  # A long poll does not block other calls.
        await ann.call("vdo_state_set", key="k", value=1)
        await bob.until(lambda status: status["state_keys"] == 1)
        await ann.call("vdo_send", data="now")
        result = (await bob.client.response_to(request_id))["result"]["structuredContent"]
        assert [event["data"] for event in result["events"]] == ["now"]
        assert result["remaining_events"] >= 1
        await bob.wait_for_event("state_updated", source="remote")


async def test_events_over_the_limit_displace_the_oldest_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEER_EVENTS", 600)
    async with caller_pair(heartbeat_ms=120_000) as (ann, bob):
        for number in range(700):
            assert (await ann.call("vdo_send", data=number))["ok"]
        await ann.call("vdo_state_set", key="the last", value=1)
        await bob.until(lambda status: status["state_keys"])
        result = await bob.call("vdo_receive", max_events=10_000)
        assert result["event_count"] == len(result["events"]) == 500
        assert result["remaining_events"] == 100
        assert result["dropped_events"] >= 100
        rest = await bob.call("vdo_receive", max_events=10_000)
        # Events about their connection may still arrive in between.
        found = [event["data"] for event in result["events"] + rest["events"] if event["type"] == "data_received"]
        assert found == list(range(700 - len(found), 700))
        assert result["dropped_events"] >= 700 - len(found) >= 100
