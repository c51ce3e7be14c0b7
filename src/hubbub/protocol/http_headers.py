"""The headers of one HTTP request, read into one dict, once.

ASGI gives headers as pairs of bytes with lower-case names. A name that comes twice
is where two readers of one request begin to disagree, so none of the two values is
ever picked: `get` joins them as RFC 9110 §5.3 says, which no host, token or session
id survives, and `doubled` lets the gate refuse the request outright.
Built for every request by the endpoint; how values of `Mcp-Param-*` are written is
the matter of `hubbub.protocol.headers`. The client asks `check_outgoing` about those
that its users want to send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from hubbub.errors import SettingsError

HeaderList: TypeAlias = Sequence[tuple[bytes, bytes]]
_COOKIE = b"cookie"
_NONE: frozenset[bytes] = frozenset()


class Headers:
    """A mapping over the headers of one request. Names are lower-case bytes."""

    __slots__ = ("_doubled", "_values", "has_doubled", "raw")

    def __init__(self, pairs: HeaderList = ()) -> None:
        self._values: Mapping[bytes, bytes] = dict(pairs)
        self._doubled: frozenset[bytes] = _NONE
        self.has_doubled = len(self._values) != len(pairs)
        """Whether any name at all came more than once."""
        if self.has_doubled:
            self._values, self._doubled = _joined(pairs)
        self.raw: Callable[[bytes], bytes | None] = self._values.get
        """The value as it came."""

    def get(self, name: bytes) -> str | None:
        """The value as text, one character for each byte."""
        value = self._values.get(name)
        return None if value is None else value.decode("latin-1")

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def doubled(self, name: bytes) -> bool:
        """Whether this name came more than once."""
        return name in self._doubled


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], frozenset[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    # RFC 9113 §8.2.3 lets a cookie come in pieces; everything else is a comma-separated list.
    joined = {name: (b"; " if name == _COOKIE else b", ").join(found) for name, found in values.items()}
    return joined, frozenset(name for name, found in values.items() if len(found) > 1)


RESERVED = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "sec-websocket-protocol",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers of a request that its transport sets, and nobody else."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def check_outgoing(name: str, value: str) -> None:
    """Refuse a header that would break a request or contradict its transport. The value is never told.

    Raises: SettingsError.
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is not the name of a header")
    if name.lower() in RESERVED or name.lower().startswith("mcp-param-"):
        raise SettingsError(f"The header {name} is set by the transport itself")
    if not _VALUE.fullmatch(value):
        raise SettingsError(f"The value of the header {name} must be one line of Latin-1 text")
