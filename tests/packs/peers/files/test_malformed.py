"""File messages with missing or malformed fields: accepted where possible, else answered with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.files.scripted_vdo_bridge import (
    CHUNK,
    COMPLETE,
    DATA,
    TOTAL,
    VdoBridgeReceiver,
    chunk,
    offer,
    with_vdo_bridge,
)

from hubbub.packs.peers.files.options import SendRequest


def without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


@pytest.mark.parametrize(
    "first", [offer(name=None, mime=None), without(offer(), "name", "mime")], ids=["null", "left out"]
)
async def test_a_vdo_bridge_can_send_a_file_without_a_name(first: dict[str, Any], tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", first, "file.accept")
        for seq in range(TOTAL):
            await olga.request("file.chunk", chunk(seq), "file.ack")
        await olga.request("file.complete", COMPLETE, "file.complete_ack")
        received = bob.files.get_received("t")
        assert (received.name, received.mime) == ("file.bin", "application/octet-stream")
        assert bob.content(received) == DATA
        [event] = bob.listener.of("file_offer_received")
        assert event["name"] == "file.bin"


@pytest.mark.parametrize(
    "wrong",
    [
        offer(name=5),
        offer(mime=["text/plain"]),
        offer(total_bytes=None),
        offer(total_bytes="200000"),
        offer(total_chunks=-1),
        offer(chunk_bytes=1.5),
        offer(file_hash=None),
        offer(file_hash=7),
        offer(transfer_id="t" * 300),
        {"transfer_id": "t"},
    ],
)
async def test_a_malformed_offer_is_answered_with_a_nack_and_reported(wrong: dict[str, Any], tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        nack = await olga.request("file.offer", wrong, "file.nack")
        assert (nack["transfer_id"], nack["expected_seq"]) == (wrong["transfer_id"], 0)
        [event] = bob.listener.of("file_offer_rejected")
        assert event["reason"] == nack["reason"]
        assert nack["reason"].startswith("invalid ")
        assert len(event["transfer_id"]) <= 256
        assert not bob.files.incoming
        await olga.request("file.offer", offer(transfer_id="next"), "file.accept")


async def test_malformed_chunks_are_answered_with_a_nack_and_change_nothing(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        await olga.request("file.offer", offer(), "file.accept")
        await olga.request("file.chunk", chunk(0), "file.ack")
        for wrong in (
            chunk(1, data_base64=None),
            chunk(1, data_base64=5),
            {**chunk(1), "seq": None},
            {**chunk(1), "seq": "1"},
            {**chunk(1), "seq": -1},
            chunk(1, data_base64="%"),
            chunk(1, DATA[: CHUNK + 1]),
            chunk(1, DATA[: CHUNK - 1]),
            chunk(1, b""),
            chunk(1, chunk_hash="0" * 64),
            chunk(TOTAL),
        ):
            nack = await olga.request("file.chunk", wrong, "file.nack")
            assert nack["expected_seq"] == 1
        assert len(bob.listener.of("file_chunk_rejected")) == 11
        assert (await olga.request("file.chunk", chunk(1, chunk_hash=None), "file.ack"))["next_seq"] == 2
        for seq in (5, 4, 3, 5, 2, *range(2, TOTAL)):
            await olga.request("file.chunk", chunk(seq), "file.ack")
        await olga.request("file.complete", COMPLETE, "file.complete_ack")
        assert bob.content(bob.files.get_received("t")) == DATA


async def test_replies_of_a_vdo_bridge_may_contain_null(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        receiver = VdoBridgeReceiver(olga)
        answer = receiver.handle_envelope

        def accept_with_null(kind: str, payload: dict[str, Any]) -> None:
            if kind == "file.offer":
                receiver.offer = payload
                olga.send("file.accept", {"transfer_id": payload["transfer_id"], "next_seq": None})
            else:
                answer(kind, payload)

        olga.on_envelope = accept_with_null
        assert (await bob.files.send_data(DATA, SendRequest())).status == "completed"


async def test_other_malformed_file_messages_are_reported(tmp_path: Path) -> None:
    async with with_vdo_bridge(tmp_path) as (bob, olga):
        olga.send("file.complete", {"transfer_id": "t", "total_bytes": "all"})
        await bob.listener.until(lambda: bob.listener.of("file_protocol_error"))
        [event] = bob.listener.of("file_protocol_error")
        assert (event["reason"], event["kind"]) == ("invalid_payload", "file.complete")
