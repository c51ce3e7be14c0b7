"""The headers of one HTTP request, parsed once into a dict.

Our HTTP server and ASGI give headers as bytes with lower-case names. If a name occurs twice, two parsers
of the request may pick different values, so neither is picked: `get` joins them as in RFC 9110
§5.3, which makes a host, token or session id invalid, and `has_repeated` lets the gate refuse the
request. Requests with the same head on one connection share one object, so it must not be changed. Values
of `Mcp-Param-*` are encoded in `hubbub.protocol.mcp_headers`. The client checks headers given by its users with
`check_request_header`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, cast

from hubbub.errors import SettingsError

HeaderList: TypeAlias = Sequence[tuple[bytes, bytes]]
_COOKIE = b"cookie"
_NO_NAMES: frozenset[bytes] = frozenset()


class RequestTarget(NamedTuple):
    """What a request is for: credentials may be limited to a path, or bound to one request."""

    method: str
    path: str
    client: str = ""
    """The network address that it came from, if that is known."""


class Headers:
    """A mapping over the headers of one request. Names are lower-case bytes."""

    __slots__ = (
        "_repeated",
        "_texts",
        "_values",
        "admitting_gate",
        "declared",
        "has_repeated",
        "known_caller",
        "named_call",
        "raw",
        "token_digest",
    )

    def __init__(self, pairs: HeaderList | dict[bytes, bytes] = ()) -> None:
        """Take pairs, or a dict if no name occurs twice."""
        self._values: dict[bytes, bytes] = pairs if type(pairs) is dict else dict(pairs)
        self._repeated: frozenset[bytes] = _NO_NAMES
        self.has_repeated = len(self._values) != len(pairs)
        """Whether any name occurs more than once."""
        if self.has_repeated:
            self._values, self._repeated = _join_values(cast(HeaderList, pairs))
        self._texts: dict[bytes, str] = {}
        self.admitting_gate: object = None
        """The gate that has checked them. Requests with the same head share this object, so that it is checked once."""
        self.known_caller: object = None
        """The caller that the gate has recognized, so that the next request with the same head needs fewer steps."""
        self.token_digest: bytes | None = None
        """The SHA-256 of the bearer token, once it was needed."""
        self.declared: object = None
        """What they say about the messages of their requests, once it was needed."""
        self.named_call: tuple[str, str | None] | None = None
        """The method and name that they were compared with, and name too."""
        self.raw: Callable[[bytes], bytes | None] = self._values.get
        """The value as received."""

    def get(self, name: bytes) -> str | None:
        """The value decoded as Latin-1."""
        text = self._texts.get(name)
        if text is None and (value := self._values.get(name)) is not None:
            text = self._texts[name] = value.decode("latin-1")
        return text

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def is_repeated(self, name: bytes) -> bool:
        """Whether this name occurs more than once."""
        return name in self._repeated


def _join_values(pairs: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], frozenset[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    # RFC 9113 §8.2.3 allows a cookie to be split; everything else is a comma-separated list.
    joined = {name: (b"; " if name == _COOKIE else b", ").join(found) for name, found in values.items()}
    return joined, frozenset(name for name, found in values.items() if len(found) > 1)


RESERVED_HEADERS = frozenset(
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
"""Request headers that only the transport may set."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def check_request_header(name: str, value: str) -> None:
    """Refuse a header that would break a request or contradict its transport. The error does not quote the value.

    Raises: SettingsError.
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is not a valid header name")
    if name.lower() in RESERVED_HEADERS or name.lower().startswith("mcp-param-"):
        raise SettingsError(f"The header {name} is set by the transport; remove it")
    if not _VALUE.fullmatch(value):
        raise SettingsError(f"The value of the header {name} must be one line of Latin-1 text")
