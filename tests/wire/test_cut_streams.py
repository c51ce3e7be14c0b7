"""The answers to a stream of requests do not depend on how it is cut into packets."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.byte_client import LoopRunner, Received, open_loop_runner, send_pieces
from tests.wire.drafts import MUTATIONS, Draft, Mutation
from tests.wire.recording_server import RecordingServer, SeenRequest, run_recording_server
from tests.wire.request_bytes import read_statuses
from tests.wire.streams import LAST, SHORT_CHUNKED_BODY, SHORT_CHUNKED_HEAD, SHORT_FIXED, STREAMS, Stream
from tests.wire.test_differential import DRAFTS

from hubbub.transports.http_server import new_event_loop


class Outcome(NamedTuple):
    """The answers on one connection, and the requests that were served."""

    answers: bytes
    is_closed: bool
    seen: list[SeenRequest]


class PieceSender(NamedTuple):
    """Sends streams to our server, in pieces."""

    loop_runner: LoopRunner
    server: RecordingServer

    def send(self, data: bytes, cuts: tuple[int, ...] = ()) -> Outcome:
        """Send the bytes in pieces that end at these positions."""
        self.server.seen.clear()
        pieces = [data[start:end] for start, end in pairwise((0, *cuts, len(data)))]
        sending = send_pieces(self.server.site.port, [piece for piece in pieces if piece])
        received: Received = self.loop_runner.run(sending)
        return Outcome(received.answers, received.is_closed, list(self.server.seen))


def open_sender(loop_runner: LoopRunner) -> Iterator[PieceSender]:
    stack = AsyncExitStack()
    server = loop_runner.run(stack.enter_async_context(run_recording_server(message_bytes=500)))
    yield PieceSender(loop_runner, server)
    loop_runner.run(stack.aclose())


@pytest.fixture(scope="module")
def sender() -> Iterator[PieceSender]:
    for loop_runner in open_loop_runner():
        yield from open_sender(loop_runner)


@pytest.fixture(scope="module")
def served_sender() -> Iterator[PieceSender]:
    """The same in the event loop of `hubbub serve`, which is uvloop where it is installed."""
    for loop_runner in open_loop_runner(new_event_loop):
        yield from open_sender(loop_runner)


@pytest.mark.parametrize("fixture", ["sender", "served_sender"])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_one_cut_at_every_position_changes_no_answer(
    request: pytest.FixtureRequest, fixture: str, stream: Stream
) -> None:
    sender: PieceSender = request.getfixturevalue(fixture)
    whole = sender.send(stream.data)
    assert whole.is_closed
    assert whole.seen
    for cut in range(1, len(stream.data)):
        assert sender.send(stream.data, (cut,)) == whole, stream.data[:cut]


@pytest.mark.parametrize(
    ("head", "rest", "body"),
    [(b"", SHORT_FIXED, b"hi"), (SHORT_CHUNKED_HEAD, SHORT_CHUNKED_BODY, b"x\r\n")],
    ids=["fixed", "chunked"],
)
def test_two_cuts_at_all_positions_change_no_answer(sender: PieceSender, head: bytes, rest: bytes, body: bytes) -> None:
    whole = sender.send(head + rest)
    assert (whole.is_closed, [request.body for request in whole.seen]) == (True, [body])
    for cuts in combinations(range(len(head) + 1, len(head) + len(rest)), 2):
        assert sender.send(head + rest, cuts) == whole, cuts


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_single_bytes_change_no_answer(sender: PieceSender, stream: Stream) -> None:
    assert sender.send(stream.data, tuple(range(1, len(stream.data)))) == sender.send(stream.data)


def change(draft: Draft, mutation: Mutation | None) -> Draft:
    return draft if mutation is None else mutation.apply(draft)


CHANGED_DRAFTS = st.builds(change, DRAFTS, st.none() | st.sampled_from(MUTATIONS))


CUTS = st.lists(st.integers(0, 10**6), min_size=2, max_size=12)


@given(st.lists(DRAFTS, min_size=1, max_size=4), CUTS)
@settings(max_examples=300)
def test_random_cuts_change_no_answer(sender: PieceSender, drafts: list[Draft], cuts: list[int]) -> None:
    data = b"".join(draft.encode() for draft in drafts) + LAST
    assert sender.send(data, tuple(sorted(cut % len(data) for cut in cuts))) == sender.send(data)


def summarize(outcome: Outcome) -> tuple[list[int], bool, list[SeenRequest]]:
    """Return an outcome without texts: of two mistakes in one request, the one that arrives first is reported."""
    return read_statuses(outcome.answers), outcome.is_closed, outcome.seen


@given(st.lists(CHANGED_DRAFTS, min_size=1, max_size=4), CUTS)
@settings(max_examples=600)
def test_random_cuts_of_invalid_requests_change_no_status(
    sender: PieceSender, drafts: list[Draft], cuts: list[int]
) -> None:
    data = b"".join(draft.encode() for draft in drafts) + LAST
    cut = sender.send(data, tuple(sorted(cut % len(data) for cut in cuts)))
    assert summarize(cut) == summarize(sender.send(data))


@given(CHANGED_DRAFTS.filter(lambda draft: len(draft.encode()) < 300))
@settings(max_examples=25)
def test_a_generated_request_may_be_cut_at_every_position(sender: PieceSender, draft: Draft) -> None:
    data = draft.encode() + LAST
    whole = summarize(sender.send(data))
    positions = range(1, len(data))
    for cuts in (*((position,) for position in positions), tuple(positions)):
        assert summarize(sender.send(data, cuts)) == whole, cuts


def test_the_answers_of_every_stream_are_those_of_its_requests(sender: PieceSender) -> None:
    statuses = {stream.name: read_statuses(sender.send(stream.data).answers) for stream in STREAMS}
    assert statuses == {
        "fixed body": [200, 200],
        "chunked body with trailers": [200, 200],
        "pipelined": [200] * 5,
        "expect": [200, 200, 200],
        "HTTP/1.0 with keep-alive": [200],
        "upgrade that is ignored": [200],
        "malformed second request": [200, 400],
        "malformed chunk": [200, 400],
        "long chunk size": [200, 400],
        "line end between requests": [200, 200, 200, 400],
        "too large": [200, 413],
    }
