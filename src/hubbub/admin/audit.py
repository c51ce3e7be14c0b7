"""`hub.audit`: searches and verifies the audit journal of the hub. A tenant's administrator sees its records only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from hubbub.admin.access import AdminTools, choose_tenant, require_operator
from hubbub.errors import ToolError
from hubbub.governance.audit_events import AuditRecord
from hubbub.governance.journal_head import decode_head
from hubbub.governance.journal_reader import Filter, read_tail, search_records
from hubbub.governance.journal_verification import verify
from hubbub.server.context import Context

MAX_RECORDS: Final = 1000
"""Records of one result."""
PAGE_BYTES: Final = 1024 * 1024
"""Lines of the journal in one result, of which it has at least one."""
MAX_HEAD_CHARACTERS: Final = 4096
_HASH: Final = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")
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


_Effect: TypeAlias = Literal["allow", "deny", "confirm"] | None
_Head: TypeAlias = (
    Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_HEAD_CHARACTERS, description="A head that was stored elsewhere: its JSON, or its hash."
        ),
    ]
    | None
)
_Lines: TypeAlias = Annotated[
    bool, msgspec.Meta(description="Return the lines of the journal exactly as they are, instead of records.")
]


class Records(msgspec.Struct, rename="camel", kw_only=True):
    """Records in the order of the journal."""

    records: list[dict[str, Any]]
    lines: list[str]
    """With `as_lines`, the records as lines of JSON, whose hashes can be verified."""
    next_seq: int
    """Where a search for further records goes on: `from_seq`."""
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
        effect: _Effect = None,
        since: _Time = None,
        until: _Time = None,
        from_seq: Annotated[int, msgspec.Meta(ge=1, description="The number of the first record to compare.")] = 1,
        limit: _Limit = 100,
        as_lines: _Lines = False,
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
        return await _read(lambda: _read_page(folder, wanted, from_seq, limit, as_lines=as_lines))

    @tools.read("hub.audit.tail")
    async def tail(
        *,
        tenant: _Tenant = None,
        user: _Text = None,
        server: _Text = None,
        tool: _Text = None,
        event: _Event = None,
        effect: _Effect = None,
        since: _Time = None,
        until: _Time = None,
        limit: _Limit = 20,
        as_lines: _Lines = False,
        context: Context,
    ) -> Records:
        """Return the last records of the audit journal that match all filters."""
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
        return await _read(lambda: _read_last(folder, wanted, limit, as_lines=as_lines))

    @tools.read("hub.audit.verify", for_operators=True)
    async def verify_journal(
        head: _Head = None,
        *,
        context: Context,
    ) -> Verification:
        """Verify the hash chain of the audit journal; only with a stored head, it is noticed that the end is missing.

        The hub verifies itself: to rely on nothing of it, use `hubbub audit verify` with its files.
        """
        require_operator(context, "The journal has the records of all tenants")
        expected = head if head is None or _HASH.fullmatch(head) else decode_head(head)
        if head is not None and expected is None:
            raise ToolError("`head` is neither a head as JSON nor a hash of 64 hex digits")
        report = await _read(lambda: verify(folder, expected=expected))
        return Verification(holds=report.holds, report=msgspec.to_builtins(report))


async def _read(work: Callable[[], T]) -> T:
    """Read files in a thread.

    Raises: ToolError.
    """
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise ToolError(f"The audit journal cannot be read: {error.strerror}") from error


def _read_page(folder: Path, wanted: Filter, from_seq: int, limit: int, *, as_lines: bool) -> Records:
    found: list[tuple[bytes, AuditRecord]] = []
    size, next_seq = 0, from_seq
    for line, record in search_records(folder, wanted, first_seq=from_seq):
        size += len(line)
        if len(found) == limit or (found and size > PAGE_BYTES):
            return _describe(found, next_seq, is_complete=False, as_lines=as_lines)
        found.append((line, record))
        next_seq = record.seq + 1
    return _describe(found, next_seq, is_complete=True, as_lines=as_lines)


def _read_last(folder: Path, wanted: Filter, limit: int, *, as_lines: bool) -> Records:
    found = read_tail(folder, limit + 1, wanted)
    start, size = len(found), 0
    while start and len(found) - start < limit and (size := size + len(found[start - 1][0])) <= PAGE_BYTES:
        start -= 1
    last = found[start:]
    return _describe(last, last[-1][1].seq + 1 if last else 1, is_complete=not start, as_lines=as_lines)


def _describe(found: list[tuple[bytes, AuditRecord]], next_seq: int, *, is_complete: bool, as_lines: bool) -> Records:
    return Records(
        records=[] if as_lines else [msgspec.to_builtins(record) for _, record in found],
        lines=[line.decode() for line, _ in found] if as_lines else [],
        next_seq=next_seq,
        is_complete=is_complete,
    )
