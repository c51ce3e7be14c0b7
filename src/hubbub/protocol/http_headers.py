"""HTTP headers as one dictionary, made once for each request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

HeaderList: TypeAlias = Sequence[tuple[bytes, bytes]]


class Headers:
    """Header values by lower-case name. Of a doubled header the last value counts; `doubled` tells."""

    __slots__ = ("_raw", "_values")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = list(raw)
        self._values = dict(self._raw)

    def get(self, name: bytes) -> str | None:
        """The value of a header, without surrounding white space; the name in lower case."""
        value = self._values.get(name)
        return None if value is None else value.decode("latin-1").strip(" \t")

    def doubled(self, name: bytes) -> bool:
        """Whether a header was sent more than once."""
        return len(self._values) != len(self._raw) and sum(key == name for key, _ in self._raw) > 1

    def __contains__(self, name: object) -> bool:
        return name in self._values
