"""`hub.audit`: searches and verifies the audit journal of the hub. A tenant's administrator sees its records only."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from hubbub.admin.access import AdminTools, choose_tenant, is_operator, require_operator
from hubbub.errors import ToolError
from hubbub.governance.audit_events import AuditRecord
from hubbub.governance.journal_head import decode_head
from hubbub.governance.journal_reader import Filter, read_bounded_tail, read_records
from hubbub.governance.journal_verification import verify
from hubbub.protocol.calls import Caller
from hubbub.server.context import Context
from hubbub.server.threads import Threads

MAX_RECORDS: Final = 1000
"""Records of one result."""
PAGE_BYTES: Final = 1024 * 1024
"""Lines of the journal in one result, of which it has at least one."""
MAX_READ_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the journal that one request reads, in about 0.1 s of CPU time; `hub.audit.verify` reads all of it."""
MAX_READERS: Final = 2
"""Requests that read the journal at the same time, at most one for each caller; others wait."""
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
    hint: str = ""
    """How to find further records, if not all of the journal was read."""


class Verification(msgspec.Struct, rename="camel", kw_only=True):
    """Whether the hash chain of the journal holds."""

    holds: bool
    report: dict[str, Any]


class _VisibleFilter(Filter, frozen=True, kw_only=True):
    """Which records the caller wants, and may see."""

    known_servers: frozenset[str] | None
    """Denials at other servers are left out, because they would tell that these exist; None: all are shown."""

    def matches(self, record: AuditRecord) -> bool:
        if self.known_servers is not None and record.server not in self.known_servers and _is_denial(record):
            return False
        return super().matches(record)


def _is_denial(record: AuditRecord) -> bool:
    return record.decision is not None and record.decision.effect == "deny"


def register(
    tools: AdminTools, folder: Path, find_known_servers: Callable[[Caller], frozenset[str]] = lambda caller: frozenset()
) -> None:
    """Register the tools of this area, for the journal in a folder.

    `find_known_servers`: the servers that the administrator of a tenant may know of.
    """
    readers = Threads(MAX_READERS)  # separate threads, so that nothing else waits for these requests
    tools.close_at_end(readers.close)

    def make_filter(context: Context, tenant: _Text, since: _Text, until: _Text, **others: _Text) -> Filter:
        return _VisibleFilter(
            tenant=choose_tenant(context, tenant),
            known_servers=None if is_operator(context.caller.principal) else find_known_servers(context.caller),
            since=since and since.rstrip("Z"),
            until=until and until.rstrip("Z"),
            **others,
        )

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
        """Return the first records of the audit journal that match all filters.

        One request reads a part of a long journal: if `isComplete` is false, repeat it with `nextSeq` as `from_seq`.
        """
        wanted = make_filter(
            context, tenant, since, until, user=user, server=server, tool=tool, event=event, effect=effect
        )
        return await _read(readers, context, lambda: _read_page(folder, wanted, from_seq, limit, as_lines=as_lines))

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
        """Return the last records of the audit journal that match all filters, among its newest part."""
        wanted = make_filter(
            context, tenant, since, until, user=user, server=server, tool=tool, event=event, effect=effect
        )
        return await _read(readers, context, lambda: _read_last(folder, wanted, limit, as_lines=as_lines))

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
        report = await _read(readers, context, lambda: verify(folder, expected=expected))
        return Verification(holds=report.holds, report=msgspec.to_builtins(report))


async def _read(readers: Threads, context: Context, work: Callable[[], T]) -> T:
    """Read files in a thread.

    Raises: ToolError.
    """
    try:
        found: T = await readers.run(work, context.caller.principal.name)
        return found
    except OSError as error:
        raise ToolError(f"The audit journal cannot be read: {error.strerror}") from error


def _read_page(folder: Path, wanted: Filter, from_seq: int, limit: int, *, as_lines: bool) -> Records:
    found: list[tuple[bytes, AuditRecord]] = []
    size, read, next_seq = 0, 0, from_seq
    for line, record in read_records(folder, first_seq=from_seq, since=wanted.since or ""):
        if read >= MAX_READ_BYTES:
            hint = (
                f"Only a part of the journal was read, up to record {next_seq - 1}. To go on, repeat the search with "
                f"from_seq={next_seq}; to skip earlier days, set `since`"
            )
            return _describe(found, next_seq, is_complete=False, as_lines=as_lines, hint=hint)
        read += len(line)
        if wanted.matches(record):
            size += len(line)
            if len(found) == limit or (found and size > PAGE_BYTES):
                return _describe(found, next_seq, is_complete=False, as_lines=as_lines)
            found.append((line, record))
        next_seq = record.seq + 1
    return _describe(found, next_seq, is_complete=True, as_lines=as_lines)


def _read_last(folder: Path, wanted: Filter, limit: int, *, as_lines: bool) -> Records:
    found, is_limited = read_bounded_tail(folder, limit + 1, wanted, MAX_READ_BYTES)
    start, size = len(found), 0
    while start and len(found) - start < limit and (size := size + len(found[start - 1][0])) <= PAGE_BYTES:
        start -= 1
    last = found[start:]
    next_seq = last[-1][1].seq + 1 if last else 1
    hint = ""
    if is_limited and not start:
        hint = (
            f"Only the last {MAX_READ_BYTES} bytes of the journal were read. For earlier records, use "
            "hub.audit.search (hubbub audit search), with `since` to skip earlier days"
        )
    return _describe(last, next_seq, is_complete=not (start or is_limited), as_lines=as_lines, hint=hint)


def _describe(
    found: list[tuple[bytes, AuditRecord]], next_seq: int, *, is_complete: bool, as_lines: bool, hint: str = ""
) -> Records:
    return Records(
        records=[] if as_lines else [msgspec.to_builtins(record) for _, record in found],
        lines=[line.decode() for line, _ in found] if as_lines else [],
        next_seq=next_seq,
        is_complete=is_complete,
        hint=hint,
    )
