"""The headers of one HTTP request, read into one dict, once.

ASGI gives headers as pairs of bytes with lower-case names. A name that comes twice
is where two readers of one request begin to disagree, so none of the two values is
ever picked: `get` joins them as RFC 9110 §5.3 says, which no host, token or session
id survives, and `doubled` lets the gate refuse the request outright.
Built for every request by the endpoint; how values of `Mcp-Param-*` are written is
the matter of `hubbub.protocol.headers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

HeaderList: TypeAlias = Sequence[tuple[bytes, bytes]]
_COOKIE = b"cookie"


class Headers:
    """A mapping over the headers of one request. Names are lower-case bytes."""

    __slots__ = ("_doubled", "_values")

    def __init__(self, pairs: HeaderList = ()) -> None:
        self._values: Mapping[bytes, bytes] = dict(pairs)
        self._doubled: frozenset[bytes] | None = None
        if len(self._values) != len(pairs):
            self._values, self._doubled = _joined(pairs)

    def raw(self, name: bytes) -> bytes | None:
        """The value as it came."""
        return self._values.get(name)

    def get(self, name: bytes) -> str | None:
        """The value as text, one character for each byte."""
        value = self._values.get(name)
        return None if value is None else value.decode("latin-1")

    def __contains__(self, name: object) -> bool:
        return name in self._values

    @property
    def has_doubled(self) -> bool:
        """Whether any name at all came more than once."""
        return self._doubled is not None

    def doubled(self, name: bytes) -> bool:
        """Whether this name came more than once."""
        return self._doubled is not None and name in self._doubled


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], frozenset[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    # RFC 9113 §8.2.3 lets a cookie come in pieces; everything else is a comma-separated list.
    joined = {name: (b"; " if name == _COOKIE else b", ").join(found) for name, found in values.items()}
    return joined, frozenset(name for name, found in values.items() if len(found) > 1)
