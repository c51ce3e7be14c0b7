"""How ActivityWatch and the sidecar fail, in one word for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, TypeAlias, TypeVar

from hubbub import ToolError

Kind: TypeAlias = Literal[
    "unreachable",  # nothing listens there
    "broken_off",  # the answer ended in the middle
    "timeout",  # it listens, and does not answer
    "unauthorized",  # it wants an API key, or another one
    "host_refused",  # it does not know the name that we call it by
    "http_error",  # it answers with an error
    "html_page",  # it answers with a page for people: something else runs there
    "invalid_json",
    "unexpected",  # JSON, but not what was asked for
    "too_large",
    "refused",  # an address that nobody connects to
]


class SourceFailure(ToolError):
    """One of the two did not give what was asked of it."""

    def __init__(self, kind: Kind, message: str, *, url: str, status: int | None = None) -> None:
        data: dict[str, object] = {"kind": kind, "url": url}
        if status is not None:
            data["status"] = status
        super().__init__(message, code=kind, data=data)
        self.word = kind
        self.status = status

    def cause(self) -> dict[str, str]:
        """As a part of a result that did not fail."""
        return {"kind": self.word, "message": self.message}


Answer = TypeVar("Answer")


async def or_failure(question: Awaitable[Answer]) -> Answer | SourceFailure:
    """The answer, or why there is none, for whoever goes on without."""
    try:
        return await question
    except SourceFailure as failure:
        return failure


class BadRequest(ToolError):
    """The caller asked for something that cannot be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_argument")
