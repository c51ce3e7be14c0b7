"""The nine tools that every profile has, over real connections."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.http.in_process_server import run_server
from tests.http.keyring import Keyring
from tests.packs.peers.callers import callers_in_room, connected_caller
from tests.packs.peers.room_agents import WAIT_S, signalling
from tests.packs.peers.scripted_peer import ScriptedPeer
from tests.server.raw_client import DIALECTS, connect_raw_client

from hubbub import Server
from hubbub.assembly.pack_installation import install_pack
from hubbub.packs.peers import limits, tokens
from hubbub.packs.peers.pack import pack
from hubbub.packs.peers.settings import PeersSettings

CORE = [
    "vdo_connect", "vdo_send", "vdo_receive", "vdo_status", "vdo_disconnect", "vdo_list_sessions", "vdo_capabilities",
    "vdo_sync_peers", "vdo_sync_announce",
]  # fmt: skip
FILE = [f"vdo_file_{name}" for name in ("send", "send_path", "resume", "transfers", "receive", "save", "cancel")]
STATE = ["vdo_state_set", "vdo_state_get", "vdo_state_sync", "vdo_state_delete"]
STATUS = {
    "session_id", "state", "connected", "room", "stream_id", "target_stream_id", "host", "force_turn", "peers",
    "peer_count", "sync_peer_count", "reconnect_count", "reconnect_delay_ms", "last_ready_at", "last_connected_at",
    "last_disconnected_at", "last_heartbeat_at", "last_error", "state_keys", "outgoing_transfers",
    "incoming_transfers", "queued_events", "dropped_events",
}  # fmt: skip


# -- connecting and disconnecting ------------------------------------------------------------


async def test_connect_returns_the_status_and_the_effective_config() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        result = await ann.connect("ann")
        assert result.pop("ok") is True
        config = result.pop("effective_config")
        assert result.keys() == STATUS
        assert result["session_id"].startswith("vdo_")
        assert (result["state"], result["connected"], result["room"], result["stream_id"]) == (
            "connected",
            True,
            "hall",
            "ann",
        )
        assert (result["peers"], result["last_error"], result["reconnect_delay_ms"]) == ([], None, 3000)
        assert result["last_ready_at"]
        assert config == {
            "host": host, "room": "hall", "stream_id": "ann", "target_stream_id": None, "force_turn": False,
            "heartbeat_ms": 15000, "reconnect_ms": 3000, "max_reconnect_ms": 30000, "enforce_join_token": False,
            "allow_peer_stream_ids": [], "require_session_mac": False, "file_chunk_bytes": 65536,
            "file_max_bytes": 67108864, "file_ack_timeout_ms": 1200, "file_max_retries": 6,
            "file_spool_threshold_bytes": 4194304, "keep_spool_files": False, "state_max_keys": 2048,
            "state_max_snapshot_entries": 4096,
        }  # fmt: skip


async def test_connect_sanitises_or_generates_names_and_clamps_numbers() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        given: dict[str, Any] = {
            "room": " my-room!", "stream_id": "é", "heartbeat_ms": -5, "reconnect_ms": "999999", "file_max_retries": 0,
            "file_max_bytes": 2**60, "file_chunk_bytes": 1, "state_max_keys": "ten", "force_turn": "no",
            "require_session_mac": "yes", "password": "", "label": "x", "debug": 1,
        }  # fmt: skip
        result = await ann.call("vdo_connect", host=host, **given)
        config = result["effective_config"]
        assert config["room"] == "my_room"
        assert config["stream_id"].startswith("mcp_bridge_")
        assert (config["heartbeat_ms"], config["reconnect_ms"], config["max_reconnect_ms"]) == (15000, 30000, 30000)
        assert (config["file_max_retries"], config["file_max_bytes"], config["file_chunk_bytes"]) == (
            0,
            8 * 2**30,
            1024,
        )
        assert (config["state_max_keys"], config["require_session_mac"]) == (2048, True)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, "validation_error", "room is required"),
        ({"room": "!!"}, "validation_error", "room is required"),
        ({"room": "r" * 300}, "validation_error", "invalid room: it must have at most 256 characters"),
        ({"room": "r", "colour": 1, "b": 2}, "validation_error", "vdo_connect received unsupported fields: colour, b"),
        ({"room": "r", "host": 5}, "tool_error", "host must be a string"),
        ({"room": "r", "label": 5}, "tool_error", "label must be a string"),
        ({"room": "r", "password": 5}, "tool_error", "password must be a string or boolean"),
        ({"room": "r", "join_token": 5}, "tool_error", "join_token must be a string"),
        ({"room": "r", "join_token_secret": 5}, "tool_error", "join_token_secret must be a string"),
        ({"room": "r", "file_spool_dir": 5}, "tool_error", "file_spool_dir must be a string"),
        ({"room": "r", "host": "http://x"}, "validation_error", "invalid host 'http://x'"),
        ({"room": "r", "enforce_join_token": True}, "validation_error", "join_token_secret is required"),
        ({"room": "r", "enforce_join_token": 1, "join_token_secret": " "}, "validation_error", "join_token_secret is"),
        ({"room": "r", "force_turn": True}, "tool_error", "force_turn needs a TURN server"),
        ({"room": "r", "allow_peer_stream_ids": ["é"]}, "validation_error", "invalid allow_peer_stream_ids: it"),
        ({"room": "r", "join_token_secret": "s", "join_token": "x"}, "validation_error", "invalid join_token: invalid"),
    ],
)  # fmt: skip
async def test_connect_refuses_invalid_arguments(arguments: dict[str, Any], kind: str, message: str) -> None:
    async with connected_caller() as ann:
        error = await ann.failure("vdo_connect", **arguments)
        assert error["type"] == kind
        assert error["message"].startswith(message)
        assert (await ann.call("vdo_list_sessions"))["sessions"] == []


async def test_connect_verifies_the_own_join_token_and_does_not_return_it() -> None:
    later = int((time.time() + 60) * 1000)
    refusals = {
        tokens.mint("sek", "other", "ann", later, "n"): "join_token room mismatch",
        tokens.mint("sek", "hall", "bob", later, "n"): "join_token stream mismatch",
        tokens.mint("sek", "hall", "ann", 1000, "n"): "join_token expired",
        tokens.mint("another", "hall", "ann", later, "n"): "invalid join_token: invalid token signature",
    }
    async with signalling() as host, connected_caller(host) as ann:
        given = {"room": "hall", "stream_id": "ann", "host": host, "join_token_secret": "sek"}
        for token, message in refusals.items():
            assert (await ann.failure("vdo_connect", join_token=token, **given))["message"] == message
        good = tokens.mint("sek", "hall", "ann", later, "n")
        result = await ann.call("vdo_connect", join_token=good, **given)
        assert good not in str(result)
        assert "sek" not in str(result)


async def test_a_failed_first_connect_is_an_error_and_leaves_no_session_or_task() -> None:
    async with connected_caller() as ann:
        before = asyncio.all_tasks()
        error = await ann.failure("vdo_connect", room="hall", host="ws://127.0.0.1:9")
        assert error["type"] == "tool_error"
        assert error["message"].startswith("no signalling server at ws://127.0.0.1:9")
        assert "start one with `hubbub signal`, or pass another `host`" in error["message"]
        assert (await ann.call("vdo_list_sessions"))["sessions"] == []
        assert asyncio.all_tasks() == before


async def test_the_default_host_comes_from_the_settings() -> None:
    async with connected_caller() as ann:
        assert "ws://127.0.0.1:8765" in (await ann.failure("vdo_connect", room="hall", host=None))["message"]
    async with signalling() as host, connected_caller(default_host=host) as ann:
        assert (await ann.call("vdo_connect", room="hall"))["host"] == host


async def test_connect_with_a_stream_id_in_use_is_an_error() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("ann")
        first, ann.session_id = ann.session_id, ""
        error = await ann.failure("vdo_connect", room="hall", stream_id="ann", host=host)
        assert "already in use" in error["message"]
        assert [each["session_id"] for each in (await ann.call("vdo_list_sessions"))["sessions"]] == [first]


async def test_a_disconnected_session_is_not_listed_and_its_id_is_unknown() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("ann")
        listed = await ann.call("vdo_list_sessions")
        assert listed.keys() == {"ok", "sessions"}
        (status,) = listed["sessions"]
        assert status.keys() == STATUS
        ended = await ann.call("vdo_disconnect")
        assert ended.keys() == {"ok", "session_id", "closed_at"}
        for tool in ("vdo_disconnect", "vdo_status", "vdo_receive", "vdo_sync_peers", "vdo_sync_announce"):
            error = await ann.failure(tool)
            assert error["type"] == "validation_error"
            assert error["message"] == f"unknown session_id: {ann.session_id}"
        ann.session_id = ""
        assert (await ann.failure("vdo_status"))["message"] == "session_id is required"
        assert (await ann.call("vdo_list_sessions"))["sessions"] == []


async def test_the_session_limit_counts_sessions_that_are_still_connecting() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        given = {"host": host}
        request_ids = [
            ann.client.send_request("tools/call", {"name": "vdo_connect", "arguments": {**given, "room": f"r{number}"}})
            for number in range(40)
        ]
        results = [(await ann.client.response_to(id))["result"]["structuredContent"] for id in request_ids]
        made = [result for result in results if result["ok"]]
        assert len(made) == 32
        refusal = next(result for result in results if not result["ok"])["error"]["message"]
        assert refusal == "the limit of 32 sessions is reached; end one with vdo_disconnect"
        await ann.call("vdo_disconnect", session_id=made[0]["session_id"])
        assert (await ann.call("vdo_connect", room="late", **given))["ok"]


async def test_sessions_are_closed_when_their_server_stops() -> None:
    async with signalling() as host, connected_caller(host) as bob:
        await bob.connect("bob")
        async with connected_caller(host) as ann:
            await ann.connect("ann")
            await bob.wait_for_peers("ann")
        await bob.wait_for_event("peer_disconnected")


async def test_an_idle_session_is_closed() -> None:
    async with signalling() as host, connected_caller(host, session_idle_s=0.05) as ann:
        await ann.connect("ann")
        async with asyncio.timeout(WAIT_S):
            while (await ann.call("vdo_list_sessions"))["sessions"]:
                await asyncio.sleep(0.01)


async def test_closing_an_idle_session_sends_bye() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        await ann.sessions.close_idle()
        assert len((await ann.call("vdo_list_sessions"))["sessions"]) == 1
        ann.sessions.clock = lambda: time.monotonic() + 2 * limits.PEER_SESSION_IDLE_S
        await ann.sessions.close_idle()
        assert (await ann.call("vdo_list_sessions"))["sessions"] == []
        assert (await bob.wait_for_event("peer_disconnected"))["detail"]["reason"] == "bye"


async def test_a_cancelled_connect_leaves_no_session() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        given = {"room": "hall", "stream_id": "ann", "host": host, "target_stream_id": "nobody"}
        request_id = ann.client.send_request("tools/call", {"name": "vdo_connect", "arguments": given})
        async with connected_caller(host) as bob:
            await bob.connect("bob", target_stream_id="ann")
            ann.client.notify("notifications/cancelled", {"requestId": request_id})
            await bob.wait_for_event("peer_disconnected")
        assert (await ann.call("vdo_list_sessions"))["sessions"] == []


# -- messages ----------------------------------------------------------------------------------


async def test_a_message_goes_to_the_target_or_to_all_peers() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob", "carol") as (ann, bob, carol):
        uuid = await ann.uuid("bob")
        for given, used in (
            ({"target": "bob"}, uuid), ({"target": uuid}, uuid), ({"uuid": uuid}, uuid),
            ({"target": {"streamID": "bob"}}, {"streamID": "bob"}), ({"target": {"UUID": uuid}}, {"UUID": uuid}),
        ):  # fmt: skip
            sent = await ann.call("vdo_send", data="for bob", **given)
            assert sent == {"ok": True, "session_id": ann.session_id, "used_target": used, "sent_count": 1}
            await bob.wait_for_event("data_received", data="for bob")
        for tool, more in (("vdo_send", {"data": "for bob only"}), ("vdo_state_set", {"key": "k"}),
                           ("vdo_state_sync", {}), ("vdo_sync_announce", {})):  # fmt: skip
            assert "the object has no uuid" in (await ann.failure(tool, target={"peer": "bob"}, **more))["message"]
        sent = await ann.call("vdo_send", data="for all")
        assert (sent["used_target"], sent["sent_count"]) == (None, 2)
        await bob.wait_for_event("data_received", data="for all")
        event = await carol.wait_for_event("data_received")
        assert event["data"] == "for all"


async def test_send_refuses_missing_data_two_targets_and_deep_nesting() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("ann")
        assert await ann.failure("vdo_send") == {
            "type": "validation_error",
            "message": "data is required",
            "tool": "vdo_send",
        }
        both = await ann.failure("vdo_send", data=1, target="a", uuid="b")
        assert (both["type"], both["message"]) == ("tool_error", "provide target or uuid, not both")
        deep: Any = 1
        for _ in range(110):
            deep = [deep]
        error = await ann.failure("vdo_send", data=deep)
        assert (error["type"], error["message"]) == (
            "validation_error",
            "invalid data: it is nested more than 100 levels deep",
        )


async def test_receive_returns_at_most_max_events_of_the_given_types() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        await bob.read_events()
        for number in range(5):
            await ann.call("vdo_send", data=number)
        await bob.until(lambda status: status["queued_events"] >= 5)
        first = await bob.call("vdo_receive", max_events=2, types="data_received")
        assert [event["data"] for event in first["events"]] == [0, 1]
        rest = await bob.call("vdo_receive", max_events="none", types=["data_received", 7])
        assert [event["data"] for event in rest["events"]] == [2, 3, 4]
        nothing = await bob.call("vdo_receive", wait_ms=100, types=["no_such"])
        assert (nothing["event_count"], nothing["events"]) == (0, [])


async def test_two_sessions_of_one_server_can_long_poll_concurrently() -> None:
    async with signalling() as host, connected_caller(host) as ann:
        await ann.connect("first", room="one")
        first = ann.session_id
        await ann.connect("second", room="two")
        request_ids = []
        for session_id in (first, ann.session_id):
            await ann.call("vdo_receive", session_id=session_id)
            arguments = {"session_id": session_id, "wait_ms": 20_000, "types": ["send_rejected"]}
            request_ids.append(ann.client.send_request("tools/call", {"name": "vdo_receive", "arguments": arguments}))
        for session_id, id in zip((first, ann.session_id), request_ids, strict=True):
            await ann.call("vdo_send", session_id=session_id, data=1)
            assert (await ann.client.response_to(id))["result"]["structuredContent"]["session_id"] == session_id


async def test_lone_surrogates_from_a_peer_are_replaced_in_results() -> None:
    async with signalling() as host, callers_in_room(host, "ann") as (ann,), ScriptedPeer(host, "mallory") as mallory:
        await mallory.view("ann")
        mallory.send_hello()
        await ann.wait_for_event("sync_peer_updated")
        say = mallory.trust.frame
        mallory.send_frame('{"pipe":{"\\ud800":["\\udfff","\\ud83d\\ude00"]}}')
        mallory.send_frame(
            say(None, "state.patch", {"key": "k\ud800", "value": "\ud800", "clock": 1, "actor": "\ud800"})
        )
        mallory.send_frame(say(None, "what.\ud800", {}))
        mallory.send_frame(say(None, "file.\ud800", {"transfer_id": "\ud800"}))
        mallory.send_frame(say(None, "sync.reject", {"reason": "\ud800"}))
        assert (await ann.wait_for_event("data_received"))["data"] == {"\ufffd": ["\ufffd", "\N{GRINNING FACE}"]}
        assert (await ann.wait_for_event("sync_peer_rejected"))["reason"] == "\ufffd"
        assert (await ann.call("vdo_state_get"))["value"] == {"k\ufffd": "\ufffd"}
        assert (await ann.call("vdo_status"))["sync_peers"][0]["rejected_reason"] == "\ufffd"


SURROGATE = '"\\ud800"'
UNREADABLE = [
    f'{{"pipe":{{"__vdo_mcp":"vdo_mcp_bridge_v1",{SURROGATE}:1}}}}',
    f'{{"pipe":{{"__vdo_mcp":"vdo_mcp_bridge_v1","kind":"sync.hello","ts":{SURROGATE},"payload":{{}}}}}}',
    "HELLO",
    b"bytes where text belongs",
]


@pytest.mark.parametrize("frame", UNREADABLE)
async def test_lone_surrogates_in_envelopes_count_as_unreadable_frames(frame: str | bytes) -> None:
    """An unadmitted peer is disconnected after a limited number of them, and no exception stays unhandled."""
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with signalling() as host, callers_in_room(host, "ann") as (ann,), ScriptedPeer(host, "mallory") as mallory:
        await mallory.view("ann")
        if frame == "HELLO":
            hello = mallory.trust.frame(None, "sync.hello", {**mallory.trust.hello(), "bulk_connections": "half"})
            frame = hello.replace('"half"', SURROGATE)
        for _ in range(101):
            mallory.channel.send(frame)
        async with asyncio.timeout(60):
            await mallory.closed.wait()
        assert (await ann.wait_for_event("peer_disconnected"))["detail"]["reason"] == "too many unreadable frames"
    assert not unhandled


# -- peers ---------------------------------------------------------------------------------------


async def test_sync_peers_lists_peers_with_authentication_and_capabilities() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, _):
        result = await ann.call("vdo_sync_peers")
        assert result["peer_count"] == 1
        (peer,) = result["peers"]
        assert peer.pop("uuid") in (await ann.call("vdo_status"))["peers"]
        assert peer.pop("last_seen_at")
        assert peer.pop("handshake_state") in ("hello_received", "ready")
        assert peer == {
            "stream_id": "bob", "connected": True, "auth_ok": True, "rejected_reason": None, "shared_key_ready": True,
            "last_heartbeat_at": None, "stale": False,
            "capabilities": {
                "sync_v1": True, "file_transfer_v1": True, "state_v1": True, "resume_v1": True, "session_mac_v1": True,
                "hubbub_v1": True, "bulk_v1": True,
            },
        }  # fmt: skip


async def test_peers_without_the_join_token_secret_are_rejected() -> None:
    async with (
        signalling() as host,
        connected_caller(host) as ann,
        connected_caller(host) as bob,
        connected_caller(host) as eve,
    ):
        enforced = {"join_token_secret": "sek", "enforce_join_token": True, "require_session_mac": True}
        await ann.connect("ann", **enforced)
        await bob.connect("bob", **enforced)
        await eve.connect("eve", join_token_secret="guess")
        await ann.wait_for_peers("bob")
        await ann.wait_for_event("sync_peer_rejected", stream_id="eve", reason="invalid token signature")
        await eve.wait_for_event("sync_peer_rejected", stream_id="ann")
        sent = await eve.call("vdo_send", data="let me in", target="ann")
        assert sent["ok"] is False
        assert (await ann.call("vdo_send", data="hello"))["sent_count"] == 1
        await bob.wait_for_event("data_received", data="hello")
        assert not [event for event in [*ann.events, *await ann.read_events()] if event["type"] == "data_received"]


async def test_announce_reaches_the_target_or_all_peers() -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob", "carol") as (ann, _, __):
        assert (await ann.call("vdo_sync_announce"))["sent_count"] == 2
        assert (await ann.call("vdo_sync_announce", target="bob"))["sent_count"] == 1
        assert (await ann.call("vdo_sync_announce", target="nobody"))["ok"] is False


# -- profiles --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "tools"),
    [("core", CORE), ("file", CORE + FILE), ("state", CORE + STATE), ("full", CORE + FILE + STATE),
     (None, CORE + FILE + STATE)],
)  # fmt: skip
async def test_a_profile_shows_its_tools_and_no_others(profile: str | None, tools: list[str]) -> None:
    async with connected_caller(profile=profile) as ann:
        listed = (await ann.client.result("tools/list"))["tools"]
        assert [tool["name"] for tool in listed] == tools
        assert all("outputSchema" not in tool for tool in listed)
        result = await ann.call("vdo_capabilities")
        assert result["tool_profile"] == {
            "name": profile or "full",
            "requested": profile or "full",
            "allowed_profiles": ["core", "file", "state", "full"],
            "tools": tools,
        }
        assert result["features"] == {
            "session_messaging": True,
            "file_transfer": "vdo_file_send" in tools,
            "shared_state_sync": "vdo_state_set" in tools,
        }
        for hidden in set(CORE + FILE + STATE) - set(tools):
            assert (await ann.failure(hidden))["type"] == "validation_error"


async def test_capabilities_describe_the_server_and_transport() -> None:
    async with connected_caller() as ann:
        result = await ann.call("vdo_capabilities")
        assert result["server"] == {
            "name": "agent",
            "version": "1",
            "protocol_version": "2025-11-25",
            "supported_protocol_versions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
        }
        truth = result["transport_truth"]
        assert (truth["type"], truth["generic_tcp_tunnel"]) == ("webrtc_data_channel", False)
        assert (truth["turn_relays_help_reachability"], truth["guaranteed_firewall_bypass"]) == (True, False)


async def test_a_session_without_file_and_state_tools_accepts_neither() -> None:
    async with signalling() as host, connected_caller(host, profile="core") as ann, connected_caller(host) as bob:
        await ann.connect("ann")
        await bob.connect("bob")
        await bob.wait_for_peers("ann")
        (peer,) = (await bob.call("vdo_sync_peers"))["peers"]
        assert (peer["capabilities"]["file_transfer_v1"], peer["capabilities"]["state_v1"]) == (False, False)
        await bob.call("vdo_state_set", key="k", value=1)
        error = await bob.failure("vdo_file_send", data_base64="aGVsbG8=", ack_timeout_ms=200, max_retries=1)
        assert error["type"] == "tool_error"
        await ann.wait_for_event("file_offer_rejected", reason="this session does not accept files")
        assert (await ann.call("vdo_status"))["state_keys"] == 0


# -- every dialect ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_failed_calls_are_error_results_in_every_dialect(dialect: str) -> None:
    async with connected_caller() as ann, connect_raw_client(ann.server, dialect) as client:
        result = await client.call("vdo_status", {"session_id": "x"})
        assert result["isError"] is True
        assert '"validation_error"' in result["content"][0]["text"]
        if dialect >= "2025-06-18" or dialect == "plain":
            assert result["structuredContent"] == {
                "ok": False,
                "error": {"type": "validation_error", "message": "unknown session_id: x", "tool": "vdo_status"},
            }


async def test_sessions_of_one_principal_are_unknown_to_others(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    keys = {name: ring.add(name) for name in ("ann", "bob")}
    server = Server("agent")
    install_pack(server, pack, PeersSettings())
    async with signalling() as host, run_server(server, key_file=str(ring.path)) as there:

        async def call(who: str, tool: str, **arguments: Any) -> Any:
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            params = {"name": tool, "arguments": arguments}
            answer = await there.site.post({**request, "params": params}, keys[who])
            return json.loads(answer.json["result"]["content"][0]["text"])

        session_id = (await call("ann", "vdo_connect", room="hall", host=host))["session_id"]
        assert (await call("ann", "vdo_status", session_id=session_id))["ok"]
        assert len((await call("ann", "vdo_list_sessions"))["sessions"]) == 1
        assert (await call("bob", "vdo_list_sessions"))["sessions"] == []
        for tool in ("vdo_status", "vdo_receive", "vdo_disconnect", "vdo_state_get", "vdo_file_transfers"):
            refusal = (await call("bob", tool, session_id=session_id))["error"]
            assert refusal["message"] == f"unknown session_id: {session_id}"
