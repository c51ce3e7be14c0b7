"""Files to and from peers that are not Hubbub: VDO.Ninja bridges with their quirks, and dishonest peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.files.file_agents import FileAgent, joined_file_room
from tests.packs.peers.files.scripted_vdo_bridge import (
    CHUNK,
    COMPLETE,
    DATA,
    TOTAL,
    VdoBridgeReceiver,
    chunk,
    digest,
    offer,
    with_vdo_bridge,
)

from hubbub import ToolFailure
from hubbub.packs.peers import limits
from hubbub.packs.peers.files.options import SendRequest

# -- from a VDO.Ninja bridge -----------------------------------------------------------


async def test_a_vdo_bridge_sends_a_file(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        assert await olga.request("file.offer", offer(), "file.accept") == {"transfer_id": "t", "next_seq": 0}
        for seq in range(TOTAL):
            ack = await olga.request("file.chunk", chunk(seq), "file.ack")
            assert (ack["seq"], ack["next_seq"]) == (seq, seq + 1)
        answer = await olga.request("file.complete", COMPLETE, "file.complete_ack")
        assert answer == {"transfer_id": "t", "file_hash": digest(DATA), "total_bytes": len(DATA)}
        assert bob.content(bob.files.get_received("t")) == DATA


async def test_repeated_bytes_of_a_vdo_bridge_under_a_new_seq_do_not_corrupt_the_file(tmp_path: Path) -> None:
    """After a lost ack it requests our state, and sends the bytes of its last chunk under the seq that we return."""
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", offer(), "file.accept")
        for seq in range(4):
            await olga.request("file.chunk", chunk(seq), "file.ack")
        state = await olga.request("file.resume_req", {"transfer_id": "t"}, "file.resume_state")
        held = DATA[3 * CHUNK : 4 * CHUNK]
        ack = await olga.request("file.chunk", chunk(state["next_seq"], held), "file.ack")
        for seq in range(ack["next_seq"], TOTAL):
            await olga.request("file.chunk", chunk(seq), "file.ack")
        await olga.request("file.complete", COMPLETE, "file.complete_ack")
        assert bob.content(bob.files.get_received("t")) == DATA


async def test_a_file_of_a_vdo_bridge_with_a_wrong_hash_is_never_complete(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", offer(file_hash="0" * 64), "file.accept")
        for seq in range(TOTAL):
            await olga.request("file.chunk", chunk(seq), "file.ack")
        nack = await olga.request("file.complete", {**COMPLETE, "file_hash": "0" * 64}, "file.nack")
        assert nack["reason"] == "file hash mismatch"
        state = await olga.request("file.resume_req", {"transfer_id": "t"}, "file.resume_state")
        assert (state["status"], state["next_seq"]) == ("failed", 0)
        assert not olga.received("file.complete_ack")
        with pytest.raises(ToolFailure, match="transfer not complete"):
            bob.files.get_received("t")
        assert bob.listener.of("file_transfer_failed")


async def test_a_vdo_bridge_can_cancel(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", offer(), "file.accept")
        olga.send("file.cancel", {"transfer_id": "t"})
        await bob.listener.until(lambda: bob.listener.of("file_transfer_cancelled"))
        assert bob.files.incoming[0].status == "cancelled"
        nack = await olga.request("file.chunk", chunk(0), "file.nack")
        assert nack["reason"] == "cancelled by the sender"


# -- to a VDO.Ninja bridge ---------------------------------------------------------------


async def test_a_vdo_bridge_receives_a_file(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        receiver = VdoBridgeReceiver(olga)
        path = bob.write("x", 1_000_001)
        sent = await bob.files.send_path(path, SendRequest(mime="text/plain"))
        assert sent.status == "completed"
        assert b"".join(data for _, data in sorted(receiver.chunks.items())) == Path(path).read_bytes()
        assert receiver.offer == {
            "transfer_id": sent.transfer_id,
            "name": "x",
            "mime": "text/plain",
            "total_bytes": 1_000_001,
            "total_chunks": 16,
            "chunk_bytes": 65_536,
            "file_hash": sent.file_hash,
        }
        assert len(olga.received("file.chunk")) == 16


async def test_chunks_are_limited_to_what_fits_into_a_frame(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        receiver = VdoBridgeReceiver(olga)
        sent = await bob.files.send_data(DATA * 2, SendRequest(chunk_bytes=262_144))
        assert sent.layout.chunk_bytes == (limits.PEER_FRAME_BYTES - limits.FILE_ENVELOPE_OVERHEAD_BYTES) // 4 * 3
        assert b"".join(data for _, data in sorted(receiver.chunks.items())) == DATA * 2


async def test_a_lost_ack_and_a_skipped_seq_do_not_corrupt_the_file(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        receiver, lost = VdoBridgeReceiver(olga), []
        answer = receiver.handle_envelope

        def drop_some_chunks(kind: str, payload: dict[str, Any]) -> None:
            if kind == "file.chunk" and payload["seq"] in (3, 7) and payload["seq"] not in lost:
                lost.append(payload["seq"])
            else:
                answer(kind, payload)

        olga.on_envelope = drop_some_chunks
        sent = await bob.files.send_data(DATA, SendRequest(chunk_bytes=CHUNK))
        assert (sent.status, lost) == ("completed", [3, 7])
        assert b"".join(data for _, data in sorted(receiver.chunks.items())) == DATA


@pytest.mark.parametrize("reason", ["file hash mismatch", "byte size mismatch expected=1 got=2"])
async def test_a_nack_of_the_complete_file_fails_the_transfer(reason: str, tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        receiver = VdoBridgeReceiver(olga)
        answer = receiver.handle_envelope

        def refuse_completion(kind: str, payload: dict[str, Any]) -> None:
            if kind == "file.complete":
                olga.send("file.nack", {"transfer_id": payload["transfer_id"], "expected_seq": 0, "reason": reason})
            else:
                answer(kind, payload)

        olga.on_envelope = refuse_completion
        with pytest.raises(ToolFailure, match=reason):
            await bob.files.send_data(DATA, SendRequest())
        assert bob.files.outgoing[0].status == "failed"
        assert not bob.listener.of("file_transfer_complete")


async def test_a_refused_offer_fails_at_once(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        refusal = "total_bytes must be 1..10"
        olga.on_envelope = lambda kind, payload: olga.send(
            "file.nack", {"transfer_id": payload["transfer_id"], "expected_seq": 0, "reason": f"{refusal}\ud800\n"}
        )
        with pytest.raises(ToolFailure, match=refusal) as failure:
            await bob.files.send_data(DATA, SendRequest())
        assert str(failure.value).isprintable()


# -- dishonest peers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ack",
    [
        {"seq": 0, "next_seq": TOTAL, "received_bytes": len(DATA)},
        {"seq": 0, "next_seq": 2**52, "received_bytes": 2**52},
        {"seq": 99, "next_seq": 0, "received_bytes": 0},
    ],
)
async def test_false_acks_do_not_complete_a_transfer(ack: dict[str, Any], tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path, files={"ack_timeout_s": 0.1, "max_retries": 2}) as (bob, olga):

        def send_false_replies(kind: str, payload: dict[str, Any]) -> None:
            name = {"transfer_id": payload["transfer_id"]}
            match kind:
                case "file.offer":
                    olga.send("file.accept", {**name, "next_seq": 0})
                case "file.chunk":
                    olga.send("file.ack", {**name, **ack})
                case "file.resume_req":
                    olga.send("file.resume_state", {**name, "next_seq": 0, "status": "receiving"})
                case "file.complete":
                    olga.send("file.complete_ack", {**name, "file_hash": "0" * 64, "total_bytes": 1})

        olga.on_envelope = send_false_replies
        with pytest.raises(ToolFailure):
            await bob.files.send_data(DATA, SendRequest(chunk_bytes=CHUNK))
        assert bob.files.outgoing[0].status == "failed"
        assert not bob.listener.of("file_transfer_complete")


async def test_a_transfer_fails_if_the_receiver_always_goes_back(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path, files={"ack_timeout_s": 0.1, "max_retries": 3}) as (bob, olga):
        receiver = VdoBridgeReceiver(olga)
        answer = receiver.handle_envelope

        def refuse_chunks(kind: str, payload: dict[str, Any]) -> None:
            name = payload["transfer_id"]
            if kind == "file.chunk":
                olga.send("file.nack", {"transfer_id": name, "expected_seq": 0, "reason": "chunk_hash_mismatch"})
            else:
                answer(kind, payload)

        olga.on_envelope = refuse_chunks
        with pytest.raises(ToolFailure, match="max retries exceeded at chunk 0"):
            await bob.files.send_data(DATA, SendRequest(chunk_bytes=CHUNK))
        assert len(olga.received("file.chunk")) < 10 * TOTAL


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"total_bytes": 0, "total_chunks": 0}, "total_bytes must be 1..67108864"),
        ({"total_bytes": 67_108_865, "total_chunks": 4097}, "total_bytes must be 1..67108864"),
        ({"total_bytes": 2**53 - 1}, "total_bytes must be 1..67108864"),
        ({"total_chunks": TOTAL + 1}, "invalid total_chunks"),
        ({"total_chunks": 2**52}, "invalid total_chunks"),
        ({"chunk_bytes": 0}, "invalid chunk_bytes"),
        ({"chunk_bytes": 1023}, "invalid chunk_bytes"),
        ({"chunk_bytes": 262_145}, "invalid chunk_bytes"),
        ({"transfer_id": "a b"}, "invalid transfer_id"),
        ({"transfer_id": "é" * 200}, "invalid transfer_id"),
        ({"file_hash": ""}, "invalid file_hash"),
        ({"file_hash": "xyz"}, "invalid file_hash"),
    ],
)
async def test_offers_with_invalid_sizes_ids_or_hashes_are_refused(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        nack = await olga.request("file.offer", offer(**changes), "file.nack")
        assert (nack["transfer_id"], nack["reason"]) == (offer(**changes)["transfer_id"], reason)
        [event] = bob.listener.of("file_offer_rejected")
        assert event["reason"] == reason
        assert not bob.files.incoming


async def test_unfinished_offers_are_limited(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        for number in range(300):
            olga.send("file.offer", offer(transfer_id=f"t{number}", total_bytes=67_000_000, total_chunks=4090))
        await olga.until(lambda: len(olga.received("file.nack")) + len(olga.received("file.accept")) == 300)
        assert len(bob.files.incoming) <= limits.FILE_QUOTA_FILES
        assert {nack["reason"] for nack in olga.received("file.nack")} == {"the receiver's quota for files is used up"}
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        for number in range(300):
            olga.send("file.offer", offer(transfer_id=f"t{number}"))
        await olga.until(lambda: len(olga.received("file.nack")) + len(olga.received("file.accept")) == 300)
        assert len(bob.files.incoming) == limits.FILE_INCOMING_PER_PEER
        assert {nack["reason"] for nack in olga.received("file.nack")} == {
            "the receiver has 8 unfinished transfers of this peer already"
        }


async def test_the_oldest_finished_files_are_dropped_at_the_limit(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        data = b"x" * 2000
        for number in range(30):
            name = {"transfer_id": f"t{number}"}
            small = offer(**name, total_bytes=2000, total_chunks=1, file_hash=digest(data))
            await olga.request("file.offer", small, "file.accept")
            await olga.request("file.chunk", chunk(0, data, **name), "file.ack")
        await bob.listener.until(lambda: len(bob.listener.of("file_received")) == 30)
        assert [each.transfer_id for each in bob.files.incoming] == [f"t{number}" for number in range(18, 30)]


async def test_a_peer_cannot_change_the_transfer_of_another(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", offer(), "file.accept")
        ann = FileAgent(bob.mesh.options.host, "ann", tmp_path)
        async with joined_file_room(ann):
            await ann.wait_for_peers("bob")
            await bob.wait_for_peers("ann")
            for kind, payload in (
                ("file.chunk", chunk(0, b"x" * CHUNK)),
                ("file.complete", {**COMPLETE, "file_hash": "0" * 64}),
                ("file.cancel", {"transfer_id": "t"}),
                ("file.offer", offer(file_hash="1" * 64)),
            ):
                ann.mesh.send_envelope(kind, payload, to="bob")
            await ann.listener.until(lambda: len(ann.received_payloads("file.nack")) == 3)
            assert {nack["reason"] for nack in ann.received_payloads("file.nack")} == {
                "unknown_transfer",
                "transfer_id is in use",
            }
            [transfer] = bob.files.incoming
            assert (transfer.status, transfer.chunk_map.count, transfer.peer_stream_id) == ("receiving", 0, "olga")


async def test_a_finished_file_is_not_replaced_by_another_with_the_same_id(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        data = b"x" * 2000
        small = offer(total_bytes=2000, total_chunks=1, file_hash=digest(data))
        await olga.request("file.offer", small, "file.accept")
        await olga.request("file.chunk", chunk(0, data), "file.ack")
        await bob.listener.until(lambda: bob.listener.of("file_received"))
        nack = await olga.request("file.offer", offer(), "file.nack")
        assert nack["reason"] == "transfer_id was used for another file"
        accept = await olga.request("file.offer", small, "file.accept")
        assert accept["next_seq"] == 1
        assert bob.content(bob.files.get_received("t")) == data


async def test_unexpected_replies_are_reported(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        olga.send("file.accept", {"transfer_id": "who", "next_seq": 0})
        await bob.listener.until(lambda: bob.listener.of("file_protocol_unhandled"))
        assert bob.listener.of("file_protocol_unhandled")[0]["kind"] == "file.accept"
