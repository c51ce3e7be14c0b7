"""Ends that die in the middle of a file and disks that refuse: one clear error, and the others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.files.ends import FileEnd, begun, file_room, no_file_above, pair
from tests.packs.peers.files.original import COMPLETE, DATA, TOTAL, beside_original, chunk, offer
from tests.packs.peers.files.stop_and_wait import FileOriginal
from tests.packs.peers.rooms import WAIT_S, signalling

from hubbub import ToolFailure
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.options import Sending


class ForgetfulOriginal(FileOriginal):
    """Confirms only the first chunks."""

    def take_chunk(self, name: str, payload: dict[str, Any]) -> None:
        if payload["seq"] <= 3:
            super().take_chunk(name, payload)


async def test_an_original_that_dies_while_it_takes_a_file_fails_that_file_only(tmp_path: Path) -> None:
    async with signalling() as host:
        bob = FileEnd(host, "bob", tmp_path, files={"ack_timeout_s": 0.2, "max_retries": 1})
        ann = FileEnd(host, "ann", tmp_path)
        async with file_room(bob, ann), ForgetfulOriginal(host) as olga:
            await ann.until_ready_for("bob")
            await bob.until_ready_for("ann")
            await olga.view("bob")
            olga.greet()
            await bob.notes.until(lambda: bob.mesh.find("olga") and bob.knows("olga"))
            sending = await begun(bob, bob.write("x", 3_000_000), Sending(target="olga"))
            assert olga.connection is not None
            await olga.connection.close()
            await olga.socket.close()
            sent = await bob.files.send_data(DATA, Sending(target="ann"))
            assert ann.content(ann.files.received(sent.transfer_id)) == DATA
            async with asyncio.timeout(WAIT_S):
                with pytest.raises(ToolFailure, match="vdo_file_resume goes on"):
                    await sending
            assert len(bob.notes.of("file_transfer_failed")) == 1
            assert not bob.files.is_busy


async def test_an_original_that_dies_while_it_sends_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    async with beside_original(tmp_path) as (bob, olga):
        await olga.ask("file.offer", offer(), "file.accept")
        await olga.ask("file.chunk", chunk(0), "file.ack")
        assert olga.stranger.connection is not None
        await olga.stranger.connection.close()
        await bob.notes.until(lambda: bob.files.incoming[0].last_error)
        [transfer] = bob.files.incoming
        assert (transfer.status, transfer.has_data) == ("receiving", False)
        assert transfer.last_error == "the sender is gone; it may come back and go on"
        with pytest.raises(ToolFailure, match="transfer not complete"):
            bob.files.received("t")


async def test_what_comes_after_the_end_changes_nothing(tmp_path: Path) -> None:
    async with beside_original(tmp_path) as (bob, olga):
        await olga.ask("file.offer", offer(), "file.accept")
        for seq in reversed(range(TOTAL)):
            await olga.ask("file.chunk", chunk(seq), "file.ack")
        await olga.ask("file.complete", COMPLETE, "file.complete_ack")
        await olga.ask("file.chunk", chunk(0, b"x" * 16_384), "file.ack")
        await olga.ask("file.complete", COMPLETE, "file.complete_ack")
        olga.say("file.cancel", {"transfer_id": "t"})
        await olga.ask("file.resume_req", {"transfer_id": "t"}, "file.resume_state")
        assert bob.content(bob.files.received("t")) == DATA
        assert len(bob.notes.of("file_received")) == 1


async def test_a_disk_that_fills_up_fails_the_file_at_both_ends_and_no_other(tmp_path: Path) -> None:
    async with pair(tmp_path, files={"spool_threshold_bytes": 1_000_000}) as (ann, bob):
        path = ann.write("x", 3_000_000)
        with no_file_above(1_000_000):
            with pytest.raises(ToolFailure, match="the file cannot be written: File too large"):
                await ann.files.send_path(path, Sending(transfer_id="large"))
            small = await ann.files.send_data(DATA, Sending())
        assert bob.content(bob.files.received(small.transfer_id)) == DATA
        assert [event["transfer_id"] for event in bob.notes.of("file_transfer_failed")] == ["large"]
        assert not list((tmp_path / "bob").rglob("incoming_large_*"))
        again = await ann.files.resume("large", Sending())
        assert bob.content(bob.files.received("large")) == Path(path).read_bytes()
        assert again.status == "completed"


async def test_a_file_that_cannot_be_saved_is_still_there(tmp_path: Path) -> None:
    read_only = "/sys"
    assert Path(read_only).is_dir()
    async with pair(tmp_path) as (ann, bob):
        bob.files.folders.add(read_only)
        sent = await ann.files.send_data(DATA, Sending())
        came = bob.files.received(sent.transfer_id)
        with pytest.raises(PeersError, match=r"(permitted|denied|read-only).*: /sys/x"):
            await bob.files.save(came, f"{read_only}/x", overwrite=False)
        target = tmp_path / "bob" / "y"
        with no_file_above(1000), pytest.raises(PeersError, match=f"file too large: {target}"):
            await bob.files.save(came, str(target), overwrite=False)
        assert {path.name for path in (tmp_path / "bob").iterdir()} <= {"spool"}
        await bob.files.save(came, str(target), overwrite=False)
        assert target.read_bytes() == DATA
