"""Parsers with mutated input: they raise only their own errors, and the chunking of the bytes does not matter."""

import json
from random import Random
from typing import Any

import msgspec
from tests.fuzz.mutation import TOKENS, change_bytes, random_message, split_randomly

from hubbub import HubbubError, MessageError
from hubbub.protocol.error_codes import error_object
from hubbub.protocol.framing import Framer, encode_frame, encode_line
from hubbub.protocol.host_origin import AllowedHosts, AllowedOrigins
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import Envelope, decode_envelope, encode_error, id_key, salvage_id
from hubbub.protocol.mcp_headers import decode_value
from hubbub.protocol.params import EMPTY_PARAMS, decode_params
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.protocol.sse import EventDecoder, encode_event
from hubbub.server.http.cookies import Cookies, read_cookie
from hubbub.server.http.streams import parse_event_id


def envelope(rng: Random) -> None:
    """An invalid message is refused with an id that is valid JSON; a valid message has one too."""
    data = random_message(rng)
    try:
        decoded = decode_envelope(data)
    except MessageError as error:
        json.loads(encode_error(salvage_id(data), error_object(error, NEWEST_LEGACY)))
        return
    for item in decoded if isinstance(decoded, list) else [data]:
        json.loads(bytes(salvage_id(item)))
    if isinstance(decoded, Envelope):
        check_envelope(decoded)


def check_envelope(message: Envelope) -> None:
    if message.id is not msgspec.UNSET:
        json.loads(bytes(message.id))
        json.loads(id_key(message.id))
    if message.method is not msgspec.UNSET:
        raw = EMPTY_PARAMS if message.params is msgspec.UNSET else message.params
        decode_params(message.method, raw)


def framing(rng: Random) -> None:
    """A byte stream gives the same messages and errors with any chunking."""
    stream = b"".join(_random_frame(rng) for _ in range(rng.randint(1, 6)))
    if rng.random() < 0.8:
        stream = change_bytes(rng, stream)
    unsplit = _read_frames([stream])
    assert unsplit == _read_frames(split_randomly(rng, stream))


def _random_frame(rng: Random) -> bytes:
    message = random_message(rng).replace(b"\n", b" ").replace(b"\r", b" ")
    return encode_frame(message) if rng.random() < 0.5 else encode_line(message)


def _read_frames(chunks: list[bytes]) -> list[Any]:
    framer = Framer(limit=100_000)
    output = [item for chunk in chunks for item in framer.feed(chunk)]
    output += framer.finish()
    return [item if isinstance(item, bytes) else (type(item), item.message) for item in output]


def events(rng: Random) -> None:
    """A stream of server-sent events gives the same events with any chunking."""
    stream = b""
    for _ in range(rng.randint(1, 5)):
        data = random_message(rng).replace(b"\r", b"")
        stream += encode_event(data, event=rng.choice([None, "message"]), id=rng.choice([None, "1-2"]))
    stream = change_bytes(rng, stream)
    assert _read_events([stream]) == _read_events(split_randomly(rng, stream))


def _read_events(chunks: list[bytes]) -> list[Any]:
    decoder = EventDecoder(limit=100_000)
    output: list[Any] = []
    for chunk in chunks:
        try:
            output += decoder.feed(chunk)
        except MessageError as error:
            return [*output, type(error)]
    return output


_HEADER_VALUES = [
    b"localhost:3000", b"127.0.0.1", b"[::1]:80", b"http://localhost:5173", b"=?base64?w6k=?=", b"plain text", b"1-2",
    b"mcp_session=AAAAAAAAAAAAAAAAAAAAAA.0123456789abcdef012345; a=b", b"Bearer hb_01234567_" + b"0" * 48,
]  # fmt: skip
_HOSTS = AllowedHosts((), addresses=True)
_ORIGINS = AllowedOrigins(("https://example.com",))
_COOKIES = Cookies()


def headers(rng: Random) -> None:
    """Header values of any bytes are parsed or refused without other exceptions."""
    value = change_bytes(rng, rng.choice([*_HEADER_VALUES, *TOKENS]))
    pairs = [(rng.choice([b"host", b"cookie", b"origin", b"accept"]), value) for _ in range(rng.randint(1, 3))]
    found = Headers(pairs)
    _HOSTS.allow(found.raw(b"host"))
    if (origin := found.raw(b"origin")) is not None:
        _ORIGINS.allow(origin)
    cookie = read_cookie(found.get(b"cookie"))
    assert cookie is None or not _COOKIES.is_issued(cookie)
    text = value.decode("latin-1")
    parse_event_id(text)
    try:
        decode_value(text)
    except HubbubError:
        return


PARSERS = {"envelope": envelope, "framing": framing, "events": events, "headers": headers}
