"""Binary frames of chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.peers.files.frames import header_size, read_frame, write_frame

IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=128)


@given(IDS, st.integers(0, 2**53), st.binary(min_size=1, max_size=100))
def test_a_frame_round_trips(transfer_id: str, seq: int, data: bytes) -> None:
    written = write_frame(transfer_id, seq, data)
    assert len(written) == header_size(transfer_id) + len(data)
    frame = read_frame(written)
    assert frame is not None
    assert (frame.transfer_id, frame.seq, bytes(frame.data)) == (transfer_id, seq, data)


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_a_frame_or_none(data: bytes) -> None:
    frame = read_frame(data)
    if frame is not None:
        assert write_frame(frame.transfer_id, frame.seq, frame.data) == data


def test_a_frame_without_data_is_none() -> None:
    assert read_frame(write_frame("a", 0, b"")) is None
