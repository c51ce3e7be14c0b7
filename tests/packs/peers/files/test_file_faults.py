"""Agents that die during a transfer and disks that fail: one clear error, and other transfers continue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.files.file_agents import (
    FileAgent,
    file_agent_pair,
    joined_file_room,
    limit_file_size,
    start_transfer,
)
from tests.packs.peers.files.scripted_vdo_bridge import COMPLETE, DATA, TOTAL, chunk, offer, with_vdo_bridge
from tests.packs.peers.files.stop_and_wait import StopAndWaitBridge
from tests.packs.peers.room_agents import WAIT_S, signalling

from hubbub import ToolFailure
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.options import SendRequest


class ForgetfulVdoBridge(StopAndWaitBridge):
    """Acknowledges only the first chunks."""

    def receive_chunk(self, name: str, payload: dict[str, Any]) -> None:
        if payload["seq"] <= 3:
            super().receive_chunk(name, payload)


async def test_a_vdo_bridge_that_dies_while_receiving_fails_only_that_transfer(tmp_path: Path) -> None:
    async with signalling() as host:
        bob = FileAgent(host, "bob", tmp_path, files={"ack_timeout_s": 0.2, "max_retries": 1})
        ann = FileAgent(host, "ann", tmp_path)
        async with joined_file_room(bob, ann), ForgetfulVdoBridge(host) as olga:
            await ann.wait_until_ready_for("bob")
            await bob.wait_until_ready_for("ann")
            await olga.view("bob")
            olga.send_hello()
            await bob.listener.until(lambda: bob.mesh.find("olga") and bob.knows("olga"))
            sending = await start_transfer(bob, bob.write("x", 3_000_000), SendRequest(target="olga"))
            assert olga.connection is not None
            await olga.connection.close()
            await olga.socket.close()
            sent = await bob.files.send_data(DATA, SendRequest(target="ann"))
            assert ann.content(ann.files.get_received(sent.transfer_id)) == DATA
            async with asyncio.timeout(WAIT_S):
                with pytest.raises(ToolFailure, match="vdo_file_resume"):
                    await sending
            assert len(bob.listener.of("file_transfer_failed")) == 1
            assert not bob.files.is_busy


async def test_a_vdo_bridge_that_dies_while_sending_leaves_an_incomplete_transfer(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", offer(), "file.accept")
        await olga.request("file.chunk", chunk(0), "file.ack")
        assert olga.scripted_peer.connection is not None
        await olga.scripted_peer.connection.close()
        await bob.listener.until(lambda: bob.files.incoming[0].last_error)
        [transfer] = bob.files.incoming
        assert (transfer.status, transfer.has_data) == ("receiving", False)
        assert transfer.last_error == "the sender left; the transfer continues if it returns"
        with pytest.raises(ToolFailure, match="transfer not complete"):
            bob.files.get_received("t")


async def test_messages_after_completion_change_nothing(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", offer(), "file.accept")
        for seq in reversed(range(TOTAL)):
            await olga.request("file.chunk", chunk(seq), "file.ack")
        await olga.request("file.complete", COMPLETE, "file.complete_ack")
        await olga.request("file.chunk", chunk(0, b"x" * 16_384), "file.ack")
        await olga.request("file.complete", COMPLETE, "file.complete_ack")
        olga.send("file.cancel", {"transfer_id": "t"})
        await olga.request("file.resume_req", {"transfer_id": "t"}, "file.resume_state")
        assert bob.content(bob.files.get_received("t")) == DATA
        assert len(bob.listener.of("file_received")) == 1


async def test_a_full_disk_fails_only_that_transfer_at_both_peers(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, files={"spool_threshold_bytes": 1_000_000}) as (ann, bob):
        path = ann.write("x", 3_000_000)
        with limit_file_size(1_000_000):
            with pytest.raises(ToolFailure, match="the file cannot be written: File too large"):
                await ann.files.send_path(path, SendRequest(transfer_id="large"))
            small = await ann.files.send_data(DATA, SendRequest())
        assert bob.content(bob.files.get_received(small.transfer_id)) == DATA
        assert [event["transfer_id"] for event in bob.listener.of("file_transfer_failed")] == ["large"]
        assert not list((tmp_path / "bob").rglob("incoming_large_*"))
        again = await ann.files.resume("large", SendRequest())
        assert bob.content(bob.files.get_received("large")) == Path(path).read_bytes()
        assert again.status == "completed"


async def test_a_file_that_cannot_be_saved_stays_available(tmp_path: Path) -> None:
    read_only = "/sys"
    assert Path(read_only).is_dir()
    async with file_agent_pair(tmp_path) as (ann, bob):
        bob.files.folders.add(read_only)
        sent = await ann.files.send_data(DATA, SendRequest())
        came = bob.files.get_received(sent.transfer_id)
        with pytest.raises(PeersError, match=r"(permitted|denied|read-only).*: /sys/x"):
            await bob.files.save(came, f"{read_only}/x", overwrite=False)
        target = tmp_path / "bob" / "y"
        with limit_file_size(1000), pytest.raises(PeersError, match=f"file too large: {target}"):
            await bob.files.save(came, str(target), overwrite=False)
        assert {path.name for path in (tmp_path / "bob").iterdir()} <= {"spool"}
        await bob.files.save(came, str(target), overwrite=False)
        assert target.read_bytes() == DATA
