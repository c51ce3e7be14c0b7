"""What the headers of a POST request say about its message and the response.

Requests with the same head share one `Headers`, so this is read once for all of them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hubbub.protocol.http_headers import Headers

VERSION_HEADER = b"mcp-protocol-version"
_JSON = b"application/json"
_EVENTS = b"text/event-stream"
ResponseMode = Literal["auto", "json", "sse"]


class PostHeaders(msgspec.Struct, frozen=True, gc=False):
    """What the headers of a POST request declare."""

    is_json: bool
    """Whether the message is JSON."""
    version: str | None
    """The revision."""
    accepts: ResponseMode
    """The only form of a response that the client accepts; `auto` if it accepts both."""

    def choose_mode(self, mode: ResponseMode) -> ResponseMode:
        """Choose JSON for a client that accepts no stream, and a stream for one that accepts nothing else."""
        return mode if self.accepts == "auto" or mode == "json" else self.accepts


def read_post_headers(headers: Headers) -> PostHeaders:
    """Read the headers of a POST request, unless they were read before."""
    known = headers.declared
    if type(known) is PostHeaders:
        return known
    declared = headers.declared = PostHeaders(
        is_json=_is_json(headers.raw(b"content-type")),
        version=headers.get(VERSION_HEADER),
        accepts=_accepted_form(headers.raw(b"accept")),
    )
    return declared


def _is_json(content_type: bytes | None) -> bool:
    return content_type is not None and content_type.partition(b";")[0].strip().lower() == _JSON


def _accepted_form(accept: bytes | None) -> ResponseMode:
    if accept is None or b"*/*" in accept:
        return "auto"
    if _EVENTS not in accept:
        return "json"
    return "auto" if _JSON in accept else "sse"
