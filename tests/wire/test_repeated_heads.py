"""A head that is repeated on a connection is not parsed again, which must not change what the server does."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.byte_client import LoopRunner, Received, open_loop_runner, send_pieces
from tests.wire.recording_server import RecordingServer, SeenRequest, run_recording_server
from tests.wire.request_bytes import CLOSE, HOST, get, length, read_statuses, request

from hubbub.transports import request_heads
from hubbub.transports.request_heads import HeadTemplate

LAST = get(b"/last", CLOSE)
PARTIAL_HEAD = b"GET /x HTTP/1.1\r\nX: "
QUIET = 15
"""Iterations of the loop within which a request is answered."""


def post(body: bytes, tag: bytes = b"a") -> bytes:
    return request(b"POST /echo HTTP/1.1", HOST, b"X-Tag: " + tag, length(body), body=body)


@pytest.fixture
def matches(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies of the requests whose head was not parsed."""
    found = []
    original = HeadTemplate.match

    def match(template: HeadTemplate, data: bytes) -> bytes | None:
        body = original(template, data)
        if body is not None:
            found.append(body)
        return body

    monkeypatch.setattr(HeadTemplate, "match", match)
    return found


async def send_and_settle(server: RecordingServer, pieces: list[bytes]) -> bytes:
    """Send each piece after the answers to those before it; return what came back."""
    client = await server.connect()
    for piece in pieces:
        client.transport.write(piece)
        await client.settle()
    return bytes(client.received)


async def test_requests_with_a_repeated_head_are_served_with_their_own_bodies(matches: list[bytes]) -> None:
    bodies = [b"1", b"two", b"3", b"x" * 5000, b"", b"6"]
    async with run_recording_server() as server:
        received = await send_and_settle(server, [post(body) for body in bodies])
        assert read_statuses(received) == [200] * len(bodies)
        assert [seen.body for seen in server.seen] == bodies
    assert matches == bodies[-len(matches) :]
    assert matches


async def test_a_large_request_that_arrives_at_once_is_not_parsed(matches: list[bytes]) -> None:
    """Also if it is larger than the pieces in which other data is parsed, or than the limit of bodies."""
    bodies = [b"1", b"2", b"3", b"x" * 9000, b"4", b"y" * 11000, b"5"]
    async with run_recording_server(head_bytes=4000, message_bytes=10_000) as server:
        received = await send_and_settle(server, [post(body) for body in bodies])
        assert read_statuses(received) == [200] * 5 + [413, 200]
        assert [seen.body for seen in server.seen] == [body for body in bodies if len(body) <= 10_000]
    assert matches == bodies[-len(matches) :]
    assert len(matches) > 4


@pytest.mark.parametrize("size", [0, 1, 8, 9, 10, 11, 98, 99, 100, 101, 102, 998, 999, 1000, 1001, 9999, 10000])
def test_only_the_length_of_the_body_itself_matches(size: int) -> None:
    body, head = b"x" * size, request_heads.read_head((b"POST", b"/echo", "1.1"), {b"host": b"127.0.0.1"}, None)
    assert isinstance(head, request_heads.RequestHead)
    template = request_heads.make_template(post(b"12345"), 5, head)
    assert template is not None
    assert template.match(post(body)) == body
    for wrong in (b"%d" % (size - 1), b"%d" % (size + 1), b"0%d" % size, b"+%d" % size, b" %d" % size, b""):
        data = post(body).replace(length(body), b"Content-Length: " + wrong)
        assert template.match(data) is None
    assert template.match(post(body)[:-1]) is None
    assert template.match(post(body, tag=b"b")) is None


@pytest.mark.parametrize("in_one_write", [True, False])
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["nothing after it", "an empty line after it"])
async def test_a_request_within_the_head_of_another_is_not_served(
    matches: list[bytes], end: bytes, in_one_write: bool
) -> None:
    """A header value may look like a request: that one is part of the head which was begun before."""
    inner = [post(b"SMUGGLED") + end] if in_one_write else [post(b"SMUGGLED"), end]
    async with run_recording_server() as server:
        begun = post(b"5") + PARTIAL_HEAD
        received = await send_and_settle(server, [*map(post, (b"1", b"2", b"3", b"4")), begun, *inner, LAST])
        assert [(seen.method, seen.path, seen.body) for seen in server.seen] == [
            *(("POST", "/echo", body) for body in (b"1", b"2", b"3", b"4", b"5")),
            ("GET", "/x", b"SMUGGLED"),
            *([] if end else [("GET", "/last", b"")]),
        ]
        assert read_statuses(received) == [200] * 6 + [400 if end else 200]
    assert b"4" in matches, "the head was not repeated often enough"
    assert b"SMUGGLED" not in matches


@pytest.mark.parametrize("stray", [b"\r\n", b"\r", b"\n", b" "])
@pytest.mark.parametrize("in_one_write", [True, False])
async def test_bytes_before_a_request_are_refused_whatever_came_before(
    matches: list[bytes], stray: bytes, in_one_write: bool
) -> None:
    async with run_recording_server() as server:
        last = [stray + post(b"4")] if in_one_write else [stray, post(b"4")]
        received = await send_and_settle(server, [*map(post, (b"1", b"2", b"3")), *last, LAST])
        assert [seen.body for seen in server.seen] == [b"1", b"2", b"3"]
        assert read_statuses(received) == [200] * 3 + [400]
    assert b"3" in matches, "the head was not repeated often enough"


# -- any sequence ------------------------------------------------------------------------------


class Step(NamedTuple):
    """A request, and how it is written."""

    data: bytes
    cuts: list[int]
    """Where the data is cut, modulo its length."""
    is_joined: bool
    """Whether the next request begins in the same write."""


class Outcome(NamedTuple):
    """The answers on one connection, and the requests that were served."""

    received: bytes
    is_closed: bool
    seen: list[SeenRequest]


class StepSender(NamedTuple):
    """Sends sequences of requests to our server."""

    loop_runner: LoopRunner
    server: RecordingServer

    def send(self, pieces: list[bytes]) -> Outcome:
        self.server.seen.clear()
        received: Received = self.loop_runner.run(send_pieces(self.server.site.port, pieces, QUIET))
        return Outcome(received.answers, received.is_closed, list(self.server.seen))


@pytest.fixture(scope="module")
def sender() -> Iterator[StepSender]:
    for loop_runner in open_loop_runner():
        stack = AsyncExitStack()
        server = loop_runner.run(stack.enter_async_context(run_recording_server(message_bytes=500)))
        yield StepSender(loop_runner, server)
        loop_runner.run(stack.aclose())


def encode_pieces(steps: list[Step]) -> list[bytes]:
    """Cut the requests into pieces: at their ends, unless they are joined, and where they say."""
    data, ends = b"", set()
    for step in steps:
        ends |= {len(data) + cut % len(step.data) for cut in step.cuts}
        data += step.data
        if not step.is_joined:
            ends.add(len(data))
    return [data[start:end] for start, end in pairwise(sorted({0, *ends, len(data)}))]


BODIES = st.binary(max_size=20) | st.sampled_from([b"x" * 501, post(b"inner"), b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
POSTS = st.builds(post, BODIES)
OTHERS = st.builds(post, BODIES, st.sampled_from([b"b", b"aa", b""])) | st.sampled_from([get(b"/a"), get(b"/echo")])
BEGUN = st.builds(lambda body: post(body) + PARTIAL_HEAD, BODIES)
"""Continues with the next request, which is not one then."""
STRAY = st.sampled_from([b"\r\n", b"\r", b"\n", b" ", b"\0"])
"""Bytes between requests, which are refused."""
CUTS: st.SearchStrategy[list[int]] = st.just([]) | st.lists(st.integers(0, 10**6), min_size=1, max_size=3)
STEPS = st.lists(
    st.builds(Step, POSTS | POSTS | POSTS | OTHERS | BEGUN | STRAY, CUTS, st.sampled_from([False, False, False, True])),
    min_size=3,
    max_size=8,
)
REPEATED = [Step(post(b"%d" % number), [], False) for number in range(3)]
"""So many that the next equal head is not parsed."""


@given(st.sampled_from([[], REPEATED]), STEPS)
@settings(max_examples=150)
def test_a_repeated_head_gets_the_same_answers_as_a_parsed_one(
    sender: StepSender, start: list[Step], steps: list[Step]
) -> None:
    pieces = [*encode_pieces(start + steps), LAST]
    with patch.object(request_heads, "make_template", return_value=None):
        parsed = sender.send(pieces)
    assert sender.send(pieces) == parsed
