import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub import InvalidRequest, MessageError, MessageTooLarge, ParseError, bounds
from hubbub.protocol.framing import Framer, encode_frame, encode_line, encode_lines

LIMIT = 64


def run(*chunks: bytes, limit: int = LIMIT) -> list[object]:
    """Feed the chunks and finish; return errors as their class."""
    framer = Framer(limit)
    output: list[bytes | MessageError] = []
    for chunk in chunks:
        output += framer.feed(chunk)
    output += framer.finish()
    return [item if isinstance(item, bytes) else type(item) for item in output]


def split_bytes(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


def feed_whole_and_split(data: bytes, limit: int = LIMIT) -> list[object]:
    """Feed the data as a whole and byte by byte; both must give the same."""
    whole = run(data, limit=limit)
    assert run(*split_bytes(data), limit=limit) == whole
    return whole


# -- lines ---------------------------------------------------------------------


def test_lines_end_with_lf_or_crlf() -> None:
    assert feed_whole_and_split(b'{"a":1}\n[2]\r\n{"c":3}\n') == [b'{"a":1}', b"[2]", b'{"c":3}']


def test_blank_lines_are_skipped() -> None:
    assert feed_whole_and_split(b'\n\r\n  \t\r\n{"a":1}\n\n\n{"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


def test_a_line_that_is_not_json_is_passed_to_the_decoder() -> None:
    assert feed_whole_and_split(b'null\n"Content-Length: 3"\n 1\nhello\n') == [
        b"null",
        b'"Content-Length: 3"',
        b" 1",
        b"hello",
    ]


def test_only_one_carriage_return_belongs_to_the_line_end() -> None:
    assert feed_whole_and_split(b"[1]\r\r\n") == [b"[1]\r"]


def test_a_message_is_returned_as_soon_as_its_line_ends() -> None:
    framer = Framer()
    assert framer.feed(b'{"a"') == []
    assert framer.feed(b':1}\n{"b":') == [b'{"a":1}']
    assert framer.feed(b"2}\n") == [b'{"b":2}']
    assert framer.finish() == []


def test_the_last_line_needs_no_line_end() -> None:
    assert feed_whole_and_split(b'{"a":1}\n{"b":2}') == [b'{"a":1}', b'{"b":2}']
    assert feed_whole_and_split(b'{"a":1}\r') == [b'{"a":1}']
    assert feed_whole_and_split(b'{"a":1}\n  ') == [b'{"a":1}']


def test_empty_input_gives_no_messages() -> None:
    assert feed_whole_and_split(b"") == []
    assert Framer().feed(b"") == []


def test_a_line_of_exactly_the_limit_is_served() -> None:
    line = b"[" + b"1" * (LIMIT - 2) + b"]"
    assert feed_whole_and_split(line + b"\n" + line + b"\r\n" + line) == [line, line, line]


def test_a_line_over_the_limit_is_one_error_and_the_next_is_served() -> None:
    line = b"[" + b"1" * (LIMIT - 1) + b"]"
    assert feed_whole_and_split(line + b"\r\n[2]\n") == [MessageTooLarge, b"[2]"]
    assert feed_whole_and_split(b" " * (LIMIT + 1) + b"\n[2]\n") == [MessageTooLarge, b"[2]"]


def test_a_carriage_return_at_the_limit_does_not_end_the_line() -> None:
    limit = bounds.HEADER_BYTES + 10
    assert feed_whole_and_split(b"[" * limit + b"\r\n", limit) == [b"[" * limit]
    assert feed_whole_and_split(b"[" * limit + b"\r]\n", limit) == [MessageTooLarge]


@pytest.mark.parametrize("start", [b"{", b" ", b"x"])
def test_an_endless_line_is_one_error_in_bounded_memory(start: bytes) -> None:
    framer = Framer(LIMIT)
    chunk = start * 65536
    output = []
    tracemalloc.start()
    try:
        for _ in range(200):
            output += framer.feed(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    output += framer.feed(b"\n[2]\n")
    assert [item if isinstance(item, bytes) else type(item) for item in output] == [MessageTooLarge, b"[2]"]
    assert peak < 20 * bounds.HEADER_BYTES


def test_an_endless_line_that_just_ends_is_still_one_error() -> None:
    assert run(b"[" * 100_000) == [MessageTooLarge]
    assert run(b"[" * 100_000, b"[" * 100_000) == [MessageTooLarge]


@pytest.mark.parametrize("limit", [LIMIT, 2 * bounds.HEADER_BYTES, 200_000])
@pytest.mark.parametrize("piece", [1000, 16_000, 1_000_000])
@pytest.mark.parametrize("is_framed", [False, True])
def test_the_first_and_last_bytes_of_a_skipped_message_are_kept(limit: int, piece: int, is_framed: bool) -> None:
    message = b"".join(b"%06d," % number for number in range(40_000))
    sent = encode_frame(message) if is_framed else message + b"\r\n"
    framer, output = Framer(limit), []
    for start in range(0, len(sent), piece):
        output += framer.feed(sent[start : start + piece])
    [error] = output
    assert isinstance(error, MessageTooLarge)
    assert message.startswith(error.start)
    assert message.endswith(error.end.rstrip(b"\r"))
    assert len(error.start) >= min(limit, bounds.SALVAGE_BYTES)
    assert bounds.SALVAGE_TAIL_BYTES - 1 <= len(error.end) <= bounds.SALVAGE_TAIL_BYTES


def test_the_last_bytes_of_a_truncated_frame_are_not_reported() -> None:
    [error] = feed_and_finish(b"Content-Length: 1000\r\n\r\n" + b"x" * 500)
    assert isinstance(error, MessageTooLarge)
    assert (error.start, error.end) == (b"x" * 500, b"")


def feed_and_finish(data: bytes) -> list[bytes | MessageError]:
    framer = Framer(LIMIT)
    return [*framer.feed(data), *framer.finish()]


def test_the_error_for_a_line_names_the_limit() -> None:
    [error] = Framer(LIMIT).feed(b"[" * (LIMIT + 1) + b"\n")
    assert isinstance(error, MessageTooLarge)
    assert error.limit == LIMIT


# -- frames --------------------------------------------------------------------


def test_a_frame_is_exactly_its_bytes() -> None:
    assert feed_whole_and_split(b'Content-Length: 8\r\n\r\n{"a":\n1}') == [b'{"a":\n1}']


def test_header_names_have_any_case_and_header_lines_end_with_lf_or_crlf() -> None:
    assert feed_whole_and_split(b"content-length:2\n\n[]CONTENT-LENGTH : 3 \r\n\r\n[1]") == [b"[]", b"[1]"]


def test_other_headers_are_ignored() -> None:
    data = b"Content-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\nX-Trace: a:b\r\n\r\n{}"
    assert feed_whole_and_split(data) == [b"{}"]


def test_framings_may_be_mixed_with_line_breaks_between() -> None:
    data = b"[1]\n" + encode_frame(b"[2]") + encode_frame(b"[3]") + b"\r\n\r\n[4]\r\n" + encode_frame(b"[5]") + b"[6]\n"
    assert feed_whole_and_split(data) == [b"[1]", b"[2]", b"[3]", b"[4]", b"[5]", b"[6]"]


def test_an_empty_frame_is_an_empty_message() -> None:
    assert feed_whole_and_split(b"Content-Length: 0\r\n\r\n[1]\n") == [b"", b"[1]"]


def test_headers_may_be_longer_than_a_small_limit() -> None:
    assert feed_whole_and_split(b"Content-Length: 2\r\n\r\n{}", limit=3) == [b"{}"]


def test_the_framer_reports_that_input_was_framed() -> None:
    framer = Framer()
    framer.feed(b"[1]\n")
    is_framed = framer.uses_frames
    assert not is_framed
    framer.feed(encode_frame(b"[2]"))
    assert framer.uses_frames
    framer.feed(b"[3]\n")
    assert framer.uses_frames


def test_headers_without_a_length_are_not_framed_input() -> None:
    framer = Framer()
    framer.feed(b"Warning: this is a log line\n[1]\n")
    assert not framer.uses_frames


def test_a_frame_over_the_limit_is_skipped() -> None:
    body = b'{"x":"\n[1]\n' + b"y" * LIMIT + b'"}'
    assert feed_whole_and_split(encode_frame(body) + encode_frame(b"[2]") + b"[3]\n") == [
        MessageTooLarge,
        b"[2]",
        b"[3]",
    ]


def test_a_frame_of_exactly_the_limit_is_served() -> None:
    body = b"[" + b"1" * (LIMIT - 2) + b"]"
    assert feed_whole_and_split(encode_frame(body) + encode_frame(body + b" ")) == [body, MessageTooLarge]


def test_a_frame_over_the_limit_is_reported_at_its_end() -> None:
    framer = Framer(LIMIT)
    assert framer.feed(b"Content-Length: 1000\r\n\r\n") == []
    assert framer.uses_frames
    assert framer.feed(b"x" * 999) == []
    error, message = framer.feed(b"x[1]\n")
    assert isinstance(error, MessageTooLarge)
    assert message == b"[1]"


@pytest.mark.parametrize("opening", [b"", b"Content-Length: 1%b\r\n\r\n" % (b"0" * 30)])
def test_a_very_long_message_is_reported_once_before_it_ends(opening: bytes) -> None:
    framer, output, chunk = Framer(LIMIT), [], b"x" * (1 << 20)
    for _ in range((bounds.SKIPPED_BYTES >> 20) * 3):
        output += framer.feed(opening + chunk)
        opening = b""
    output += framer.finish()
    [error] = output
    assert isinstance(error, MessageTooLarge)
    assert (error.start[:1], error.end) == (b"x", b"")


def test_a_huge_frame_is_skipped_without_buffering_it() -> None:
    framer = Framer()
    assert framer.feed(b"Content-Length: 1%b\r\n\r\n" % (b"0" * 30)) == []
    chunk = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(200):
            assert framer.feed(chunk) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 65536
    assert [type(item) for item in framer.finish()] == [MessageTooLarge]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: -2",
        b"Content-Length: +2",
        b"Content-Length: two",
        b"Content-Length: 2.0",
        b"Content-Length: 0x2",
        b"Content-Length: 2_0",
        b"Content-Length:",
        b"Content-Length: \xb2",
        b"Content-Length: " + b"9" * 5000,
        b"Content-Type: application/json",
        b"Content-Length: 2\r\nContent-Length: 3",
    ],
)
def test_a_frame_without_a_usable_length_is_one_error_and_the_next_is_served(header: bytes) -> None:
    assert feed_whole_and_split(header + b"\r\n\r\n[1]\n[2]\n") == [InvalidRequest, b"[1]", b"[2]"]
    assert feed_whole_and_split(header + b"\r\n\r\n[1]" + encode_frame(b"[2]") + b"[3]\n") == [
        InvalidRequest,
        b"[2]",
        b"[3]",
    ]


def test_two_equal_content_lengths_are_an_error_and_the_body_is_skipped() -> None:
    data = b"Content-Length: 4\r\nContent-Length: 4\r\n\r\n[\n1]" + encode_frame(b"[2]")
    assert feed_whole_and_split(data) == [InvalidRequest, b"[2]"]


def test_a_body_that_quotes_a_header_does_not_start_a_frame() -> None:
    data = b'Content-Length: x\r\n\r\n{"a":"Content-Length: 5"}\n[2]\n'
    assert feed_whole_and_split(data) == [InvalidRequest, b'{"a":"Content-Length: 5"}', b"[2]"]


def test_a_header_in_the_middle_of_an_endless_line_does_not_start_a_frame() -> None:
    late = b"Content-Length: 5"
    # As much as is searched before the line is abandoned, with the header at its very end.
    start = b"[" * (bounds.HEADER_BYTES + 2 - len(late)) + late
    assert feed_whole_and_split(b"Content-Length: x\n\n" + start + b"5]\n[2]\n") == [
        InvalidRequest,
        MessageTooLarge,
        b"[2]",
    ]


def test_a_message_instead_of_the_empty_line_ends_the_headers() -> None:
    assert feed_whole_and_split(b"Content-Length: 3\n[1]\n[2]\n") == [InvalidRequest, b"[1]", b"[2]"]
    assert feed_whole_and_split(b"Content-Length: 3\n \n[2]\n") == [InvalidRequest, b"[2]"]
    too_long = b"[" * (LIMIT + 1)
    assert feed_whole_and_split(b"Content-Length: 3\n" + too_long + b"\n[2]\n") == [
        InvalidRequest,
        MessageTooLarge,
        b"[2]",
    ]


def test_a_log_line_with_a_colon_costs_one_error_only() -> None:
    assert feed_whole_and_split(b"Listening on: port 3\n[1]\n") == [b"Listening on: port 3", b"[1]"]
    assert feed_whole_and_split(b"Warning: low battery\n[1]\n") == [InvalidRequest, b"[1]"]


def test_too_many_headers_are_one_error_and_the_body_is_skipped() -> None:
    headers = b"X-Filler: 0123456789\r\n" * (bounds.HEADER_BYTES // 20)
    data = headers + b"Content-Length: 3\r\n\r\n[1]" + encode_frame(b"[2]")
    assert feed_whole_and_split(data) == [MessageTooLarge, b"[2]"]
    assert feed_whole_and_split(headers + b"\r\n[3]\n") == [MessageTooLarge, b"[3]"]


def test_too_many_headers_are_reported_before_they_end() -> None:
    framer = Framer()
    output = []
    for _ in range(10_000):
        output += framer.feed(b"X-Filler: 0123456789\r\n")
    assert [type(item) for item in output] == [MessageTooLarge]
    assert framer.finish() == []


@pytest.mark.parametrize("limit", [LIMIT, 10 * bounds.HEADER_BYTES])
def test_an_endless_header_is_one_error_in_bounded_memory(limit: int) -> None:
    header = b"X-Filler: " + b"0" * 100 * bounds.HEADER_BYTES
    assert run(header, limit=limit) == [MessageTooLarge]
    assert run(header, header, b"\r\n\r\n[1]\n", limit=limit) == [MessageTooLarge, b"[1]"]
    assert run(header + b"\r\nContent-Length: 3\r\n\r\n[1][2]\n", limit=limit) == [MessageTooLarge, b"[2]"]


def test_a_header_block_of_exactly_the_limit_is_served() -> None:
    rest = b"Content-Length: 2\r\n"
    filler = b"X-Filler: " + b"0" * (bounds.HEADER_BYTES - len(rest) - 12) + b"\r\n"
    assert len(filler + rest) == bounds.HEADER_BYTES
    assert feed_whole_and_split(filler + rest + b"\r\n{}") == [b"{}"]
    assert feed_whole_and_split(b"X" + filler + rest + b"\r\n{}") == [MessageTooLarge]


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: 5\r\n\r\n[1",
        b"Content-Length: 5\r\n\r\n",
        b"Content-Length: 5\r\n\r",
        b"Content-Length: 5\r\n",
        b"Content-Length: 5",
        b"Content-Length:",
    ],
)
def test_input_that_ends_inside_a_frame_is_an_error(data: bytes) -> None:
    assert feed_whole_and_split(data) == [ParseError]


def test_the_error_for_an_incomplete_frame_has_both_sizes() -> None:
    framer = Framer()
    framer.feed(b"Content-Length: 5\r\n\r\n[1")
    [error] = framer.finish()
    assert "2 of 5" in str(error)


def test_a_framer_can_be_used_again_after_finish() -> None:
    framer = Framer()
    framer.feed(b"Content-Length: 5\r\n\r\n[1")
    framer.finish()
    assert framer.feed(b"[2]\n") == [b"[2]"]


# -- any input -----------------------------------------------------------------

json_texts = st.one_of(
    st.integers().map(lambda number: b"[%d]" % number),
    st.text(st.characters(codec="utf-8", exclude_characters='\n\r"\\'), max_size=20).map(
        lambda text: b'{"text":"%b"}' % text.encode()
    ),
)
framed_messages = st.lists(
    st.tuples(json_texts, st.sampled_from(["lf", "crlf", "blank", "frame", "typed"])), max_size=8
)
cuts = st.lists(st.integers(0, 1000), max_size=12)


def framed(message: bytes, framing: str) -> bytes:
    match framing:
        case "lf":
            return encode_line(message)
        case "crlf":
            return message + b"\r\n"
        case "blank":
            return b"\r\n \n" + message + b"\n"
        case "frame":
            return encode_frame(message)
        case _:
            return b"content-type: text/plain\ncontent-length: %d\n\n%b" % (len(message), message)


def cut(data: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(position, len(data)) for position in positions), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(framed_messages, cuts)
def test_any_split_of_any_messages_gives_the_same_messages(
    messages: list[tuple[bytes, str]], positions: list[int]
) -> None:
    data = b"".join(framed(message, framing) for message, framing in messages)
    assert run(*cut(data, positions), limit=10_000) == [message for message, _ in messages]


small = [
    b"\n",
    b"\r",
    b"\r\n",
    b"[1]",
    b"{",
    b"Content-Length: ",
    b"content-length:",
    b"3",
    b"70",
    b"X-Y: z",
    b"-",
    b" ",
]
large = [b"x" * (LIMIT + 1), b"h:" + b"0" * bounds.HEADER_BYTES, b"[" * (bounds.HEADER_BYTES + 2)]
fragments = st.sampled_from(small + large)


@given(st.lists(st.one_of(fragments, fragments, st.binary(max_size=5)), max_size=20).map(b"".join), cuts)
@example(b"h:" + b"0" * bounds.HEADER_BYTES + b"\r", [bounds.HEADER_BYTES + 1])
def test_any_split_of_any_garbage_gives_the_same_outcome(data: bytes, positions: list[int]) -> None:
    whole = run(data)
    assert run(*cut(data, positions)) == whole
    assert all(len(item) <= LIMIT for item in whole if isinstance(item, bytes))


# -- encoding -------------------------------------------------------------


def test_an_encoded_line_has_no_line_breaks_inside() -> None:
    assert encode_line(b'{\r\n "a": 1\n}') == b'{   "a": 1 }\n'
    assert encode_line(b"[1]") == b"[1]\n"


@given(st.lists(st.text("{}[]1, \r\n").map(str.encode)))
def test_lines_are_encoded_together_as_alone(messages: list[bytes]) -> None:
    assert encode_lines(messages) == b"".join(map(encode_line, messages))


def test_the_length_of_an_encoded_frame_is_in_bytes() -> None:
    assert encode_frame('["é"]'.encode()) == b'Content-Length: 6\r\n\r\n["\xc3\xa9"]'


# -- cost ----------------------------------------------------------------------


# No clock is needed: quadratic time takes longer than the timeout of a test for these sizes.


def test_the_cost_per_byte_does_not_grow_with_the_length_of_a_line() -> None:
    size = 1_500_000
    framer = Framer(2 * size)
    for _ in range(size):
        framer.feed(b"[")
    assert framer.feed(b"\n") == [b"[" * size]


def test_the_cost_per_frame_does_not_grow_with_the_number_of_frames() -> None:
    count = 200_000
    assert len(Framer().feed((encode_line(b"[]") + encode_frame(b"{}")) * count)) == 2 * count
