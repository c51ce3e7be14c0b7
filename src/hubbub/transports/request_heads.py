"""Checks the heads of HTTP requests for what llhttp accepts although parsers differ about it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal

_ABSOLUTE: Final = re.compile(rb"https?://([^/?#@]+)(/?[^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
_CACHED_TARGETS: Final = 256  # most callers use one
_WRONG_TARGET: Final = Refusal(400, "Invalid request target; send a path, and the host in the header Host only")
_WRONG_ENCODING: Final = Refusal(400, "Invalid Transfer-Encoding; send `chunked`, once and with HTTP/1.1")


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


def check_head(method: str, raw_target: bytes, version: str, headers: Headers) -> Target | Refusal:
    """Return the target of a request, or why its head is refused."""
    target = parse_target(raw_target)
    if target is None:
        return _WRONG_TARGET
    if target.authority is not None and target.authority != (headers.raw(b"host") or b"").lower():
        return _WRONG_TARGET
    if target.path == "*" and method != "OPTIONS":
        return _WRONG_TARGET
    if version not in ("1.1", "1.0"):
        return Refusal(505 if version == "2.0" else 400, f"HTTP/{version} is not supported; use HTTP/1.1")
    encoding = headers.raw(b"transfer-encoding")
    if encoding is not None and (version == "1.0" or encoding.lower() != b"chunked"):
        return _WRONG_ENCODING
    return target
