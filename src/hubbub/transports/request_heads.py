"""Checks the heads of HTTP requests for what llhttp accepts although parsers differ about it."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal

_ABSOLUTE: Final = re.compile(rb"https?://([^/?#@]+)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_CACHED_TARGETS: Final = 256  # most callers use one
_MAX_CACHED_TARGET_BYTES: Final = 256
_LENGTH_LINE: Final = re.compile(rb"\r\ncontent-length: ([0-9]{1,9})(?=\r\n)", re.IGNORECASE)
_MAX_TEMPLATE_BYTES: Final = 2048
_WHITE_SPACE: Final = b" \t"
_BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")
_EMPTY_BODY: Final = (b"content-length", b"0")
_HANDSHAKE_HEADERS: Final = (b"host", b"connection", b"upgrade", b"sec-websocket-key", b"sec-websocket-version")
_WRONG_TARGET: Final = Refusal(400, "Invalid request target; send a path, and the host in the header Host only")
_WRONG_HOST: Final = Refusal(400, "Send the header Host once; HTTP/1.1 requires it")
_WRONG_ENCODING: Final = Refusal(400, "Invalid Transfer-Encoding; send `chunked`, once and with HTTP/1.1")


RawHead = tuple[bytes, bytes, str]
"""Method, target and HTTP version, as llhttp parsed them."""
_METHODS: Final = {name.encode(): name for name in ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH")}


class Target(NamedTuple):
    """The parts of a request target (RFC 9112, section 3.2)."""

    path: str
    """Decoded."""
    query: str
    authority: bytes | None = None
    """The host that an absolute target names; None for others."""


def parse_target(raw: bytes) -> Target | None:
    """Return the parts of a target; None if it is invalid."""
    return _parse(raw) if len(raw) > _MAX_CACHED_TARGET_BYTES else _parse_cached(raw)


def _parse(raw: bytes) -> Target | None:
    if raw[:1] == b"/":
        path, _, query = raw.partition(b"?")
        return None if b"#" in raw else Target(_decode(path), query.decode("latin-1"))
    if raw == b"*":
        return Target("*", "")
    absolute = _ABSOLUTE.fullmatch(raw)
    if absolute is None:
        return None
    return Target(_decode(absolute[2] or b"/"), (absolute[3] or b"").decode("latin-1"), absolute[1].lower())


_parse_cached = lru_cache(_CACHED_TARGETS)(_parse)


def _decode(path: bytes) -> str:
    return unquote(path.decode("latin-1"))


class RequestHead:
    """The head of a request. Callers repeat it on a connection, so what is derived from it is kept with it."""

    __slots__ = (
        "_fields",
        "_raw",
        "asks_to_close",
        "expects_continue",
        "headers",
        "is_http_10",
        "is_unusual",
        "method",
        "path",
        "query",
    )

    def __init__(self, raw: RawHead, fields: dict[bytes, bytes], headers: Headers, target: Target) -> None:
        self._raw = raw
        self._fields = fields
        self.headers = headers
        self.method = _METHODS.get(raw[0]) or raw[0].decode("latin-1")
        self.path = target.path
        self.query = target.query
        self.is_http_10 = raw[2] == "1.0"
        connection = (headers.raw(b"connection") or b"").lower()
        self.asks_to_close = b"close" in [option.strip() for option in connection.split(b",")]
        """llhttp notices this in HTTP/1.1 only."""
        expectation = headers.raw(b"expect")
        self.expects_continue = (
            expectation is not None and not self.is_http_10 and expectation.lower() == b"100-continue"
        )

        self.is_unusual = self.is_http_10 or self.asks_to_close or self.expects_continue
        """Whether a request with this head ends the connection or waits for a response before its body."""

    def is_same(self, raw: RawHead, fields: dict[bytes, bytes]) -> bool:
        """Whether a request has the same head, except for its length."""
        return raw == self._raw and fields == self._fields


def read_head(
    raw: RawHead, fields: dict[bytes, bytes], repeated: Sequence[tuple[bytes, bytes]] | None
) -> RequestHead | Refusal:
    """Check the head of a request; `repeated` are the headers whose names are in `fields` already."""
    method, raw_target, version = raw
    headers = _strip_values(fields, repeated)
    target = parse_target(raw_target)
    if target is None or (target.path == "*" and method != b"OPTIONS"):
        return _WRONG_TARGET
    if target.authority is not None and target.authority != (headers.raw(b"host") or b"").lower():
        return _WRONG_TARGET
    if version not in ("1.1", "1.0"):
        return Refusal(505 if version == "2.0" else 400, f"HTTP/{version} is not supported; use HTTP/1.1")
    encoding = fields.get(b"transfer-encoding")  # with white space, which is known from attacks on proxies
    if encoding is not None and (
        version == "1.0" or encoding.lower() != b"chunked" or headers.is_repeated(b"transfer-encoding")
    ):
        return _WRONG_ENCODING
    if (b"host" not in fields and version == "1.1") or (repeated is not None and headers.is_repeated(b"host")):
        return _WRONG_HOST
    return RequestHead(raw, fields, headers, target)


def _strip_values(fields: dict[bytes, bytes], repeated: Sequence[tuple[bytes, bytes]] | None) -> Headers:
    """Make headers without white space at the end of values (RFC 9110, section 5.5), which llhttp keeps."""
    if repeated is not None:
        return Headers([(name, value.rstrip(_WHITE_SPACE)) for name, value in (*fields.items(), *repeated)])
    joined = b"\n".join(fields.values()) + b"\n"
    if b" \n" in joined or b"\t\n" in joined:
        return Headers({name: each.rstrip(_WHITE_SPACE) for name, each in fields.items()})
    return Headers(fields)


class Upgrade(enum.Enum):
    """What a request for another protocol gets. The parser treats all bytes after its head as that protocol."""

    WEBSOCKET = enum.auto()
    IGNORED = enum.auto()  # an answer over HTTP, the last one of the connection
    REPARSED = enum.auto()  # the same, after parsing it again without the upgrade, because it has a body


def choose_upgrade(method: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Upgrade | Refusal:
    """Decide about a request for another protocol."""
    if method == b"CONNECT":
        return Refusal(400, "CONNECT is for proxies; send requests to this server itself")
    has_body = any(name in _BODY_HEADERS and (name, value) != _EMPTY_BODY for name, value in fields)
    protocols = [value.rstrip(_WHITE_SPACE).lower() for name, value in fields if name == b"upgrade"]
    if protocols != [b"websocket"] or method != b"GET":
        return Upgrade.REPARSED if has_body else Upgrade.IGNORED
    return Refusal(400, "A WebSocket handshake must have no body") if has_body else Upgrade.WEBSOCKET


class HeadTemplate:
    """The bytes of a head that was parsed, except for its length: callers repeat them with every request.

    A request that matches needs no parser. Bytes that are not the same are left to it.
    """

    __slots__ = ("_end", "_expected", "_size", "_start", "head")

    def __init__(self, head: RequestHead, start: bytes, end: bytes) -> None:
        self.head = head
        self._start = start
        """From the request line to `Content-Length: `."""
        self._end = end
        """From the end of that line to the empty line."""
        self._size = 0
        """The size of the last request."""
        self._expected: bytes | None = None
        """The only head with which a request of that size is complete, without leading zeros in its length."""

    def match(self, data: bytes) -> bytes | None:
        """Return the body, if the data is exactly one request with this head."""
        if len(data) != self._size:
            self._size = len(data)
            self._expected = self._expect_head(self._size)
        expected = self._expected
        return data[len(expected) :] if expected is not None and data.startswith(expected) else None

    def _expect_head(self, size: int) -> bytes | None:
        rest = size - len(self._start) - len(self._end)  # the body, and the digits of its length
        body_bytes = rest - len(b"%d" % (rest - len(b"%d" % rest)))
        expected = b"%b%d%b" % (self._start, body_bytes, self._end)
        return expected if len(expected) + body_bytes == size else None


def make_template(data: bytes, body_bytes: int, head: RequestHead) -> HeadTemplate | None:
    """Make a template of data that was parsed as one request; None if it has more or an unusual form."""
    head_bytes = data.find(b"\r\n\r\n") + 4
    length = _LENGTH_LINE.search(data, 0, head_bytes)
    if head_bytes + body_bytes != len(data) or length is None or int(length[1]) != body_bytes:
        return None
    if head_bytes > _MAX_TEMPLATE_BYTES or head.is_unusual:
        return None
    return HeadTemplate(head, data[: length.start(1)], data[length.end(1) : head_bytes])


def encode_head(raw: RawHead, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode a parsed head again, for another parser."""
    method, target, version = raw
    lines = b"".join(b"%b: %b\r\n" % field for field in fields)
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), lines)


def encode_handshake(raw: RawHead, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode the headers that the WebSocket parser needs; its own limits on heads are lower than `max_head_bytes`."""
    method, _, version = raw
    return encode_head((method, b"/", version), [field for field in fields if field[0] in _HANDSHAKE_HEADERS])
