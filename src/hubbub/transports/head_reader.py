"""Collects the target and headers of a request from the callbacks of llhttp, and counts trailers."""

from __future__ import annotations

from typing import Final

_FIELD_OVERHEAD_BYTES: Final = 4  # ": " and the end of the line


class HeadReader:
    """Base class of `HttpConnection`, so that the parser calls the connection directly."""

    __slots__ = ("_fields", "_is_in_head", "_repeated_fields", "_trailer_bytes", "_url")

    def __init__(self) -> None:
        self._is_in_head = True
        self._trailer_bytes = 0
        self._url = b""
        self._fields: dict[bytes, bytes] = {}
        self._repeated_fields: list[tuple[bytes, bytes]] | None = None
        """Headers whose name occurred before."""

    def _clear_head(self) -> None:
        self._fields, self._repeated_fields, self._url = {}, None, b""

    def _list_fields(self) -> list[tuple[bytes, bytes]]:
        return [*self._fields.items(), *(self._repeated_fields or ())]

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. A trailer is counted and dropped, because the headers were already checked."""
        if self._is_in_head:
            fields, name = self._fields, name.lower()
            if name not in fields:
                fields[name] = value
            elif self._repeated_fields is None:
                self._repeated_fields = [(name, value)]
            else:
                self._repeated_fields.append((name, value))
        else:
            self._trailer_bytes += len(name) + len(value) + _FIELD_OVERHEAD_BYTES
            self._check_trailers()

    def _check_trailers(self) -> None:
        """Stop the parser if there are too many trailers."""
        raise NotImplementedError
