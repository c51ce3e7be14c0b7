"""Resuming transfers after a lost network, a killed process or a restart; and files that changed meanwhile."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.packs.peers.files.file_agents import FileAgent, file_agent_pair, joined_file_room, start_transfer
from tests.packs.peers.room_agents import signalling

from hubbub import ToolFailure
from hubbub.packs.peers.files.options import SendRequest


async def test_a_receiver_that_returns_with_its_chunks_gets_the_rest(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, files={"max_retries": 0}) as (ann, bob):
        path = ann.write("x", 20_000_000)
        task = await start_transfer(ann, path, SendRequest(transfer_id="t"))
        for link in list(ann.mesh.roster.get(ann.uuid("bob")).links.values()):  # type: ignore[union-attr]
            await link.close("the cable was pulled")
        with pytest.raises(ToolFailure):
            await task
        await ann.wait_until_ready_for("bob")
        await bob.wait_until_ready_for("ann")
        before = bob.listener.received_bytes
        had = bob.files.incoming[0].chunk_map.bytes
        assert 0 < had < 20_000_000
        sent = await ann.files.resume("t", SendRequest(max_retries=6))
        assert sent.status == "completed"
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()
        assert bob.listener.received_bytes - before < 20_500_000 - had


async def test_a_transfer_waits_for_a_lost_connection_to_return(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        path = ann.write("x", 20_000_000)
        task = await start_transfer(ann, path)
        for link in list(ann.mesh.roster.get(ann.uuid("bob")).links.values()):  # type: ignore[union-attr]
            await link.close("the cable was pulled")
        sent = await task
        assert (sent.status, sent.retries_total > 0) == ("completed", True)
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()


async def test_a_receiver_that_returns_without_its_chunks_gets_the_whole_file(tmp_path: Path) -> None:
    async with signalling() as host:
        ann, bob = FileAgent(host, "ann", tmp_path), FileAgent(host, "bob", tmp_path)
        async with joined_file_room(ann):
            async with joined_file_room(bob):
                await ann.wait_until_ready_for("bob")
                path = ann.write("x", 20_000_000)
                task = await start_transfer(ann, path)
            again = FileAgent(host, "bob", tmp_path)
            async with joined_file_room(again):
                sent = await task
                assert sent.status == "completed"
                assert again.content(again.files.incoming[0]) == Path(path).read_bytes()


async def test_a_transfer_that_the_receiver_forgot_is_offered_again(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, files={"max_retries": 1, "ack_timeout_s": 0.2}) as (ann, bob):
        bob.listener.loses = lambda frame: isinstance(frame, bytes)  # type: ignore[method-assign]
        with pytest.raises(ToolFailure):
            await ann.files.send_data(b"abc" * 1000, SendRequest(transfer_id="t"))
        del bob.listener.loses
        bob.files.cancel("t")
        await ann.listener.until(lambda: ann.received_payloads("file.cancel"))
        sent = await ann.files.resume("t", SendRequest(start_seq=0))
        assert sent.status == "completed"
        assert (await ann.files.resume("t", SendRequest())).status == "completed"
        with pytest.raises(ToolFailure, match="unknown transfer_id: u"):
            await ann.files.resume("u", SendRequest())


async def test_a_transfer_continues_while_signalling_restarts(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = signalling()
        host = await first.__aenter__()
        ann, bob = (FileAgent(host, name, tmp_path, reconnect_s=0.1) for name in ("ann", "bob"))
        await stack.enter_async_context(joined_file_room(ann, bob))
        await ann.wait_until_ready_for("bob")
        path = ann.write("x", 30_000_000)
        task = await start_transfer(ann, path)
        await first.__aexit__(None, None, None)
        await ann.listener.until(lambda: ann.listener.of("reconnect_scheduled"))
        await stack.enter_async_context(signalling(port=int(host.rpartition(":")[2])))
        await ann.listener.until(lambda: len(ann.listener.of("connected")) == 2)
        sent = await task
        assert (sent.status, sent.retries_total) == ("completed", 0)
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()
        assert not ann.listener.gone


async def test_a_changed_file_is_not_resumed(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, files={"max_retries": 0, "ack_timeout_s": 0.2}) as (ann, bob):
        bob.listener.loses = lambda frame: isinstance(frame, bytes)  # type: ignore[method-assign]
        path = ann.write("x", 100_000)
        with pytest.raises(ToolFailure):
            await ann.files.send_path(path, SendRequest(transfer_id="t"))
        ann.write("x", 100_000)
        with pytest.raises(ToolFailure, match="the file changed"):
            await ann.files.resume("t", SendRequest())


async def test_a_file_that_changes_during_transfer_is_not_completed(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        path = ann.write("x", 20_000_000)
        task = await start_transfer(ann, path)
        with Path(path).open("r+b") as file:
            file.seek(19_000_000)
            file.write(b"something else")
        with pytest.raises(ToolFailure, match="file hash mismatch"):
            await task
        assert ann.files.outgoing[0].status == "failed"
        assert [came.status for came in bob.files.incoming] == ["failed"]
        assert not bob.listener.of("file_received")
        assert not ann.listener.of("file_transfer_complete")
        assert not list((bob.folder / "spool").rglob("incoming_*"))


async def test_a_file_that_shrinks_during_transfer_fails(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        path = ann.write("x", 20_000_000)
        task = await start_transfer(ann, path)
        with Path(path).open("r+b") as file:
            file.truncate(19_000_000)
        with pytest.raises(ToolFailure, match="the file changed"):
            await task
        assert bob.files.incoming[0].status == "receiving"
