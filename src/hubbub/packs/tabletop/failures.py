"""How the table says no: the status words of the contract, which gRPC has too.

Each is a `ToolError`, so that a tool lets it pass and its word becomes `error.code`.
"""

from __future__ import annotations

from typing import ClassVar

from hubbub.errors import ToolError


class Failure(ToolError):
    """Something that a keeper of campaigns did not do; `word` says why."""

    word: ClassVar[str] = "Internal"

    def __init__(self, message: str) -> None:
        super().__init__(message, code=self.word)


class NotFound(Failure):
    """There is no such campaign, participant, actor or session."""

    word = "NotFound"

    def __init__(self, what: str) -> None:
        super().__init__(what if " " in what else f"{what} not found")


class InvalidArgument(Failure):
    """The caller gave something that can never work."""

    word = "InvalidArgument"


class FailedPrecondition(Failure):
    """It would work, but not as things stand: another session is active, this one has ended."""

    word = "FailedPrecondition"


class Unavailable(Failure):
    """The keeper of campaigns cannot be reached."""

    word = "Unavailable"


class DeadlineExceeded(Failure):
    """It did not answer in time; the change may have been made all the same."""

    word = "DeadlineExceeded"


class Internal(Failure):
    """It broke."""


FAILURES: dict[str, type[Failure]] = {
    kind.word: kind for kind in (NotFound, InvalidArgument, FailedPrecondition, Unavailable, DeadlineExceeded, Internal)
}
"""By word, to make them again at the other end of a wire."""
