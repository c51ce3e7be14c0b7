"""The tools for files, over real connections."""

from __future__ import annotations

import base64
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.callers import Caller, callers_in_room, connected_caller
from tests.packs.peers.room_agents import signalling
from tests.packs.peers.scripted_peer import ScriptedPeer

from hubbub.packs.peers import limits

SUMMARY = {
    "transfer_id", "direction", "status", "name", "mime", "total_bytes", "total_chunks", "chunk_bytes", "retries_total",
    "acked_chunks", "source", "spooled", "spool_path", "source_path", "target_uuid", "target_stream_id", "from_uuid",
    "from_stream_id", "file_hash", "created_at", "updated_at", "completed_at", "last_error", "has_data",
}  # fmt: skip


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@asynccontextmanager
async def two_callers(folder: Path, **arguments: Any) -> AsyncIterator[tuple[Caller, Caller]]:
    """Ann and Bob, who are allowed to use this folder."""
    async with signalling() as host, AsyncExitStack() as stack:
        ann, bob = [await stack.enter_async_context(connected_caller(host, files=(str(folder),))) for _ in range(2)]
        spool = str(folder / "spool")
        await ann.connect("ann", file_spool_dir=spool, **arguments)
        await bob.connect("bob", file_spool_dir=spool, **arguments)
        await ann.wait_for_peers("bob")
        await bob.wait_for_peers("ann")
        yield ann, bob


async def test_sent_bytes_are_listed_and_read_in_every_encoding(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (ann, bob):
        text = '{"größe": [1, 2]}'
        result = await ann.call(
            "vdo_file_send", data_base64=encode_base64(text.encode()), name="a.json", mime="application/json"
        )
        assert result.keys() == {"ok", "session_id", "transfer"}
        sent = result["transfer"]
        assert sent.keys() == SUMMARY | {"next_seq"}
        assert (sent["direction"], sent["status"], sent["source"], sent["next_seq"]) == (
            "outgoing",
            "completed",
            "memory",
            1,
        )
        assert (sent["target_stream_id"], sent["target_uuid"]) == ("bob", await ann.uuid("bob"))
        listed = await bob.call("vdo_file_transfers")
        assert (listed["direction"], listed["incoming_count"], listed["outgoing_count"]) == ("all", 1, 0)
        [came] = listed["incoming"]
        assert came.keys() == SUMMARY
        assert (came["status"], came["has_data"], came["from_stream_id"], came["acked_chunks"]) == (
            "completed",
            True,
            "ann",
            1,
        )
        name = sent["transfer_id"]
        for encoding, field, value in (
            ("base64", "data_base64", encode_base64(text.encode())),
            ("utf8", "data_text", text),
            ("text", "data_text", text),
            ("json", "data_json", {"größe": [1, 2]}),
        ):
            read = await bob.call("vdo_file_receive", transfer_id=name, encoding=encoding)
            given = {key: read[key] for key in ("data_base64", "data_text", "data_json")}
            assert given == {**dict.fromkeys(given), field: value}
            assert (read["transfer_id"], read["encoding"], read["transfer"]) == (name, encoding, came)


async def test_a_path_is_sent_and_saved(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (ann, bob):
        source = tmp_path / "source.bin"
        source.write_bytes(os.urandom(5_000_000))
        sent = (await ann.call("vdo_file_send_path", file_path=str(source), target="bob"))["transfer"]
        assert (sent["name"], sent["source"], sent["source_path"]) == ("source.bin", "path", str(source))
        [came] = (await bob.call("vdo_file_transfers", direction="incoming"))["incoming"]
        assert (came["spooled"], came["source"]) == (True, "spool")
        assert Path(came["spool_path"]).stat().st_mode & 0o777 == 0o600
        name, target = sent["transfer_id"], tmp_path / "deep" / "er" / "copy.bin"
        result = await bob.call("vdo_file_save", transfer_id=name, output_path=str(target))
        assert (result["output_path"], result["bytes_written"]) == (str(target), 5_000_000)
        assert target.read_bytes() == source.read_bytes()
        error = await bob.failure("vdo_file_save", transfer_id=name, output_path=str(target))
        assert error["message"] == f"output exists: {target}"
        await bob.call("vdo_file_save", transfer_id=name, output_path=str(target), overwrite="yes")
        await bob.call("vdo_disconnect")
        assert not Path(came["spool_path"]).exists()


async def test_receive_refuses_a_file_over_the_result_limit(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (ann, bob):
        (tmp_path / "x").write_bytes(bytes(limits.FILE_ANSWER_BYTES + 1))
        (tmp_path / "y").write_bytes(bytes(limits.FILE_ANSWER_BYTES))
        await ann.call("vdo_file_send_path", file_path=str(tmp_path / "x"), transfer_id="x")
        await ann.call("vdo_file_send_path", file_path=str(tmp_path / "y"), transfer_id="y")
        error = await bob.failure("vdo_file_receive", transfer_id="x")
        assert "pass offset and length to read it in pieces, or use vdo_file_save" in error["message"]
        read = await bob.call("vdo_file_receive", transfer_id="y")
        assert len(read["data_base64"]) > limits.FILE_ANSWER_BYTES


async def test_file_tools_fail_with_the_error_types_and_messages_of_the_contract(tmp_path: Path) -> None:
    async with two_callers(tmp_path, file_max_bytes=1000, file_ack_timeout_ms=100, file_max_retries=0) as (ann, bob):
        await ann.call("vdo_file_send", data_base64=encode_base64(b"null"), transfer_id="null")
        await ann.call("vdo_file_send", data_base64=encode_base64(b"\xff"), transfer_id="bytes")
        wrong: list[tuple[Caller, str, dict[str, Any], str, str]] = [
            (ann, "vdo_file_send", {}, "validation_error", "data_base64 is required"),
            (ann, "vdo_file_send", {"data_base64": "%%%"}, "tool_error", "data_base64 decoded to empty payload"),
            (ann, "vdo_file_send", {"data_base64": 5}, "tool_error", "data_base64 must be a string"),
            (
                ann,
                "vdo_file_send",
                {"data_base64": encode_base64(bytes(1001))},
                "tool_error",
                "file exceeds max 1000 bytes",
            ),
            (ann, "vdo_file_send", {"data_base64": "aaaa", "x": 1}, "validation_error", "unsupported fields: x"),
            (ann, "vdo_file_send", {"data_base64": "aaaa", "target": "a", "uuid": "b"}, "tool_error", "not both"),
            (ann, "vdo_file_send", {"data_base64": "aaaa", "target": "zoe"}, "tool_error", "failed to send file.offer"),
            (ann, "vdo_file_send_path", {}, "validation_error", "file_path is required"),
            (ann, "vdo_file_send_path", {"file_path": str(tmp_path)}, "tool_error", "not a regular file"),
            (ann, "vdo_file_send_path", {"file_path": "/etc/hostname"}, "tool_error", "not below an allowed folder"),
            (ann, "vdo_file_send_path", {"file_path": "/invalid/required"}, "tool_error", "not below an allowed"),
            (ann, "vdo_file_send_path", {"file_path": "a\0b"}, "validation_error", "invalid path"),
            (bob, "vdo_file_save", {"transfer_id": "null", "output_path": "a\0b"}, "validation_error", "invalid path"),
            (ann, "vdo_file_resume", {}, "validation_error", "transfer_id is required"),
            (ann, "vdo_file_resume", {"transfer_id": "who"}, "validation_error", "unknown transfer_id: who"),
            (ann, "vdo_file_transfers", {"direction": "up"}, "tool_error", "direction must be"),
            (bob, "vdo_file_receive", {"transfer_id": "who"}, "validation_error", "unknown transfer_id: who"),
            (
                bob,
                "vdo_file_receive",
                {"transfer_id": "null", "encoding": "json"},
                "tool_error",
                "not valid JSON",
            ),
            (
                bob,
                "vdo_file_receive",
                {"transfer_id": "bytes", "encoding": "json"},
                "tool_error",
                "not valid JSON",
            ),
            (
                bob,
                "vdo_file_receive",
                {"transfer_id": "null", "encoding": "invalid"},
                "tool_error",
                "unsupported encoding: invalid",
            ),
            (bob, "vdo_file_save", {"transfer_id": "null"}, "validation_error", "output_path is required"),
            (bob, "vdo_file_save", {"transfer_id": "null", "output_path": "/x"}, "tool_error", "not below an allowed"),
            (bob, "vdo_file_cancel", {"transfer_id": "who"}, "validation_error", "unknown transfer_id: who"),
        ]
        for caller, tool, arguments, kind, message in wrong:
            error = await caller.failure(tool, **arguments)
            assert error["type"] == kind, error
            assert message in error["message"]


async def test_a_refused_file_leaves_no_transfer(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "large").write_bytes(bytes(1001))
    async with two_callers(tmp_path, file_max_bytes=1000, file_ack_timeout_ms=100, file_max_retries=0) as (ann, bob):
        for number in range(limits.FILES_FINISHED_PER_PEER):
            await ann.call("vdo_file_send", data_base64="aaaa", transfer_id=f"t{number}")
        before = await ann.call("vdo_file_transfers")
        for path in ("/etc/hostname", "../x", str(tmp_path), "link", "none", "empty", "large", "a\0b"):
            error = await ann.failure("vdo_file_send_path", file_path=path)
            assert "data" not in error
            assert "transfer_id" not in error["message"]
        await ann.failure("vdo_file_send", data_base64=encode_base64(bytes(1001)))
        await ann.failure("vdo_file_send_path", file_path="none", transfer_id="t0")
        assert await ann.call("vdo_file_transfers") == before
        assert "file_transfer_failed" not in [event["type"] for event in await ann.read_events()]
        assert (await bob.call("vdo_file_transfers"))["incoming_count"] == limits.FILES_FINISHED_PER_PEER


@pytest.mark.parametrize("text", ["aGVsbG8gd29ybGQ_", "aGVs\nbG8gd29ybGQ/", "aGVsbG8gd29ybGQ/=="])
async def test_base64_is_parsed_leniently(text: str, tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (ann, bob):
        await ann.call("vdo_file_send", data_base64=text, transfer_id="t")
        read = await bob.call("vdo_file_receive", transfer_id="t")
        assert base64.b64decode(read["data_base64"]) == b"hello world?"


async def test_chunk_bytes_is_clamped(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (ann, _):
        data = encode_base64(bytes(5000))
        for given, used in ((10, 1024), (2000, 2000), (10**9, 195_840), (-5, 65_536), ("no", 65_536)):
            sent = (await ann.call("vdo_file_send", data_base64=data, chunk_bytes=given))["transfer"]
            assert sent["chunk_bytes"] == used


async def test_a_failed_transfer_reports_its_id_and_can_be_resumed(tmp_path: Path) -> None:
    async with two_callers(tmp_path, file_ack_timeout_ms=100, file_max_retries=0) as (ann, bob):
        await bob.call("vdo_disconnect")
        source = tmp_path / "x"
        source.write_bytes(os.urandom(100_000))
        await ann.until(lambda status: status["peer_count"] == 0)
        error = await ann.failure("vdo_file_send_path", file_path=str(source))
        assert error["message"] == "no connected peers"
        await bob.connect("bob", file_spool_dir=str(tmp_path / "spool"), file_max_bytes=1000)
        await ann.wait_for_peers("bob")
        error = await ann.failure("vdo_file_send_path", file_path=str(source))
        [failed] = (await ann.call("vdo_file_transfers", direction="outgoing"))["outgoing"]
        assert (failed["status"], failed["last_error"]) == ("failed", "total_bytes must be 1..1000")
        message = f"total_bytes must be 1..1000 (transfer_id {failed['transfer_id']}, 0 of 100000 bytes confirmed)"
        assert (error["type"], error["message"]) == ("tool_error", message)
        await bob.call("vdo_disconnect")
        await bob.connect("bob", file_spool_dir=str(tmp_path / "spool"))
        await ann.wait_for_peers("bob")
        resumed = (await ann.call("vdo_file_resume", transfer_id=failed["transfer_id"], target="bob"))["transfer"]
        assert (resumed["status"], resumed["last_error"]) == ("completed", None)


async def test_the_receiver_can_cancel_a_transfer_while_the_send_call_waits(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (ann, bob):
        (tmp_path / "x").write_bytes(os.urandom(60_000_000))
        arguments = {"session_id": ann.session_id, "file_path": str(tmp_path / "x"), "transfer_id": "t"}
        waiting = ann.client.send_request("tools/call", {"name": "vdo_file_send_path", "arguments": arguments})
        await bob.wait_for_event("file_chunk_received")
        content = await bob.call("vdo_file_cancel", transfer_id="t")
        assert (content["transfer_id"], content["transfer"]["status"]) == ("t", "cancelled")
        result = (await ann.client.response_to(waiting))["result"]
        assert "cancelled by the receiver" in result["structuredContent"]["error"]["message"]
        assert (await ann.wait_for_event("file_transfer_cancelled"))["transfer_id"] == "t"
        [sent] = (await ann.call("vdo_file_transfers", direction="outgoing"))["outgoing"]
        assert sent["status"] == "cancelled"


async def test_progress_notifications_are_sent_for_a_progress_token(tmp_path: Path) -> None:
    async with two_callers(tmp_path) as (ann, _):
        (tmp_path / "x").write_bytes(os.urandom(30_000_000))
        arguments = {"session_id": ann.session_id, "file_path": str(tmp_path / "x")}
        params = {"name": "vdo_file_send_path", "arguments": arguments}
        waiting = ann.client.send_request("tools/call", params, meta={"progressToken": "p"})
        await ann.client.response_to(waiting, timeout_s=30)
        notes = ann.client.notifications("notifications/progress")
        assert notes[-1] == {"progressToken": "p", "progress": 30_000_000, "total": 30_000_000}
        assert [note["progress"] for note in notes] == sorted({note["progress"] for note in notes})


async def test_the_default_folder_is_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "x").write_bytes(bytes(5_000_000))
    (tmp_path / "outside").write_bytes(b"x")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        sent = (await ann.call("vdo_file_send_path", file_path="x"))["transfer"]
        error = await ann.failure("vdo_file_send_path", file_path="../outside")
        assert "not below an allowed folder" in error["message"]
        [came] = (await bob.call("vdo_file_transfers"))["incoming"]
        assert came["spool_path"].startswith(str(tmp_path / "temporary"))
        result = await bob.call("vdo_file_save", transfer_id=sent["transfer_id"], output_path="y")
        assert result["output_path"] == str(tmp_path / "here" / "y")
        back = await bob.call("vdo_file_send_path", file_path=came["spool_path"], name="back")
        assert back["transfer"]["file_hash"] == sent["file_hash"]
    assert not list((tmp_path / "temporary").rglob("incoming_*"))


async def test_a_session_with_a_running_transfer_is_not_idle() -> None:
    async with signalling() as host, connected_caller(host) as ann, ScriptedPeer(host, "olga") as olga:
        await ann.connect("ann")
        await olga.view("ann")
        olga.send_hello()
        await ann.wait_for_peers("olga")
        arguments = {"session_id": ann.session_id, "data_base64": "aaaa", "max_retries": 1000}
        ann.client.send_request("tools/call", {"name": "vdo_file_send", "arguments": arguments})
        await ann.until(lambda status: olga.envelopes("file.offer"))
        ann.sessions.clock = lambda: time.monotonic() + 2 * limits.PEER_SESSION_IDLE_S
        await ann.sessions.close_idle()
        await ann.call("vdo_status")


async def test_a_spool_folder_outside_the_allowed_folders_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    async with signalling() as host, connected_caller(host, files=(str(tmp_path / "in"),)) as ann:
        error = await ann.failure("vdo_connect", room="hall", host=host, file_spool_dir=str(tmp_path / "out"))
        assert "not below an allowed folder" in error["message"]
        assert not (tmp_path / "out").exists()
