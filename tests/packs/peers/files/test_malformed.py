"""Messages about files that lack something or have the wrong form: taken where they can be, answered where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.files.original import CHUNK, COMPLETE, DATA, TOTAL, Keeper, beside_original, chunk, offer

from hubbub.packs.peers.files.options import Sending


def without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


@pytest.mark.parametrize(
    "first", [offer(name=None, mime=None), without(offer(), "name", "mime")], ids=["null", "left out"]
)
async def test_an_original_sends_a_file_without_a_name(first: dict[str, Any], tmp_path: Path) -> None:
    async with beside_original(tmp_path) as (bob, olga):
        await olga.ask("file.offer", first, "file.accept")
        for seq in range(TOTAL):
            await olga.ask("file.chunk", chunk(seq), "file.ack")
        await olga.ask("file.complete", COMPLETE, "file.complete_ack")
        received = bob.files.received("t")
        assert (received.name, received.mime) == ("file.bin", "application/octet-stream")
        assert bob.content(received) == DATA
        [event] = bob.notes.of("file_offer_received")
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
async def test_every_offer_that_cannot_be_taken_is_answered_and_told(wrong: dict[str, Any], tmp_path: Path) -> None:
    async with beside_original(tmp_path) as (bob, olga):
        nack = await olga.ask("file.offer", wrong, "file.nack")
        assert (nack["transfer_id"], nack["expected_seq"]) == (wrong["transfer_id"], 0)
        [event] = bob.notes.of("file_offer_rejected")
        assert event["reason"] == nack["reason"]
        assert nack["reason"].startswith("invalid ")
        assert len(event["transfer_id"]) <= 256
        assert not bob.files.incoming
        await olga.ask("file.offer", offer(transfer_id="next"), "file.accept")


async def test_chunks_of_the_wrong_form_are_answered_and_spoil_nothing(tmp_path: Path) -> None:
    async with beside_original(tmp_path) as (bob, olga):
        await olga.ask("file.offer", offer(), "file.accept")
        await olga.ask("file.chunk", chunk(0), "file.ack")
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
            nack = await olga.ask("file.chunk", wrong, "file.nack")
            assert nack["expected_seq"] == 1
        assert len(bob.notes.of("file_chunk_rejected")) == 11
        assert (await olga.ask("file.chunk", chunk(1, chunk_hash=None), "file.ack"))["next_seq"] == 2
        for seq in (5, 4, 3, 5, 2, *range(2, TOTAL)):
            await olga.ask("file.chunk", chunk(seq), "file.ack")
        await olga.ask("file.complete", COMPLETE, "file.complete_ack")
        assert bob.content(bob.files.received("t")) == DATA


async def test_answers_of_an_original_may_say_null(tmp_path: Path) -> None:
    async with beside_original(tmp_path) as (bob, olga):
        keeper = Keeper(olga)
        answer = keeper.answer

        def tersely(kind: str, payload: dict[str, Any]) -> None:
            if kind == "file.offer":
                keeper.offer = payload
                olga.say("file.accept", {"transfer_id": payload["transfer_id"], "next_seq": None})
            else:
                answer(kind, payload)

        olga.answers = tersely
        assert (await bob.files.send_data(DATA, Sending())).status == "completed"


async def test_other_messages_of_the_wrong_form_are_told(tmp_path: Path) -> None:
    async with beside_original(tmp_path) as (bob, olga):
        olga.say("file.complete", {"transfer_id": "t", "total_bytes": "all"})
        await bob.notes.until(lambda: bob.notes.of("file_protocol_error"))
        [event] = bob.notes.of("file_protocol_error")
        assert (event["reason"], event["kind"]) == ("invalid_payload", "file.complete")
