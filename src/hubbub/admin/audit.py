"""`hub.audit`: searches and verifies the audit journal of the hub. A tenant's administrator sees its records only."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from hubbub.admin.access import AdminTools, choose_tenant, require_operator
from hubbub.errors import ToolError
from hubbub.governance.audit_events import AuditRecord
from hubbub.governance.journal_reader import Filter, read_tail, search_records
from hubbub.governance.journal_verification import verify
from hubbub.server.context import Context

MAX_RECORDS: Final = 1000
"""Records of one result."""
_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_RECORDS, description="How many records at most.")]
_Text: TypeAlias = str | None
_Time: TypeAlias = (
    Annotated[
        str,
        msgspec.Meta(
            pattern=r"^\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?Z?)?)?)?$",
            description="UTC, such as 2026-11-18 or 2026-11-18T09:30:00.",
        ),
    ]
    | None
)
_Tenant: TypeAlias = Annotated[str | None, msgspec.Meta(description="Only records of this tenant; operators only.")]
_Event: TypeAlias = Annotated[
    str | None, msgspec.Meta(description="Only these events; a final * matches any ending, as in `call.*`.")
]


class Records(msgspec.Struct, rename="camel", kw_only=True):
    """Records in the order of the journal."""

    records: list[dict[str, Any]]
    is_complete: bool
    """Whether no further record matches."""


class Verification(msgspec.Struct, rename="camel", kw_only=True):
    """Whether the hash chain of the journal holds."""

    holds: bool
    report: dict[str, Any]


def register(tools: AdminTools, folder: Path) -> None:
    """Register the tools of this area, for the journal in a folder."""

    @tools.read("hub.audit.search")
    async def search(
        *,
        tenant: _Tenant = None,
        user: _Text = None,
        server: _Text = None,
        tool: _Text = None,
        event: _Event = None,
        effect: Literal["allow", "deny", "confirm"] | None = None,
        since: _Time = None,
        until: _Time = None,
        limit: _Limit = 100,
        context: Context,
    ) -> Records:
        """Return the first records of the audit journal that match all filters."""
        wanted = Filter(
            tenant=choose_tenant(context, tenant),
            user=user,
            server=server,
            tool=tool,
            event=event,
            effect=effect,
            since=since and since.rstrip("Z"),
            until=until and until.rstrip("Z"),
        )
        found = await _read(lambda: list(islice(search_records(folder, wanted), limit + 1)))
        return _describe(found[:limit], is_complete=len(found) <= limit)

    @tools.read("hub.audit.tail")
    async def tail(tenant: _Tenant = None, event: _Event = None, limit: _Limit = 20, *, context: Context) -> Records:
        """Return the last records of the audit journal."""
        wanted = Filter(tenant=choose_tenant(context, tenant), event=event)
        found = await _read(lambda: read_tail(folder, limit + 1, wanted))
        return _describe(found[-limit:], is_complete=len(found) <= limit)

    @tools.read("hub.audit.verify", for_operators=True)
    async def verify_journal(context: Context) -> Verification:
        """Verify the hash chain of the audit journal; to notice that its end was cut off, compare a stored head too."""
        require_operator(context, "The journal has the records of all tenants")
        report = await _read(lambda: verify(folder))
        return Verification(holds=report.holds, report=msgspec.to_builtins(report))


async def _read(work: Any) -> Any:
    """Read files in a thread.

    Raises: ToolError.
    """
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise ToolError(f"The audit journal cannot be read: {error.strerror}") from error


def _describe(found: list[tuple[bytes, AuditRecord]], *, is_complete: bool) -> Records:
    return Records(records=[msgspec.to_builtins(record) for _, record in found], is_complete=is_complete)
