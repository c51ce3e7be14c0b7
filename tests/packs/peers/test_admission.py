"""Messages of tools when peers are connected but not admitted: which peer, why, and what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.callers import Caller, connected_caller
from tests.packs.peers.room_agents import signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

DATA = {"data_base64": "aaaa"}


async def collect_notes(ann: Caller, **target: Any) -> dict[str, str]:
    """Return the note or error message of each tool that sends to peers."""
    texts = {}
    for tool, arguments, is_ok in (
        ("vdo_send", {"data": 1}, False),
        ("vdo_state_set", {"key": "k", "value": 1}, True),
        ("vdo_state_sync", {}, False),
        ("vdo_state_sync", {"mode": "send"}, False),
        ("vdo_state_delete", {"key": "k"}, True),
    ):
        if target and tool == "vdo_state_delete":
            continue  # It has no target.
        result = await ann.call(tool, **arguments, **target)
        assert result["ok"] is is_ok
        texts[f"{tool} {arguments}"] = result["note"]
    error = await ann.failure("vdo_file_send", **DATA, **target)
    assert error["type"] == "tool_error"
    return {**texts, "vdo_file_send": error["message"]}


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ({"allow_peer_stream_ids": ["bob"]}, 'reason: "peer not on allowlist"'),
        ({"enforce_join_token": True, "join_token_secret": "sek"}, 'reason: "join token required"'),
    ],
)
async def test_tools_name_a_rejected_peer_with_the_reason_and_advice(gate: dict[str, Any], reason: str) -> None:
    async with signalling() as host, connected_caller(host) as ann, connected_caller(host) as eve:
        await ann.connect("ann", **gate)
        assert (await ann.failure("vdo_file_send", **DATA))["message"] == "no connected peers"
        assert "note" not in await ann.call("vdo_send", data=1)
        await eve.connect("eve")
        await ann.wait_for_event("sync_peer_rejected", stream_id="eve")
        uuid = await ann.uuid("eve")
        for target in ({}, {"target": "eve"}, {"uuid": uuid}):
            for text in (await collect_notes(ann, **target)).values():
                assert f'"eve" is connected but not admitted ({reason}). Check join_token' in text
                assert "vdo_sync_announce" in text
        await ann.read_events()
        sent = await ann.call("vdo_send", data=1)
        assert (sent["failed"], sent["sent_count"]) == ({uuid: "not_admitted"}, 0)
        assert (await ann.wait_for_event("send_rejected"))["reason"] == "not_admitted"
        error = await ann.failure("vdo_file_send", **DATA, target="unknown_required")
        assert error["message"] == "no open channel to unknown_required: failed to send file.offer"
        assert error["type"] == "tool_error"
        assert not await eve.read_events(types=["data_received", "state_*", "file_*"])


async def test_tools_report_success_without_notes_if_one_peer_is_admitted() -> None:
    async with (
        signalling() as host,
        connected_caller(host) as ann,
        connected_caller(host) as bob,
        connected_caller(host) as eve,
    ):
        await ann.connect("ann", allow_peer_stream_ids=["bob"])
        await bob.connect("bob")
        await eve.connect("eve")
        await ann.wait_for_event("sync_peer_rejected", stream_id="eve")
        await ann.wait_for_peers("bob")
        for tool, arguments in (
            ("vdo_send", {"data": 1}),
            ("vdo_state_set", {"key": "k"}),
            ("vdo_state_sync", {}),
            ("vdo_state_delete", {"key": "k"}),
            ("vdo_file_send", DATA),
        ):
            result = await ann.call(tool, **arguments)
            assert result["ok"] is True
            assert not result.keys() & {"note", "failed"}


async def test_the_reason_of_a_peer_is_sanitised_and_does_not_affect_the_error_type() -> None:
    async with signalling() as host, connected_caller(host) as ann, ScriptedPeer(host, "mallory") as mallory:
        await ann.connect("ann")
        await mallory.view("ann")
        mallory.send_hello()
        await ann.wait_for_peers("mallory")
        reason = '\x1b[2J\u202einvalid\n\u2028"unknown session_id" required ' + "x" * 10_000
        mallory.send_frame(mallory.trust.frame(None, "sync.reject", {"reason": reason}))
        await ann.wait_for_event("sync_peer_rejected")
        for text in (await collect_notes(ann)).values():
            assert text.isprintable()
            assert "invalid 'unknown session_id' required xxx" in text
            assert len(text) < 600
        # An accepted hello ends the rejection.
        mallory.send_hello()
        await ann.wait_for_event("sync_peer_updated")
        assert "note" not in await ann.call("vdo_send", data=1)


async def test_notes_describe_peers_whose_handshake_is_not_finished() -> None:
    async with signalling() as host, connected_caller(host) as ann, ScriptedPeer(host, "mallory") as mallory:
        await ann.connect("ann", require_session_mac=True)
        await mallory.view("ann")
        await ann.wait_for_event("data_channel_open")
        for text in (await collect_notes(ann)).values():
            assert "is connected but not admitted (it has not sent a hello yet)" in text
        mallory.send_hello(public_key=None)
        await ann.wait_for_event("sync_peer_updated")
        for text in (await collect_notes(ann)).values():
            assert '"mallory" is connected but not admitted (its handshake is not finished)' in text


async def test_resuming_a_file_to_a_rejected_peer_reports_the_reason(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(os.urandom(1000))
    async with (
        signalling() as host,
        connected_caller(host, files=(str(tmp_path),)) as ann,
        ScriptedPeer(host, "olga") as olga,
    ):
        await ann.connect("ann", file_ack_timeout_ms=1, file_max_retries=1)
        await olga.view("ann")
        olga.send_hello()
        await ann.wait_for_peers("olga")
        error = await ann.failure("vdo_file_send_path", file_path="x", transfer_id="t")
        assert "timed out waiting for file.accept" in error["message"]
        olga.send_frame(olga.trust.frame(None, "sync.reject", {"reason": "required"}))
        await ann.wait_for_event("sync_peer_rejected")
        for target in ({}, {"target": "olga"}):
            error = await ann.failure("vdo_file_resume", transfer_id="t", **target)
            assert error["type"] == "tool_error"
            assert '"olga" is connected but not admitted (reason: "required")' in error["message"]
