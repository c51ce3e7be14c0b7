"""The map of received chunks: any order, loss and repetition."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.peers.files.chunk_map import ChunkLayout, ChunkMap, read_spans

SIZES = st.tuples(st.integers(1, 400), st.integers(1, 16))


@given(SIZES)
def test_chunks_cover_a_file_exactly(size: tuple[int, int]) -> None:
    layout = ChunkLayout(*size)
    assert sum(layout.size(seq, seq + 1) for seq in range(layout.total_chunks)) == size[0]
    assert all(0 < layout.size(seq, seq + 1) <= size[1] for seq in range(layout.total_chunks))


@given(SIZES, st.integers(-2, 500), st.integers(-2, 500))
def test_only_runs_of_whole_chunks_have_an_end(size: tuple[int, int], first: int, count: int) -> None:
    layout = ChunkLayout(*size)
    whole = [
        last for last in range(first + 1, layout.total_chunks + 1) if first >= 0 and layout.size(first, last) == count
    ]
    assert layout.end_chunk(first, count) == (whole[0] if whole else None)


@given(SIZES, st.lists(st.tuples(st.integers(0, 399), st.integers(1, 6)), max_size=80))
def test_the_chunk_map_knows_received_and_missing_chunks_in_any_order(
    size: tuple[int, int], runs: list[tuple[int, int]]
) -> None:
    layout = ChunkLayout(*size)
    parts, here = ChunkMap(layout), set[int]()
    for start, length in runs:
        first = start % layout.total_chunks
        last = min(first + length, layout.total_chunks)
        new = [seq for span in parts.add(first, last) for seq in range(*span)]
        assert new == [seq for seq in range(first, last) if seq not in here]
        here.update(new)
        missing = [seq for seq in range(layout.total_chunks) if seq not in here]
        assert parts.next_seq == (missing[0] if missing else layout.total_chunks)
        assert (parts.count, parts.is_complete, parts.highest) == (len(here), not missing, max(here))
        assert parts.bytes == sum(layout.size(seq, seq + 1) for seq in here)
        assert [seq for gap in parts.gaps(1000) for seq in range(*gap)] == missing
        few = parts.gaps(2)
        assert len(few) <= 2
        assert {seq for gap in few for seq in range(*gap)} >= set(missing)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 50) | st.text(max_size=3), lambda inner: st.lists(inner, max_size=4)
)


@given(JSON)
def test_gaps_from_a_peer_are_sorted_and_within_the_file(value: Any) -> None:
    spans = read_spans(value, 40)
    if spans is not None:
        flat = [edge for span in spans for edge in span]
        assert flat == sorted(flat)
        assert all(0 <= first < last <= 40 for first, last in spans)


def test_gaps_round_trip() -> None:
    parts = ChunkMap(ChunkLayout(100, 10))
    parts.add(0, 2)
    parts.add(5, 6)
    assert read_spans([list(gap) for gap in parts.gaps(64)], 10) == [(2, 5), (6, 10)]
