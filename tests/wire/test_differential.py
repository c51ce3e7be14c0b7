"""Our server, uvicorn and h11 get the same bytes: we see the same requests or refuse, or the difference is listed."""

import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.byte_client import LoopRunner, open_loop_runner, send_pieces
from tests.wire.differences import (
    BY_MUTATION,
    DIFFERENCES,
    LAST,
    OTHER,
    PAGE,
    REFUSED,
    SERVED,
    Difference,
    fill_page,
    is_laxer,
)
from tests.wire.drafts import BY_NAME, MUTATIONS, Draft, Mutation
from tests.wire.recording_server import REFUSED_REQUEST, RecordingServer, SeenRequest, run_recording_server
from tests.wire.references import UvicornReference, parse_with_h11, parse_with_httptools, run_uvicorn

END = b"GET /end HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class Readings(NamedTuple):
    """The requests that each server saw in the same bytes."""

    ours: list[SeenRequest]
    uvicorn: list[SeenRequest]
    h11: list[SeenRequest]


class Servers(NamedTuple):
    """Our server and uvicorn in one event loop."""

    loop_runner: LoopRunner
    ours: RecordingServer
    uvicorn: UvicornReference

    def read(self, data: bytes) -> Readings:
        """Send the same bytes to all."""
        self.ours.seen.clear()
        self.uvicorn.seen.clear()
        self.loop_runner.run(send_pieces(self.ours.site.port, [data]))
        self.loop_runner.run(send_pieces(self.uvicorn.port, [data]))
        ours = [*self.ours.seen, REFUSED_REQUEST]
        return Readings(ours[: ours.index(REFUSED_REQUEST)], list(self.uvicorn.seen), parse_with_h11(data))

    def read_all(self, data: bytes) -> Readings:
        """Do the same, with the requests that uvicorn drops because an error follows them."""
        readings, parsed = self.read(data), parse_with_httptools(data)
        return readings._replace(uvicorn=parsed) if starts_with(parsed, readings.uvicorn) else readings


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    for loop_runner in open_loop_runner():
        stack = AsyncExitStack()
        ours = loop_runner.run(stack.enter_async_context(run_recording_server()))
        uvicorn = loop_runner.run(stack.enter_async_context(run_uvicorn()))
        yield Servers(loop_runner, ours, uvicorn)
        loop_runner.run(stack.aclose())


def name_outcome(seen: list[SeenRequest], ours: list[SeenRequest]) -> str:
    """Name what happened to the first of two requests, compared with what our server saw."""
    if seen and ours and seen[0] != ours[0]:
        return OTHER
    return (REFUSED, LAST, SERVED)[len(seen)]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_difference_is_listed_and_no_other(servers: Servers, mutation: Mutation) -> None:
    readings = servers.read(mutation.apply(Draft()).encode() + END)
    outcomes = tuple(name_outcome(seen, readings.ours) for seen in readings)
    listed = BY_MUTATION.get(mutation.name)
    if len(set(outcomes)) == 1:
        assert listed is None, f"no difference any more: {outcomes}"
    else:
        assert listed is not None, f"not listed: {outcomes}, {readings}"
        assert outcomes == (listed.ours, listed.uvicorn, listed.h11), readings


def test_every_listed_difference_has_a_reason_and_none_is_laxer() -> None:
    assert len(BY_MUTATION) == len(DIFFERENCES)
    for difference in DIFFERENCES:
        assert difference.name in BY_NAME
        assert difference.reason
        laxer = [other for other in (difference.uvicorn, difference.h11) if is_laxer(difference.ours, other)]
        assert not laxer, f"{difference.name}: laxer than {laxer}"
        assert (OTHER in (difference.uvicorn, difference.h11)) == (difference.pattern is not None)


def test_the_page_shows_the_list() -> None:
    text = PAGE.read_text()
    assert text == fill_page(text), "run `.venv/bin/python -m tests.wire.differences`"


# -- generated requests ------------------------------------------------------------------------

KEEP_ALIVE, CLOSE = b"Connection: keep-alive", b"Connection: close"
TARGETS = [b"/", b"/a", b"/a/b?c=d&e", b"/a%20b", b"/a?b=/../c", b"/~a!$&'()*+,;=:@", b"/a?%41%zz", b"/?"]
HEADERS = [
    *(b"X: y", b"X:", b"x-y: \t z ", KEEP_ALIVE, CLOSE, b"Accept: */*, text/html;q=0.1"),
    *(b"Expect: 100-continue", b"TE: trailers", b"X: \xe4", b"Cookie: a=b; c=d", b"Upgrade-Insecure-Requests: 1"),
]
DRAFTS = st.builds(
    Draft,
    method=st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"PATCH"]),
    target=st.sampled_from(TARGETS),
    version=st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"]),
    headers=st.lists(st.sampled_from(HEADERS), max_size=3).map(tuple),
    framing=st.sampled_from([None, "fixed", "chunked"]),
    body=st.text("abc\r\n0:; ", max_size=30).map(str.encode),
    trailers=st.sampled_from([b"", b"", b"X: y\r\n"]),
).filter(lambda draft: not {KEEP_ALIVE, CLOSE} <= set(draft.headers))


def list_changes(draft: Draft, mutation: Mutation | None) -> list[str]:
    """Name what may be treated differently in a request."""
    names = [] if mutation is None else [mutation.name]
    if draft.version != b"HTTP/1.1":
        names += ["chunked in HTTP/1.0"] * (draft.framing == "chunked")
        names += ["no Host in HTTP/1.0"] * (not draft.host)
    return names


def starts_with(longer: list[SeenRequest], shorter: list[SeenRequest]) -> bool:
    return longer[: len(shorter)] == shorter


def find_unlisted(readings: Readings, changes: list[list[str]]) -> list[str]:
    """Return the servers that differ from ours although no row of the list explains it.

    `changes` has the changes of each request. Only those of the first request that is read differently, and of the one
    before it, after which a connection may have been closed, can explain a difference.
    """
    found = []
    for name in ("uvicorn", "h11"):
        theirs, ours = getattr(readings, name), readings.ours
        same = next((number for number, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1]), None)
        first = min(len(theirs), len(ours)) if same is None else same
        names = [change for request in changes[max(first - 1, 0) : first + 1] for change in request]
        rows = [row for change in names if (row := BY_MUTATION.get(change))]
        if theirs != ours and not any(explains(row, getattr(row, name), ours, theirs) for row in rows):
            found.append(name)
    return found


def explains(row: Difference, other: str, ours: list[SeenRequest], theirs: list[SeenRequest]) -> bool:
    """Whether a row says that ours may have fewer requests, or one with another body."""
    if other == row.ours:
        return False
    if other == OTHER:
        return [seen._replace(body=b"") for seen in theirs[: len(ours)]] == [seen._replace(body=b"") for seen in ours]
    return starts_with(theirs, ours)


@given(st.lists(st.tuples(DRAFTS, st.none() | st.sampled_from(MUTATIONS)), min_size=1, max_size=3))
@settings(max_examples=600)
def test_generated_requests_are_read_alike_unless_listed(
    servers: Servers, parts: list[tuple[Draft, Mutation | None]]
) -> None:
    drafts = [(draft if mutation is None else mutation.apply(draft), mutation) for draft, mutation in parts]
    readings = servers.read_all(b"".join(draft.encode() for draft, _ in drafts) + END)
    changes = [list_changes(draft, mutation) for draft, mutation in drafts]
    assert not find_unlisted(readings, changes), (changes, readings)


@given(st.lists(DRAFTS, min_size=1, max_size=3))
@settings(max_examples=200)
def test_valid_requests_are_all_served(servers: Servers, drafts: list[Draft]) -> None:
    sent = [draft for draft in drafts if not (draft.version == b"HTTP/1.0" and draft.framing == "chunked")]
    kept_alive = [draft.version == b"HTTP/1.1" and CLOSE not in draft.headers for draft in sent]
    count = kept_alive.index(False) + 1 if False in kept_alive else len(sent)
    readings = servers.read(b"".join(draft.encode() for draft in sent) + END)
    bodies = [draft.body if draft.framing else b"" for draft in sent[:count]]
    assert [request.body for request in readings.ours[:count]] == bodies
    assert len(readings.ours) == count + all(kept_alive)


EDITS = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.sampled_from(
            [b"", b"\r", b"\n", b"\r\n", b" ", b"\t", b"\0", b":", b";", b",", b"0", b"5", b"f", b"\xe4", b"#"]
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(DRAFTS, min_size=1, max_size=2), EDITS)
@settings(max_examples=800)
def test_edited_bytes_are_never_read_more_laxly(
    servers: Servers, drafts: list[Draft], edits: list[tuple[int, bytes, bool]]
) -> None:
    data = b"".join(draft.encode() for draft in drafts)
    for position, piece, is_replaced in edits:
        start = position % (len(data) + 1)
        data = data[:start] + piece + data[start + is_replaced :]
    data += END
    readings = servers.read_all(data)
    patterns = [row.pattern for row in DIFFERENCES if row.pattern is not None]
    for theirs in (readings.uvicorn, readings.h11):
        if not starts_with(theirs, readings.ours):
            assert any(re.search(pattern, data) for pattern in patterns), (data, readings)
