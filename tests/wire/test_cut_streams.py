"""However a stream of requests is cut into packets, its answers are the same."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.byte_client import Lab, Received, open_lab, send_pieces
from tests.wire.recording_server import RecordingServer, SeenRequest, run_recording_server
from tests.wire.request_bytes import read_statuses
from tests.wire.streams import LAST, SHORT_CHUNKED_BODY, SHORT_CHUNKED_HEAD, SHORT_FIXED, STREAMS, Stream
from tests.wire.test_differential import DRAFTS


class Outcome(NamedTuple):
    """The answers on one connection, and the requests that were served."""

    answers: bytes
    is_closed: bool
    seen: list[SeenRequest]


class Cutter(NamedTuple):
    """Our server in a loop."""

    lab: Lab
    server: RecordingServer

    def send(self, data: bytes, cuts: tuple[int, ...] = ()) -> Outcome:
        """Send the bytes in pieces that end at these positions."""
        self.server.seen.clear()
        pieces = [data[start:end] for start, end in pairwise((0, *cuts, len(data)))]
        received: Received = self.lab.run(send_pieces(self.server.site.port, [piece for piece in pieces if piece]))
        return Outcome(received.answers, received.is_closed, list(self.server.seen))


@pytest.fixture(scope="module")
def cutter() -> Iterator[Cutter]:
    for lab in open_lab():
        stack = AsyncExitStack()
        yield Cutter(lab, lab.run(stack.enter_async_context(run_recording_server(message_bytes=500))))
        lab.run(stack.aclose())


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_one_cut_at_every_position_changes_no_answer(cutter: Cutter, stream: Stream) -> None:
    whole = cutter.send(stream.data)
    assert whole.is_closed
    assert whole.seen
    for cut in range(1, len(stream.data)):
        assert cutter.send(stream.data, (cut,)) == whole, stream.data[:cut]


@pytest.mark.parametrize(
    ("head", "rest", "body"),
    [(b"", SHORT_FIXED, b"hi"), (SHORT_CHUNKED_HEAD, SHORT_CHUNKED_BODY, b"x\r\n")],
    ids=["fixed", "chunked"],
)
def test_two_cuts_at_all_positions_change_no_answer(cutter: Cutter, head: bytes, rest: bytes, body: bytes) -> None:
    whole = cutter.send(head + rest)
    assert (whole.is_closed, [request.body for request in whole.seen]) == (True, [body])
    for cuts in combinations(range(len(head) + 1, len(head) + len(rest)), 2):
        assert cutter.send(head + rest, cuts) == whole, cuts


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_single_bytes_change_no_answer(cutter: Cutter, stream: Stream) -> None:
    assert cutter.send(stream.data, tuple(range(1, len(stream.data)))) == cutter.send(stream.data)


@given(st.lists(DRAFTS, min_size=1, max_size=4), st.lists(st.integers(0, 10**6), min_size=2, max_size=12))
@settings(max_examples=300)
def test_random_cuts_change_no_answer(cutter: Cutter, drafts: list[object], cuts: list[int]) -> None:
    data = b"".join(draft.encode() for draft in drafts) + LAST  # type: ignore[attr-defined]
    assert cutter.send(data, tuple(sorted(cut % len(data) for cut in cuts))) == cutter.send(data)


def test_the_answers_of_every_stream_are_those_of_its_requests(cutter: Cutter) -> None:
    statuses = {stream.name: read_statuses(cutter.send(stream.data).answers) for stream in STREAMS}
    assert statuses.pop("HTTP/1.0 kept alive") in ([200], [200, 200])  # a server need not keep it alive
    assert statuses == {
        "fixed body": [200, 200],
        "chunked body with trailers": [200, 200],
        "pipelined": [200] * 5,
        "expect": [200, 200, 200],
        "upgrade that is ignored": [200],
        "malformed second request": [200, 400],
        "malformed chunk": [200, 400],
        "too large": [200, 413],
    }
