"""`hub.approvals`: shows the calls that wait for a person, and approves or denies them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Protocol

import msgspec

from hubbub.admin.access import AdminTools
from hubbub.protocol.calls import Principal
from hubbub.server.context import Context

Id = Annotated[str, msgspec.Meta(description="The id of the request, as hub.approvals.list shows it.")]


class WaitingCall(Protocol):
    """A call that waits for a person: `ApprovalRequest` of the queue."""

    @property
    def id(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def client(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def expires(self) -> float: ...
    @property
    def preview(self) -> str: ...
    @property
    def preview_is_complete(self) -> bool: ...


class ApprovalQueue(Protocol):
    """The calls that wait. It decides who may approve what: never the caller itself, nor another tenant."""

    def list_pending(self, approver: Principal) -> Sequence[WaitingCall]:
        """The requests that this principal may decide about, the oldest first."""

    def approve(self, id: str, approver: Principal) -> WaitingCall:
        """Allow the call once.

        Raises: ToolError.
        """

    def deny(self, id: str, approver: Principal, reason: str = "") -> WaitingCall:
        """Refuse the call.

        Raises: ToolError.
        """


class Approval(msgspec.Struct, rename="camel", kw_only=True):
    """A call that waits for a person, or was decided about now."""

    id: str
    tenant: str
    user: str
    client: str
    server: str
    tool: str
    arguments: str
    """A preview, with secrets masked."""
    is_complete: bool
    """Whether the preview shows all arguments."""
    reason: str
    """Why the policy asks for a person."""
    expires: str


class ApprovalList(msgspec.Struct, kw_only=True):
    """The calls that wait, the oldest first."""

    approvals: list[Approval]


def register(tools: AdminTools, queue: ApprovalQueue) -> None:
    """Register the tools of this area."""

    @tools.read("hub.approvals.list")
    async def list_approvals(context: Context) -> ApprovalList:
        """List the calls that wait for a person and that you may decide about; you cannot approve your own."""
        return ApprovalList(approvals=[_describe(each) for each in queue.list_pending(context.caller.principal)])

    @tools.change("hub.approvals.approve")
    async def approve(id: Id, *, context: Context) -> Approval:
        """Allow one call with exactly these arguments, once; only a person who has read them may decide this."""
        return _describe(queue.approve(id, context.caller.principal))

    @tools.change("hub.approvals.deny", is_idempotent=True)
    async def deny(
        id: Id,
        reason: Annotated[str, msgspec.Meta(description="What the caller reads.")] = "",
        *,
        context: Context,
    ) -> Approval:
        """Refuse one call; the caller gets the reason."""
        return _describe(queue.deny(id, context.caller.principal, reason))


def _describe(call: WaitingCall) -> Approval:
    return Approval(
        id=call.id,
        tenant=call.tenant,
        user=call.user,
        client=call.client,
        server=call.server,
        tool=call.tool,
        arguments=call.preview,
        is_complete=call.preview_is_complete,
        reason=call.reason,
        expires=datetime.fromtimestamp(call.expires, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    )
