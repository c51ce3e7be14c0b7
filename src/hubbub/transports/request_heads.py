"""Checks the heads of HTTP requests for what llhttp accepts although parsers differ about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal

_ABSOLUTE: Final = re.compile(rb"https?://([^/?#@]+)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_CACHED_TARGETS: Final = 256  # most callers use one
_WRONG_TARGET: Final = Refusal(400, "Invalid request target; send a path, and the host in the header Host only")
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


@lru_cache(_CACHED_TARGETS)
def parse_target(raw: bytes) -> Target | None:
    """Return the parts of a target; None if it is invalid."""
    if raw[:1] == b"/":
        path, _, query = raw.partition(b"?")
        return None if b"#" in raw else Target(_decode(path), query.decode("latin-1"))
    if raw == b"*":
        return Target("*", "")
    absolute = _ABSOLUTE.fullmatch(raw)
    if absolute is None:
        return None
    return Target(_decode(absolute[2] or b"/"), (absolute[3] or b"").decode("latin-1"), absolute[1].lower())


def _decode(path: bytes) -> str:
    return unquote(path.decode("latin-1"))


class RequestHead:
    """The head of a request. Callers repeat it on a connection, so what is derived from it is kept with it."""

    __slots__ = ("_fields", "_raw", "asks_to_close", "expects_continue", "headers", "is_http_10", "method", "target")

    def __init__(self, raw: RawHead, fields: dict[bytes, bytes], headers: Headers, target: Target) -> None:
        self._raw = raw
        self._fields = fields
        self.headers = headers
        self.method = _METHODS.get(raw[0]) or raw[0].decode("latin-1")
        self.target = target
        self.is_http_10 = raw[2] == "1.0"
        connection = (headers.raw(b"connection") or b"").lower()
        self.asks_to_close = b"close" in [option.strip() for option in connection.split(b",")]
        """llhttp notices this in HTTP/1.1 only."""
        expectation = headers.raw(b"expect")
        self.expects_continue = (
            expectation is not None and not self.is_http_10 and expectation.lower() == b"100-continue"
        )

    def is_same(self, raw: RawHead, fields: dict[bytes, bytes]) -> bool:
        """Whether a request has the same head, except for its length."""
        return raw == self._raw and fields == self._fields


def read_head(
    raw: RawHead, fields: dict[bytes, bytes], repeated: Sequence[tuple[bytes, bytes]] | None
) -> RequestHead | Refusal:
    """Check the head of a request; `repeated` are the headers whose names are in `fields` already."""
    method, raw_target, version = raw
    headers = Headers(fields if repeated is None else [*fields.items(), *repeated])
    target = parse_target(raw_target)
    if target is None or (target.path == "*" and method != b"OPTIONS"):
        return _WRONG_TARGET
    if target.authority is not None and target.authority != (headers.raw(b"host") or b"").lower():
        return _WRONG_TARGET
    if version not in ("1.1", "1.0"):
        return Refusal(505 if version == "2.0" else 400, f"HTTP/{version} is not supported; use HTTP/1.1")
    encoding = headers.raw(b"transfer-encoding")
    if encoding is not None and (version == "1.0" or encoding.lower() != b"chunked"):
        return _WRONG_ENCODING
    return RequestHead(raw, fields, headers, target)


def encode_head(raw: RawHead, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode a parsed head again, for another parser."""
    method, target, version = raw
    lines = b"".join(b"%b: %b\r\n" % field for field in fields)
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), lines)
