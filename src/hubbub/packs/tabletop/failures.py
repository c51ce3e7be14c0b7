"""Errors of the tabletop pack, with the status codes of the contract, which are those of gRPC.

Each is a `ToolError`, so that tools pass it on and its status code becomes `error.code`.
"""

from __future__ import annotations

from typing import ClassVar

from hubbub import ToolError


class Failure(ToolError):
    """A request that the campaign backend did not carry out; `status_code` says why."""

    status_code: ClassVar[str] = "Internal"

    def __init__(self, message: str, *, reason: str = "") -> None:
        """`reason` has details only for the log and `hubbub doctor`, such as a path or an address."""
        super().__init__(message, code=self.status_code)
        self.reason = reason or message


class NotFound(Failure):
    """The campaign, participant, actor or session does not exist."""

    status_code = "NotFound"

    def __init__(self, what: str) -> None:
        super().__init__(what if " " in what else f"{what} not found")


class InvalidArgument(Failure):
    """An argument is invalid, whatever the state of the campaign."""

    status_code = "InvalidArgument"


class FailedPrecondition(Failure):
    """The current state does not allow it, such as another active session, or a session that has ended."""

    status_code = "FailedPrecondition"


STORE_UNAVAILABLE = "Campaigns cannot be read or written now; try again later, or see the log of the server"


class Unavailable(Failure):
    """The campaign backend cannot be reached."""

    status_code = "Unavailable"


class DeadlineExceeded(Failure):
    """The backend did not answer in time; the change may have been made nevertheless."""

    status_code = "DeadlineExceeded"


class Internal(Failure):
    """The backend failed unexpectedly."""


FAILURES_BY_CODE: dict[str, type[Failure]] = {
    kind.status_code: kind
    for kind in (NotFound, InvalidArgument, FailedPrecondition, Unavailable, DeadlineExceeded, Internal)
}
"""Classes by status code, to recreate a failure that a campaign server reports."""
