"""A cache of the encoded heads of a client's requests to one server: most requests differ only in their bodies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hubbub.errors import InvalidResponse
from hubbub.net.response import HttpResponse
from hubbub.ports import OutgoingRequest

SESSION_HEADER: Final = "Mcp-Session-Id"
_MAX_HEADS: Final = 64
"""Number of encoded heads that are kept."""
_SESSION_ID_PATTERN: Final = re.compile(r"[!-~]{1,1024}")


class EncodedHead(NamedTuple):
    """The head of requests that differ only in their bodies."""

    data: bytes
    url: str
    has_session: bool


class EncodedHeads:
    """Keeps encoded heads; must be cleared when the URL, the version or the session changes."""

    def __init__(self) -> None:
        self._heads: dict[tuple[object, ...], EncodedHead] = {}

    def find(self, outgoing: OutgoingRequest) -> EncodedHead | None:
        """Return the head of a request, if one with the same headers was encoded before."""
        return self._heads.get((outgoing.is_stateless, *outgoing.headers.items()))

    def encode(
        self,
        outgoing: OutgoingRequest,
        url: str,
        headers: Mapping[str, str],
        encode: Callable[[str, str, Mapping[str, str]], bytes],
    ) -> EncodedHead:
        """Encode and keep the head of a request.

        Raises:
            ValueError: a header is not valid.
        """
        head = EncodedHead(encode("POST", url, headers), url, SESSION_HEADER in headers)
        if len(self._heads) >= _MAX_HEADS:
            del self._heads[next(iter(self._heads))]
        self._heads[(outgoing.is_stateless, *outgoing.headers.items())] = head
        return head

    def clear(self) -> None:
        """Forget all heads."""
        self._heads.clear()


def parse_session_id(response: HttpResponse) -> str | None:
    """Return the id of the session that a response opens.

    Raises: InvalidResponse.
    """
    session_id = response.header(SESSION_HEADER).strip()
    if not session_id:
        return None
    if not _SESSION_ID_PATTERN.fullmatch(session_id):
        raise InvalidResponse("The server's session id is longer than 1024 characters or not visible ASCII")
    return session_id
