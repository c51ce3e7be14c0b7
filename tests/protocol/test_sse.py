from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import DefinitionError, MessageTooLarge
from hubbub.protocol.sse import KEEP_ALIVE, Event, EventDecoder, encode_event


def decode(*chunks: bytes) -> list[Event]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def feed_bytes(decoder: EventDecoder, data: bytes) -> list[Event]:
    return [event for index in range(len(data)) for event in decoder.feed(data[index : index + 1])]


def decode_whole_and_split(data: bytes) -> list[Event]:
    """Decode the data as a whole and byte by byte; both must give the same."""
    whole = decode(data)
    assert feed_bytes(EventDecoder(), data) == whole
    return whole


def decode_data(data: bytes) -> list[bytes]:
    return [event.data for event in decode_whole_and_split(data)]


# -- encoding ------------------------------------------------------------------


def test_an_event_without_fields_is_its_data() -> None:
    assert encode_event(b'{"a":1}') == b'data: {"a":1}\n\n'


def test_all_fields_are_written() -> None:
    encoded = encode_event(b"x", event="message", id="7", retry_ms=3000)
    assert encoded == b"event: message\nid: 7\nretry: 3000\ndata: x\n\n"


def test_data_with_line_breaks_has_several_lines() -> None:
    assert encode_event(b"a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"


def test_a_priming_event_has_an_id_and_empty_data() -> None:
    encoded = encode_event(b"", id="start")
    assert encoded == b"id: start\ndata: \n\n"
    assert decode_whole_and_split(encoded) == [Event(data=b"", id="start")]


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_a_field_that_would_break_the_stream_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        encode_event(b"", id=text)
    with pytest.raises(DefinitionError):
        encode_event(b"", event=text)


def test_a_negative_retry_time_is_refused() -> None:
    with pytest.raises(DefinitionError):
        encode_event(b"", retry_ms=-1)


def test_a_keep_alive_neither_is_nor_ends_an_event() -> None:
    assert decode_whole_and_split(KEEP_ALIVE) == []
    assert decode_data(KEEP_ALIVE + encode_event(b"x") + KEEP_ALIVE) == [b"x"]


# -- decoding ------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_with_lf_cr_or_crlf(end: bytes) -> None:
    assert decode_data(end.join([b"data: a", b"data: b", b"", b"data: c", b"", b""])) == [b"a\nb", b"c"]


def test_line_ends_may_be_mixed() -> None:
    assert decode_data(b"data: a\rdata: b\ndata: c\r\n\rdata: d\n\r\n") == [b"a\nb\nc", b"d"]


def test_an_event_is_dispatched_at_its_carriage_return() -> None:
    decoder = EventDecoder()
    assert [event.data for event in decoder.feed(b"data: a\r\n\r")] == [b"a"]
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\n") == []
    assert [event.data for event in decoder.feed(b"data: b\n\n")] == [b"b"]


def test_a_byte_order_mark_is_skipped_at_the_start_only() -> None:
    assert decode_data(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]
    assert decode_data(b"data: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n") == [b"a", b"c"]
    assert decode_data(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n") == []


def test_a_stream_that_starts_with_part_of_a_byte_order_mark_loses_nothing() -> None:
    assert decode_whole_and_split(b"\xef\xbbdata: a\ndata: b\n\n") == [Event(data=b"b")]


def test_comments_and_unknown_fields_are_ignored() -> None:
    assert decode_data(b": hello\ndata: a\n:\nfoo: bar\nDATA: b\n data: c\n\n") == [b"a"]


def test_only_one_space_after_the_colon_is_dropped() -> None:
    assert decode_data(b"data:a\n\ndata: b\n\ndata:  c\n\ndata:d:e\n\n") == [b"a", b"b", b" c", b"d:e"]


def test_a_field_without_a_colon_is_empty() -> None:
    assert decode_data(b"data\n\ndata\ndata\n\n") == [b"", b"\n"]


def test_an_event_without_data_is_not_dispatched_and_leaves_nothing_behind() -> None:
    assert decode_whole_and_split(b"event: a\nretry: 5\n\ndata: x\n\n") == [Event(data=b"x")]


def test_an_event_that_never_ends_is_not_dispatched() -> None:
    assert decode_whole_and_split(b"id: 1\ndata: x\n") == []


def test_the_event_name_applies_to_one_event() -> None:
    first, second = decode_whole_and_split(b"event: endpoint\ndata: a\n\ndata: b\n\n")
    assert (first.event, second.event) == ("endpoint", "message")
    assert decode_whole_and_split(b"event:\ndata: a\n\n") == [Event(event="message", data=b"a")]


def test_the_last_id_holds_until_it_is_replaced() -> None:
    decoder = EventDecoder()
    assert decoder.last_id == ""
    first, second = decoder.feed(b"id: 1\ndata: a\n\ndata: b\n\n")
    assert (first.id, second.id, decoder.last_id) == ("1", None, "1")
    decoder.feed(b"id: 2\n\n")
    assert decoder.last_id == "2"
    decoder.feed(b"id: 3\ndata: not ended\n")
    assert decoder.last_id == "2"
    decoder.feed(b"\nid\n\n")
    assert decoder.last_id == ""


def test_an_id_with_nul_is_ignored() -> None:
    decoder = EventDecoder()
    decoder.feed(b"id: 1\ndata: a\n\n")
    [event] = decoder.feed(b"id: 2\0\ndata: b\n\n")
    assert (event.id, decoder.last_id) == (None, "1")


def test_a_retry_time_must_have_digits_only() -> None:
    decoder = EventDecoder()
    decoder.feed(b"retry: 1500\n\n")
    assert decoder.retry_ms == 1500
    for value in (b"-1", b"+1", b"1.5", b"1s", b"", b"\xd9\xa1", b"9" * 5000):
        decoder.feed(b"retry: " + value + b"\n\n")
    assert decoder.retry_ms == 1500
    [event] = decoder.feed(b"retry: 7\ndata: x\n\n")
    assert event.retry == decoder.retry_ms == 7


def test_text_may_be_split_inside_a_character() -> None:
    text = "grüße 🙂"
    assert decode_whole_and_split(encode_event(text.encode(), event=text, id=text)) == [
        Event(event=text, data=text.encode(), id=text)
    ]


def test_bytes_that_are_not_utf_8_stay_in_data_and_are_replaced_elsewhere() -> None:
    assert decode_whole_and_split(b"id: \xff\ndata: \xff\n\n") == [Event(data=b"\xff", id="\ufffd")]


# -- limits --------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"data: " + b"x" * 100,
        b"data: " + b"x" * 100 + b"\n\n",
        b": " + b"x" * 100,
        b": " + b"x" * 100 + b"\n",
        b"data: x\n" * 20,
        b"data\n" * 20 + b"\n",
        b"id: 1\n" * 20,
    ],
)
def test_an_event_over_the_limit_is_refused(data: bytes) -> None:
    decoder = EventDecoder(limit=64)
    with pytest.raises(MessageTooLarge):
        decoder.feed(data)
    with pytest.raises(MessageTooLarge):
        decoder.feed(b"\n\ndata: x\n\n")
    decoder = EventDecoder(limit=64)
    with pytest.raises(MessageTooLarge):
        feed_bytes(decoder, data)


def test_events_before_the_one_over_the_limit_are_still_returned() -> None:
    decoder = EventDecoder(limit=64)
    assert decoder.feed(b"data: a\n\ndata: " + b"x" * 100) == [Event(data=b"a")]
    with pytest.raises(MessageTooLarge):
        decoder.feed(b"")


def test_the_limit_is_for_one_event_and_comments_do_not_add_up() -> None:
    decoder = EventDecoder(limit=64)
    assert len(decoder.feed((b"data: " + b"x" * 58 + b"\n\n") * 20)) == 20
    assert decoder.feed(KEEP_ALIVE * 100 + b": x\n" * 100) == []


# -- any events, any chunks ----------------------------------------------------

fields = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=8)
events = st.builds(
    Event,
    event=fields.filter(bool),
    data=st.one_of(st.binary(max_size=20), st.lists(st.sampled_from([b"\n", b"\r", b" ", b":", b"x"])).map(b"".join)),
    id=st.none() | fields,
    retry=st.none() | st.integers(0, 10**9),
)


@given(st.lists(events, max_size=6), st.lists(st.integers(0, 500), max_size=10), st.booleans())
def test_encoded_events_decode_to_the_same_events_with_any_chunks(
    sent: list[Event], cuts: list[int], has_keep_alives: bool
) -> None:
    between = KEEP_ALIVE if has_keep_alives else b""
    data = between.join(
        encode_event(event.data, event=event.event, id=event.id, retry_ms=event.retry) for event in sent
    )
    edges = [0, *sorted(min(position, len(data)) for position in cuts), len(data)]
    received = decode(*(data[start:end] for start, end in pairwise(edges)))
    expected = [Event(e.event, e.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), e.id, e.retry) for e in sent]
    assert received == expected


pieces = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b"data", b":", b" ", b"id", b"event", b"retry", b"12", b"\0", b"\xef\xbb\xbf"]
)


@given(st.lists(pieces | st.binary(max_size=3), max_size=30).map(b"".join))
def test_any_bytes_decode_alike_as_a_whole_and_byte_by_byte(data: bytes) -> None:
    decode_whole_and_split(data)
