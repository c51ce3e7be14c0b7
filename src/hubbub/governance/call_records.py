"""Makes the events of the audit journal that follow a decision: the end of its call, and changes of its approval."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from hubbub.errors import ToolFailure
from hubbub.governance.audit_events import AuditEvent, Fact
from hubbub.security.redact import redact

if TYPE_CHECKING:
    from hubbub.governance.approvals import ApprovalEvent


def add_facts(event: AuditEvent, **facts: Fact) -> AuditEvent:
    """Return an event with further facts."""
    return msgspec.structs.replace(event, facts={**(event.facts or {}), **facts})


def redact_facts(event: AuditEvent) -> AuditEvent:
    """Mask secrets in the texts that people and servers wrote."""
    if event.facts is None:
        return event
    facts = {name: redact(value) if isinstance(value, str) else value for name, value in event.facts.items()}
    return msgspec.structs.replace(event, facts=facts)


def make_end_event(
    decided: AuditEvent, started: float, outcome: str, *, size: int | None = None, error: BaseException | None = None
) -> AuditEvent:
    """Make the event of the end of a call that was decided about; `started` is of `perf_counter`."""
    return AuditEvent(
        event="call.end",
        call=decided.call,
        tenant=decided.tenant,
        user=decided.user,
        server=decided.server,
        tool=decided.tool,
        shown_as=decided.shown_as,
        outcome=outcome,
        code="" if error is None else find_code(error),
        ms=int((perf_counter() - started) * 1e6) / 1000,  # `round` takes six times as long
        bytes=size,
    )


def find_code(error: BaseException) -> str | int:
    """Return what identifies a kind of error."""
    return getattr(error, "kind", "") or getattr(error, "code", "") or type(error).__name__


def find_outcome(error: BaseException) -> str:
    """Return the outcome of a call that failed."""
    if isinstance(error, ToolFailure):
        return "tool_error"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "error"


def make_approval_event(event: ApprovalEvent) -> AuditEvent:
    """Make the event of a change of an approval."""
    request = event.request
    facts: dict[str, Fact] = {"approval": request.id, "approval_digest": request.digest, "via": event.via}
    if event.approver:
        facts["approver"] = event.approver
    if event.reason:
        facts["reason"] = event.reason
    return AuditEvent(
        event=event.kind,
        call=event.call,
        tenant=request.tenant,
        user=request.user,
        client=request.client,
        server=request.server,
        tool=request.tool,
        args_sha256=event.args_sha256,
        facts=facts,
    )
