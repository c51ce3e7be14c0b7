"""Failures of ActivityWatch and the sidecar, each with a code for programs and a message for people."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, TypeAlias, TypeVar

from hubbub import ToolError

Kind: TypeAlias = Literal[
    "unreachable",  # nothing listens there
    "broken_off",  # the connection closed in the middle of the response
    "timeout",  # it accepts connections but does not answer
    "unauthorized",  # it requires an API key, or a different one
    "host_refused",  # it rejects the Host header
    "http_error",  # it answers with an error status
    "html_page",  # it answers with a web page: another program runs there
    "invalid_json",
    "unexpected",  # JSON, but not what was asked for
    "too_large",
    "refused",  # an address that must not be connected to, or a socket of another user
    "token_mismatch",  # the sidecar does not know the token
]


class SourceFailure(ToolError):
    """ActivityWatch or the sidecar did not answer a request as expected."""

    def __init__(self, kind: Kind, message: str, *, url: str, status: int | None = None) -> None:
        data: dict[str, object] = {"kind": kind, "url": url}
        if status is not None:
            data["status"] = status
        super().__init__(message, code=kind, data=data)
        self.failure_kind = kind  # `kind` of `ToolFailure` is the type on the wire
        self.status = status

    def cause(self) -> dict[str, str]:
        """Return the failure as a field of a result that succeeded otherwise."""
        return {"kind": self.failure_kind, "message": self.message}


Answer = TypeVar("Answer")


async def catch_failure(request: Awaitable[Answer]) -> Answer | SourceFailure:
    """Return the answer, or the failure as a value, for callers that can continue without the answer."""
    try:
        return await request
    except SourceFailure as failure:
        return failure


class BadRequest(ToolError):
    """The caller asked for something impossible."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_argument")
