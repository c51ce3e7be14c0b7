"""Records about definitions: their status, their differences, and the outcome of an approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.governance.definition_diff import Difference, diff_definitions, render_differences
from hubbub.governance.definition_lock import DefinitionLock, LockEntry
from hubbub.governance.definition_scan import Finding, scan_definition
from hubbub.governance.definitions import Definition, DefinitionKey, Kind, parse_definition

PinStatus: TypeAlias = Literal["approved", "new", "changed", "removed"]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Selects definitions; what is None selects all."""

    server: str | None = None
    kind: Kind | None = None
    name: str | None = None
    sha256: str | None = None
    """Selects the definition only if it still has this digest, so that nothing is approved that was not shown."""

    def matches(self, key: DefinitionKey) -> bool:
        """Whether it selects this definition, regardless of the digest."""
        return self.server in (None, key.server) and self.kind in (None, key.kind) and self.name in (None, key.name)


class PinRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One definition and its status."""

    server: str
    kind: Kind
    name: str
    status: PinStatus
    sha256: str | None = None
    """The digest of what the server lists now; None if it lists nothing, or nothing that can be decoded."""
    approved_sha256: str | None = None
    approved_by: str = ""
    approved_at: str = ""
    findings: tuple[Finding, ...] = ()
    """What the scan found in the definition that the server lists now."""


class PinDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between an approved definition and the current one."""

    pin: PinRecord
    differences: tuple[Difference, ...] = ()
    lines: tuple[str, ...] = ()
    """The differences and findings as text for a terminal."""


class RefusedPin(msgspec.Struct, frozen=True, kw_only=True):
    """A selected definition that was not approved."""

    pin: PinRecord
    reason: str


class PinReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an approval."""

    approved: tuple[PinRecord, ...] = ()
    refused: tuple[RefusedPin, ...] = ()


class ListedDefinition(msgspec.Struct):
    """A definition as a server lists it now."""

    members: Mapping[str, Raw]
    sha256: str | None


def make_record(
    key: DefinitionKey, status: PinStatus, entry: LockEntry | None, listed: ListedDefinition | None
) -> PinRecord:
    definition = None if listed is None else parse_definition(listed.members)
    return PinRecord(
        server=key.server,
        kind=key.kind,
        name=key.name,
        status=status,
        sha256=None if listed is None else listed.sha256,
        approved_sha256=None if entry is None else entry.sha256,
        approved_by="" if entry is None else entry.approved_by,
        approved_at="" if entry is None else entry.approved_at,
        findings=() if definition is None else tuple(scan_definition(definition)),
    )


def make_difference(
    key: DefinitionKey, status: PinStatus, entry: LockEntry | None, listed: ListedDefinition | None
) -> PinDifference:
    pin = make_record(key, status, entry, listed)
    old: Definition | None = None if entry is None else entry.definition
    new = (
        old if listed is None and status == "approved" else None if listed is None else parse_definition(listed.members)
    )
    differences = diff_definitions(old, new)
    lines = render_differences(differences)
    lines += [f"{one.severity}: {one.rule} at {one.path}: {one.excerpt}" for one in pin.findings]
    return PinDifference(pin=pin, differences=tuple(differences), lines=tuple(lines))


def approve_selected(
    selections: Sequence[Selection],
    pending: Mapping[DefinitionKey, ListedDefinition],
    statuses: Mapping[DefinitionKey, PinStatus],
    lock: DefinitionLock,
    approver: str,
    stamp: str,
) -> tuple[PinReport, list[LockEntry]]:
    """Which of the selected definitions are approved, and their entries for the lock file."""
    approved: list[PinRecord] = []
    refused: list[RefusedPin] = []
    entries: list[LockEntry] = []
    for key, listed in pending.items():
        chosen = [one for one in selections if one.matches(key)]
        if not chosen:
            continue
        pin = make_record(key, statuses[key], lock.find(key), listed)
        reason = _refusal(pin, chosen)
        if reason is not None:
            refused.append(RefusedPin(pin=pin, reason=reason))
            continue
        definition = parse_definition(listed.members)
        assert definition is not None
        assert pin.sha256 is not None
        entries.append(LockEntry(key, pin.sha256, definition, approver, stamp))
        approved.append(
            msgspec.structs.replace(
                pin, status="approved", approved_sha256=pin.sha256, approved_by=approver, approved_at=stamp
            )
        )
    return PinReport(approved=tuple(approved), refused=tuple(refused)), entries


def _refusal(pin: PinRecord, chosen: Sequence[Selection]) -> str | None:
    """Why a selected definition is not approved; None if it is."""
    if pin.sha256 is None:
        return "it cannot be decoded, so it cannot be approved; the server must be corrected"
    if all(one.sha256 not in (None, pin.sha256) for one in chosen):
        return f"it has changed again: its digest is now {pin.sha256}; look at the difference again"
    high = sorted({finding.rule for finding in pin.findings if finding.severity == "high"})
    if high and not any(one.name == pin.name and one.sha256 in (None, pin.sha256) for one in chosen):
        return f"the scan found {', '.join(high)}; look at it, and approve it by its name if it is harmless"
    return None
