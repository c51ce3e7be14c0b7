"""Reads the audit journal of a running hub, through its administration, for `hubbub audit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from hubbub.cli.admin_client import AdminConnection, AdminOptions, run_admin
from hubbub.cli.output import write_lines
from hubbub.errors import InvalidResponse, SettingsError
from hubbub.governance.audit_events import AuditRecord, decode_record
from hubbub.governance.journal_head import Head
from hubbub.governance.journal_reader import Filter
from hubbub.governance.journal_verification import VerificationReport

Lines: TypeAlias = Sequence[tuple[bytes, AuditRecord]]
_PAGE_RECORDS: Final = 1000
"""What the hub returns at most for one request."""


def verify_at_hub(options: AdminOptions, expected: Head | str | None, show: Callable[[VerificationReport], int]) -> int:
    """Let a hub verify its journal; `show` returns the exit code."""
    head = msgspec.json.encode(expected).decode() if isinstance(expected, Head) else expected

    async def work(hub: AdminConnection) -> int:
        found = await hub.call("hub.audit.verify", {"head": head})
        return show(msgspec.convert(found["report"], VerificationReport))

    return run_admin(options, work)


def tail_at_hub(options: AdminOptions, wanted: Filter, number: int, write: Callable[[Lines], None]) -> int:
    """Write the last records that match.

    Raises: SettingsError.
    """
    if number > _PAGE_RECORDS:
        raise SettingsError(f"--lines: a hub returns at most {_PAGE_RECORDS} of its last records")

    async def work(hub: AdminConnection) -> int:
        if number:
            found = await hub.call("hub.audit.tail", {**_arguments(wanted), "limit": number})
            write(_decode(found["lines"]))
            if found.get("hint"):  # older hubs have none
                write_lines([found["hint"]], err=True)
        return 0

    return run_admin(options, work)


def search_at_hub(options: AdminOptions, wanted: Filter, limit: int | None, write: Callable[[Lines], None]) -> int:
    """Write the records that match, page by page; none that is added after the search began."""

    async def work(hub: AdminConnection) -> int:
        # The hub records each request for a page: without an end, they would be found too.
        newest = await hub.call("hub.audit.tail", {"limit": 1, "as_lines": True})
        last_seq, next_seq, rest = newest["nextSeq"] - 1, 1, limit
        while rest is None or rest:
            size = _PAGE_RECORDS if rest is None else min(rest, _PAGE_RECORDS)
            found = await hub.call("hub.audit.search", {**_arguments(wanted), "from_seq": next_seq, "limit": size})
            page = [pair for pair in _decode(found["lines"]) if pair[1].seq <= last_seq]
            write(page)
            next_seq, rest = found["nextSeq"], None if rest is None else rest - len(page)
            if found["isComplete"] or next_seq > last_seq:
                break
        return 0

    return run_admin(options, work)


def _arguments(wanted: Filter) -> dict[str, Any]:
    return {**msgspec.structs.asdict(wanted), "as_lines": True}


def _decode(lines: Sequence[str]) -> Lines:
    """Decode lines of a hub.

    Raises: InvalidResponse.
    """
    try:
        return [(line.encode(), decode_record(line.encode())) for line in lines]
    except msgspec.DecodeError:
        raise InvalidResponse(
            "the hub returned a line that is not a record of an audit journal; use the same version "
            "of Hubbub on both sides"
        ) from None
