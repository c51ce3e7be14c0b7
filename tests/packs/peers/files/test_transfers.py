"""Files over real WebRTC, in one process: they arrive complete, or the transfer fails with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.files.file_agents import FileAgent, file_agent_pair, joined_file_room, start_transfer
from tests.packs.peers.room_agents import WAIT_S, signalling

from hubbub import ToolFailure
from hubbub.packs.peers import limits
from hubbub.packs.peers.files.options import SendRequest
from hubbub.packs.peers.wire import Envelope

# -- complete transfers --------------------------------------------------------------


@pytest.mark.parametrize(
    "engines", [("wrtc", "wrtc"), ("aiortc", "aiortc"), ("wrtc", "aiortc"), ("aiortc", "wrtc")], ids="-".join
)
async def test_a_file_arrives_complete(engines: tuple[str, str], tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, engines) as (ann, bob):
        path = ann.write("report.bin", 5_000_001)
        sent = await ann.files.send_path(path, SendRequest(mime="text/x-report"))
        assert (sent.status, sent.name, sent.layout.total_chunks) == ("completed", "report.bin", 77)
        [came] = bob.files.incoming
        assert (came.status, came.name, came.mime, came.is_spooled) == (
            "completed",
            "report.bin",
            "text/x-report",
            True,
        )
        assert bob.content(came) == Path(path).read_bytes()
        assert came.file_hash == sent.file_hash
        assert not bob.received_payloads("file.chunk")


async def test_a_file_to_a_new_peer_starts_when_its_bulk_channel_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FILE_HELLO_TIMEOUT_S", 3600.0)
    async with signalling() as host:
        ann, bob = FileAgent(host, "ann", tmp_path), FileAgent(host, "bob", tmp_path)
        async with joined_file_room(ann, bob):
            await ann.listener.until(lambda: ann.listener.of("peer_connected"))
            async with asyncio.timeout(WAIT_S):
                sent = await ann.files.send_data(b"x" * 100, SendRequest())
            assert sent.status == "completed"
            assert not bob.received_payloads("file.chunk")


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 65_536, 65_537, 1_000_000])
async def test_small_files_are_kept_in_memory(size: int, tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        data = Path(ann.write("x", size)).read_bytes()
        sent = await ann.files.send_data(data, SendRequest(chunk_bytes=1024, name="x"))
        [came] = bob.files.incoming
        assert (came.is_spooled, came.layout.chunk_bytes, sent.layout.total_chunks) == (False, 1024, -(-size // 1024))
        assert bob.content(came) == data


async def test_several_files_transfer_in_both_directions_at_once(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        there = [ann.write(f"a{number}", 3_000_000 + number) for number in range(3)]
        back = [bob.write(f"b{number}", 3_000_000 + number) for number in range(3)]
        await asyncio.gather(
            *(ann.files.send_path(path, SendRequest()) for path in there),
            *(bob.files.send_path(path, SendRequest()) for path in back),
        )
        for end, paths in ((bob, there), (ann, back)):
            assert {each.name: end.content(each) for each in end.files.incoming} == {
                Path(path).name: Path(path).read_bytes() for path in paths
            }


async def test_a_file_goes_to_its_target_only(tmp_path: Path) -> None:
    async with signalling() as host:
        ann, bob, carol = (FileAgent(host, name, tmp_path) for name in ("ann", "bob", "carol"))
        async with joined_file_room(ann, bob, carol):
            await ann.wait_for_peers("bob", "carol")
            with pytest.raises(ToolFailure, match="ambiguous target: multiple peers connected"):
                await ann.files.send_data(b"x", SendRequest())
            await ann.files.send_data(b"for carol", SendRequest(target="carol"))
            await ann.files.send_data(b"for bob", SendRequest(target=ann.uuid("bob")))
            assert [carol.content(each) for each in carol.files.incoming] == [b"for carol"]
            assert [bob.content(each) for each in bob.files.incoming] == [b"for bob"]
            with pytest.raises(ToolFailure, match="no open channel to zoe"):
                await ann.files.send_data(b"x", SendRequest(target="zoe"))


async def test_sending_a_file_without_peers_is_an_error(tmp_path: Path) -> None:
    async with signalling() as host:
        ann = FileAgent(host, "ann", tmp_path)
        async with joined_file_room(ann):
            with pytest.raises(ToolFailure, match="no connected peers"):
                await ann.files.send_data(b"x", SendRequest())


async def test_without_a_bulk_channel_chunks_are_sent_in_envelopes(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        channel = ann.mesh.roster.get(ann.uuid("bob")).bulk  # type: ignore[union-attr]
        assert channel is not None
        channel.close()
        path = ann.write("x", 5_000_000)
        sent = await ann.files.send_path(path, SendRequest(chunk_bytes=262_144))
        assert sent.layout.chunk_bytes < 196_000
        assert len(bob.received_payloads("file.chunk")) == sent.layout.total_chunks
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()


async def test_chunks_over_several_connections_can_arrive_out_of_order(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, bulk_connections=4) as (ann, bob):
        peer = ann.mesh.roster.get(ann.uuid("bob"))
        assert peer is not None
        await ann.listener.until(lambda: len(peer.open_bulks) == 4)
        path = ann.write("x", 20_000_000)
        sent = await ann.files.send_path(path, SendRequest())
        assert sent.status == "completed"
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()


async def test_chunks_lost_with_one_of_several_connections_are_sent_again(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, bulk_connections=3) as (ann, bob):
        peer = ann.mesh.roster.get(ann.uuid("bob"))
        assert peer is not None
        await ann.listener.until(lambda: len(peer.open_bulks) == 3)
        path = ann.write("x", 30_000_000)
        task = await start_transfer(ann, path)
        await peer.bulk_connections[1].connection.close()
        sent = await task
        assert sent.status == "completed"
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()


# -- lost messages ---------------------------------------------------------------------


async def test_lost_frames_are_sent_again(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        frames = 0

        def loses(frame: bytes | Envelope) -> bool:
            nonlocal frames
            frames += isinstance(frame, bytes)
            return isinstance(frame, bytes) and frames in (3, 4, 9, 20, 21)

        bob.listener.loses = loses  # type: ignore[method-assign]
        path = ann.write("x", 5_000_000)
        sent = await ann.files.send_path(path, SendRequest())
        assert (sent.status, sent.retries_total > 0) == ("completed", True)
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()


@pytest.mark.parametrize("kind", ["file.offer", "file.complete", "file.accept", "file.ack", "file.complete_ack"])
async def test_one_lost_envelope_of_each_kind_is_recovered(kind: str, tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        lost: list[str] = []

        def loses(frame: bytes | Envelope) -> bool:
            if isinstance(frame, Envelope) and frame.kind == kind and not lost:
                lost.append(kind)
                return True
            return False

        ann.listener.loses = bob.listener.loses = loses  # type: ignore[method-assign]
        path = ann.write("x", 300_000)
        sent = await ann.files.send_path(path, SendRequest())
        await bob.listener.until(lambda: lost)
        assert sent.status == "completed"
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()


async def test_a_receiver_that_leaves_after_completion_has_confirmed_the_file(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        leaving: list[asyncio.Task[None]] = []
        record_event = bob.listener.on_event

        def on_event(type: str, fields: Mapping[str, Any]) -> None:
            record_event(type, fields)
            if type == "file_received":
                bob.listener.files = None  # It ignores all further messages of the transfer.
                leaving.append(asyncio.create_task(bob.mesh.disconnect()))

        bob.listener.on_event = on_event  # type: ignore[method-assign]
        sent = await ann.files.send_data(b"x" * 100, SendRequest(timeout_s=WAIT_S))
        assert sent.status == "completed"
        await asyncio.wait(leaving)


async def test_a_transfer_to_a_silent_receiver_fails(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, files={"ack_timeout_s": 0.1, "max_retries": 2}) as (ann, bob):
        bob.listener.files = None
        with pytest.raises(ToolFailure, match="max retries exceeded at chunk 0"):
            await ann.files.send_data(b"x" * 100, SendRequest(transfer_id="mine"))
        [mine] = ann.files.outgoing
        assert (mine.status, mine.transfer_id, mine.has_data) == ("failed", "mine", True)
        assert [event["reason"] for event in ann.listener.of("file_transfer_failed")] == [mine.last_error]


async def test_a_transfer_can_have_a_deadline(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        bob.listener.files = None
        with pytest.raises(ToolFailure, match="timed out"):
            await ann.files.send_data(b"x", SendRequest(timeout_s=0.2))


async def test_a_transfer_can_be_cancelled_before_its_first_chunk(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        with pytest.raises(ToolFailure, match="timed out"):
            await ann.files.send_data(b"x", SendRequest(timeout_s=0, transfer_id="t"))
        task = asyncio.create_task(ann.files.send_data(b"x", SendRequest(transfer_id="u")))
        await asyncio.sleep(0)
        ann.files.cancel("u")
        with pytest.raises(ToolFailure, match="cancelled by the caller"):
            await task
        assert not ann.files.is_busy
        assert (await ann.files.resume("t", SendRequest())).status == "completed"
        await ann.files.close()
        with pytest.raises(ToolFailure, match="the session was closed"):
            await ann.files.send_data(b"x", SendRequest())
        assert bob.files.incoming[0].status == "completed"


async def test_a_call_that_is_cancelled_stops_and_can_be_resumed(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        path = ann.write("x", 30_000_000)
        task = await start_transfer(ann, path, SendRequest(transfer_id="t"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ann.files.outgoing[0].status == "failed"
        sent = await ann.files.resume("t", SendRequest())
        assert sent.status == "completed"
        assert bob.content(bob.files.incoming[0]) == Path(path).read_bytes()


# -- refused files -------------------------------------------------------------------------


async def test_files_that_cannot_be_sent_are_refused(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, files={"max_bytes": 1000}) as (ann, bob):
        (tmp_path / "outside").write_bytes(b"x")
        (ann.folder / "empty").write_bytes(b"")
        refusals = {
            str(tmp_path / "outside"): "not below an allowed folder",
            str(ann.folder / "missing"): "no such file",
            str(ann.folder): "not a regular file",
            str(ann.folder / "empty"): "must not be empty",
            ann.write("large", 1001): "file exceeds max 1000 bytes",
        }
        for path, reason in refusals.items():
            with pytest.raises(ToolFailure, match=reason):
                await ann.files.send_path(path, SendRequest())
        with pytest.raises(ToolFailure, match="file exceeds max 1000 bytes"):
            await ann.files.send_data(b"x" * 1001, SendRequest())
        with pytest.raises(ToolFailure, match="invalid transfer_id"):
            await ann.files.send_data(b"x", SendRequest(transfer_id="a b"))
        assert not bob.files.incoming


async def test_an_id_is_used_for_one_transfer_at_a_time(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        task = await start_transfer(ann, ann.write("x", 30_000_000), SendRequest(transfer_id="t"))
        with pytest.raises(ToolFailure, match="transfer_id is in use: t"):
            await ann.files.send_data(b"x", SendRequest(transfer_id="t"))
        with pytest.raises(ToolFailure, match="already in progress"):
            await ann.files.resume("t", SendRequest())
        await task
        assert bob.files.incoming[0].status == "completed"


# -- cancelling ------------------------------------------------------------------------------


async def test_the_sender_can_cancel(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        task = await start_transfer(ann, ann.write("x", 20_000_000), SendRequest(transfer_id="t"))
        assert ann.files.cancel("t").status == "cancelled"
        with pytest.raises(ToolFailure, match="cancelled by the caller"):
            await task
        await bob.listener.until(lambda: bob.listener.of("file_transfer_cancelled"))
        [event] = bob.listener.of("file_transfer_cancelled")
        assert (event["transfer_id"], event["from_uuid"]) == ("t", bob.uuid("ann"))
        [came] = bob.files.incoming
        await bob.listener.until(lambda: came.store is None)
        assert came.status == "cancelled"
        assert not list((bob.folder / "spool").rglob("incoming_*"))
        with pytest.raises(ToolFailure, match="transfer payload unavailable"):
            await ann.files.resume("t", SendRequest())


async def test_the_receiver_can_cancel(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        task = await start_transfer(ann, ann.write("x", 20_000_000), SendRequest(transfer_id="t"))
        assert bob.files.cancel("t").status == "cancelled"
        with pytest.raises(ToolFailure, match="cancelled by the receiver"):
            await task
        assert ann.files.outgoing[0].status == "cancelled"
        assert ann.listener.of("file_transfer_cancelled")
        with pytest.raises(ToolFailure, match="transfer not complete"):
            bob.files.get_received("t")


async def test_a_finished_transfer_cannot_be_cancelled(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        await ann.files.send_data(b"x", SendRequest(transfer_id="t"))
        assert ann.files.cancel("t").status == "completed"
        assert bob.files.cancel("t").status == "completed"
        assert bob.content(bob.files.get_received("t")) == b"x"
        with pytest.raises(ToolFailure, match="unknown transfer_id: u"):
            ann.files.cancel("u")


# -- saving, events, closing -------------------------------------------------------------------


async def test_a_received_file_can_be_saved(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        path = ann.write("x", 5_000_000)
        sent = await ann.files.send_path(path, SendRequest())
        came = bob.files.get_received(sent.transfer_id)
        target = bob.folder / "new" / "x"
        assert await bob.files.save(came, str(target), overwrite=False) == (str(target), 5_000_000)
        assert target.read_bytes() == Path(path).read_bytes()
        with pytest.raises(ToolFailure, match="output exists"):
            await bob.files.save(came, str(target), overwrite=False)
        await bob.files.save(came, str(target), overwrite=True)
        with pytest.raises(ToolFailure, match="not below an allowed folder"):
            await bob.files.save(came, str(tmp_path / "x"), overwrite=False)


async def test_both_peers_emit_the_events_of_a_transfer(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        sent = await ann.files.send_data(
            b"abc" * 1000, SendRequest(transfer_id="t", name="n", mime="m", chunk_bytes=1024)
        )
        [offer], [received], [complete] = (
            end.listener.of(type)
            for end, type in (
                (bob, "file_offer_received"),
                (bob, "file_received"),
                (ann, "file_transfer_complete"),
            )
        )
        assert offer == {
            "type": "file_offer_received",
            "transfer_id": "t",
            "from_uuid": bob.uuid("ann"),
            "from_stream_id": "ann",
            "total_bytes": 3000,
            "total_chunks": 3,
            "next_seq": 0,
            "name": "n",
            "mime": "m",
        }
        assert received == {
            "type": "file_received",
            "transfer_id": "t",
            "from_uuid": bob.uuid("ann"),
            "from_stream_id": "ann",
            "name": "n",
            "mime": "m",
            "total_bytes": 3000,
            "file_hash": sent.file_hash,
            "spooled": False,
            "spool_path": None,
        }
        assert complete == {
            "type": "file_transfer_complete",
            "transfer_id": "t",
            "target_uuid": ann.uuid("bob"),
            "total_bytes": 3000,
            "total_chunks": 3,
            "retries_total": 0,
            "file_hash": sent.file_hash,
        }
        chunk = bob.listener.of("file_chunk_received")[-1]
        assert (chunk["seq"], chunk["next_seq"], chunk["received_bytes"], chunk["total_bytes"]) == (2, 3, 3000, 3000)


async def test_progress_increases_to_the_total(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, _):
        reports: list[tuple[int, int]] = []

        async def record_progress(done: int, total: int) -> None:
            reports.append((done, total))

        await ann.files.send_path(ann.write("x", 30_000_000), SendRequest(on_progress=record_progress))
        assert reports[-1] == (30_000_000, 30_000_000)
        assert [done for done, _ in reports] == sorted({done for done, _ in reports})
        assert len(reports) > 1


async def test_no_spool_files_are_left_when_a_session_ends(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path) as (ann, bob):
        await ann.files.send_path(ann.write("done", 5_000_000), SendRequest())
        task = await start_transfer(ann, ann.write("x", 30_000_000))
        assert list((bob.folder / "spool").rglob("incoming_*"))
        await bob.files.close()
        assert not list((bob.folder / "spool").rglob("*"))
        await ann.files.close()
        with pytest.raises(ToolFailure, match="the session was closed"):
            await task


async def test_finished_files_stay_if_keep_spool_files_is_set(tmp_path: Path) -> None:
    async with file_agent_pair(tmp_path, files={"keep_spool_files": True}) as (ann, bob):
        path = ann.write("done", 5_000_000)
        await ann.files.send_path(path, SendRequest())
        await bob.files.close()
        [kept] = (bob.folder / "spool").rglob("incoming_*")
        assert kept.read_bytes() == Path(path).read_bytes()
