"""Errors of approvals. Those of calls tell a model what to do next; those of approvers tell a person."""

from __future__ import annotations

from datetime import UTC, datetime

from hubbub.errors import QuotaExceeded, ToolError, ToolFailure


def format_time(seconds: float) -> str:
    """Format seconds since 1970, such as `2026-07-28T12:00:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


class ApprovalRequired(ToolFailure):
    """A person has to approve this call in the hub's queue."""

    kind = "approval_required"

    def __init__(self, id: str, server: str, tool: str, expires: float, *, reason: str = "", note: str = "") -> None:
        """`note` says why an earlier approval does not allow this call."""
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"{note}{'. ' if note else ''}A person has to approve this call of {tool!r} on {server!r}{because}: "
            f"approval {id}, which expires at {format_time(expires)}. The call was not made. Tell the user that it "
            "waits for an approval; when it was approved, repeat exactly the same call with the same arguments",
            data={"approvalId": id, "expiresAt": format_time(expires)},
        )
        self.id = id


class ApprovalDenied(ToolFailure):
    """A person was asked and did not approve the call."""

    kind = "approval_denied"

    def __init__(self, id: str, tool: str, reason: str) -> None:
        super().__init__(
            f"The call of {tool!r} was not approved: {reason}. The call was not made; do not repeat it unless the user "
            "asks for it",
            data={"approvalId": id},
        )
        self.id = id


class ApprovalInvalid(ToolFailure):
    """An approval does not allow this call."""

    kind = "approval_invalid"

    def __init__(self, id: str, problem: str) -> None:
        super().__init__(f"Approval {id} does not allow this call: {problem}", data={"approvalId": id})
        self.id = id


class ApprovalsFull(QuotaExceeded):
    """Too many requests wait for a person already."""

    kind = "approvals_full"


class ApprovalNotFound(ToolError):
    """No request with this id waits for a decision of this approver."""

    def __init__(self, id: str, problem: str = "") -> None:
        super().__init__(problem or f"No approval {id!r} waits for a decision; list the pending ones")
        self.id = id


class ApproverRefused(ToolError):
    """This principal may not decide about this request."""
