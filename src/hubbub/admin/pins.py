"""`hub.pins`: shows the definitions of servers that are new or changed, and approves them. For operators only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from hubbub.admin.access import AdminTools, require_operator
from hubbub.governance.hidden_characters import show_hidden
from hubbub.server.context import Context

LISTED_PINS: Final = 1000
"""Definitions in one list; `total` counts all."""
DIFF_LINES: Final = 2000
"""Lines of one result of `hub.pins.diff`."""
_WHY: Final = "Definitions are the same for all tenants"

Kind: TypeAlias = Literal["tool", "prompt", "template", "instructions"]
Status: TypeAlias = Literal["approved", "new", "changed", "removed"]
ServerName = Annotated[str | None, msgspec.Meta(description="Only definitions of this server.")]
ItemName = Annotated[str | None, msgspec.Meta(description="Only definitions of this name.")]


class PinStore(Protocol):
    """The approved definitions: `hubbub.governance.pins.Pins`."""

    async def list_pins(self, statuses: Sequence[Status] = (), selection: Any = None) -> Sequence[Any]:
        """The records of the selected definitions."""

    async def diff(self, server: str, kind: Any, name: str) -> Any:
        """The differences of one definition; None if there is none."""

    async def approve(self, selections: Sequence[Any], approver: str) -> Any:
        """Approve the selected definitions that are new or changed."""

    async def revoke(self, selections: Sequence[Any]) -> Sequence[Any]:
        """Remove approvals; return the keys of their definitions."""


class Pin(msgspec.Struct, rename="camel", kw_only=True):
    """One definition and its status."""

    server: str
    kind: str
    name: str
    status: str
    sha256: str | None
    approved_by: str
    approved_at: str
    findings: list[str]
    """Suspicious texts and characters."""


class PinList(msgspec.Struct, kw_only=True):
    """Definitions of servers."""

    pins: list[Pin]
    total: int


class PinDiff(msgspec.Struct, kw_only=True):
    """What is new or changed, as lines of text."""

    lines: list[str]


class ApprovedPins(msgspec.Struct, kw_only=True):
    """The outcome of an approval."""

    approved: list[str]
    refused: list[str]
    """Each with the reason."""


class RevokedPins(msgspec.Struct, kw_only=True):
    """The approvals that were removed."""

    revoked: list[str]


def register(tools: AdminTools, pins: PinStore, select: Callable[..., Any]) -> None:
    """Register the tools of this area; `select` makes a selection of definitions (`pin_records.Selection`)."""

    @tools.read("hub.pins.list", for_operators=True)
    async def list_pins(
        server: ServerName = None,
        statuses: Annotated[list[Status], msgspec.Meta(description="Only these; by default all.")] = [],  # noqa: B006
        *,
        context: Context,
    ) -> PinList:
        """List the definitions of tools, prompts and templates, approved or not, and what a scan found in them."""
        require_operator(context, _WHY)
        found = await pins.list_pins(statuses, select(server=server))
        return PinList(pins=[_describe(record) for record in found[:LISTED_PINS]], total=len(found))

    @tools.read("hub.pins.diff", for_operators=True)
    async def diff(server: ServerName = None, name: ItemName = None, *, context: Context) -> PinDiff:
        """Show the words and schema keys that are new or changed in definitions that are not approved."""
        require_operator(context, _WHY)
        lines: list[str] = []
        for record in await pins.list_pins(("new", "changed", "removed"), select(server=server, name=name)):
            digest = "" if record.sha256 is None else f", sha256 {record.sha256}"
            lines.append(show_hidden(f"{_label(record)}: {record.status}{digest}"))
            difference = await pins.diff(record.server, record.kind, record.name)
            if difference is not None:
                lines += [f"  {line}" for line in difference.lines]
            if len(lines) > DIFF_LINES:
                return PinDiff(lines=[*lines[:DIFF_LINES], "… name a server or a definition to see the rest"])
        return PinDiff(lines=lines)

    @tools.change("hub.pins.approve", for_operators=True, is_idempotent=True)
    async def approve(
        server: Annotated[str, msgspec.Meta(description="The server whose definitions are approved.")],
        name: ItemName = None,
        kind: Kind | None = None,
        sha256: Annotated[
            str | None, msgspec.Meta(description="Approve only if the definition still has this digest.")
        ] = None,
        *,
        context: Context,
    ) -> ApprovedPins:
        """Approve the new and changed definitions of a server, so that callers see them; read the differences first."""
        require_operator(context, _WHY)
        chosen = select(server=server, kind=kind, name=name, sha256=sha256)
        report = await pins.approve([chosen], context.caller.principal.name)
        for pin in report.approved:
            facts = {"kind": pin.kind, "sha256": pin.sha256 or "", "approver": context.caller.principal.name}
            tools.record(context, "pin.approved", facts, server=pin.server, tool=pin.name)
        return ApprovedPins(
            approved=[_label(pin) for pin in report.approved],
            refused=[f"{_label(each.pin)}: {each.reason}" for each in report.refused],
        )

    @tools.change("hub.pins.revoke", for_operators=True, is_destructive=True, is_idempotent=True)
    async def revoke(
        server: Annotated[str, msgspec.Meta(description="The server whose approvals are removed.")],
        name: ItemName = None,
        kind: Kind | None = None,
        *,
        context: Context,
    ) -> RevokedPins:
        """Remove approvals, so that the definitions are withheld again, even if their server does not list them now."""
        require_operator(context, _WHY)
        revoked = await pins.revoke([select(server=server, kind=kind, name=name)])
        for key in revoked:
            facts = {"kind": key.kind, "revoked_by": context.caller.principal.name}
            tools.record(context, "pin.revoked", facts, server=key.server, tool=key.name)
        return RevokedPins(revoked=[_label(key) for key in revoked])


def _label(record: Any) -> str:
    return f"{record.server} {record.kind} {record.name}"


def _describe(record: Any) -> Pin:
    return Pin(
        server=record.server,
        kind=record.kind,
        name=record.name,
        status=record.status,
        sha256=record.sha256,
        approved_by=record.approved_by,
        approved_at=record.approved_at,
        findings=[f"{finding.severity}: {finding.rule} at {finding.path}" for finding in record.findings],
    )
