"""Parses the target of an HTTP request (RFC 9112, section 3.2)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

_ABSOLUTE: Final = re.compile(rb"https?://([^/?#@]+)(/?[^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
_CACHED_TARGETS: Final = 256  # most callers use one
_ASTERISK: Final = b"*"
_OPTIONS: Final = "OPTIONS"


class Target(NamedTuple):
    """The parts of a target."""

    path: str
    """Decoded."""
    query: str
    authority: bytes | None = None
    """The host that an absolute target names; None for others."""


@lru_cache(_CACHED_TARGETS)
def parse_target(raw: bytes) -> Target | None:
    """Return the parts of a target; None if it is invalid. Only OPTIONS may have the target `*`."""
    if raw[:1] == b"/":
        path, _, query = raw.partition(b"?")
        return None if b"#" in raw else Target(_decode(path), query.decode("latin-1"))
    if raw == _ASTERISK:
        return Target("*", "")
    absolute = _ABSOLUTE.fullmatch(raw)
    if absolute is None:
        return None
    return Target(_decode(absolute[2] or b"/"), (absolute[3] or b"").decode("latin-1"), absolute[1].lower())


def is_target_of(target: Target, method: str, host: bytes | None) -> bool:
    """Whether a request may have this target: the host of an absolute one must be that of the header `Host`."""
    if target.authority is not None:
        return host is not None and host.lower() == target.authority
    return method == _OPTIONS or target.path != "*"


def _decode(path: bytes) -> str:
    return unquote(path.decode("latin-1"))
