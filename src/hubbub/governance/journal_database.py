"""Copies the audit journal to PostgreSQL, off the call path: calls never wait for the database.

The files are the journal; the table `audit_records` is a copy for queries over many nodes. The position is the highest
number in the table, so nothing is copied twice or left out after a restart; while the database is down, the copy waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hubbub.errors import HubbubError, PackUnavailable
from hubbub.governance.audit_events import AuditRecord
from hubbub.governance.journal_reader import follow_records
from hubbub.net.backoff import Backoff

if TYPE_CHECKING:
    from hubbub.store.sql import Connection, Database

logger = logging.getLogger("hubbub.audit")

RETRY_PAUSES_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
_COLUMNS: Final = (
    "node", "seq", "ts", "event", "tenant", "user_name", "server", "tool", "effect", "outcome", "hash", "line",
)  # fmt: skip
_INSERT: Final = (
    f"INSERT INTO audit_records ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)}) "
    "ON CONFLICT (node, seq) DO NOTHING"
)


class JournalCopy:
    """Keeps the table up to date until it is closed."""

    def __init__(
        self,
        url: str,
        folder: Path,
        node: Callable[[], str],
        durable_seq: Callable[[], int],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`node` and `durable_seq` are those of the journal.

        Raises:
            SettingsError: the URL is wrong.
            PackUnavailable: the libraries are missing.
        """
        try:
            from hubbub.store.sql import read_url
        except ImportError as error:
            raise PackUnavailable(
                f"[audit] database needs libraries that are not installed ({error.name}); "
                "install them with: pip install 'hubbub[audit]'"
            ) from None
        self._url = read_url(url)
        self._folder = folder
        self._node = node
        self._durable_seq = durable_seq
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self.copied_seq = 0
        """The number of the last record in the table."""
        self.problem: str | None = None
        """Why nothing is copied at the moment."""

    def start(self) -> None:
        """Copy in a task of its own."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop. What was not copied is copied after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self) -> None:
        backoff = Backoff(RETRY_PAUSES_S)
        while True:
            try:
                await self._copy(backoff)
            except (HubbubError, OSError) as error:
                reason = str(error)
                if self.problem is None:
                    logger.error("audit_copy_failed", extra={"reason": reason})
                self.problem = reason
            await self._sleep(backoff.next_s())

    async def _copy(self, backoff: Backoff) -> None:
        from hubbub.governance.audit_tables import SCHEMA
        from hubbub.store.sql import open_database

        database = await open_database(self._url, SCHEMA)
        try:
            self.copied_seq = await database.read(self._find_position)
            await self._copy_on(database, backoff)
        finally:
            await database.close()

    async def _copy_on(self, database: Database, backoff: Backoff) -> None:
        first_seq = self.copied_seq + 1
        async for batch in follow_records(self._folder, first_seq=first_seq, durable_seq=self._durable_seq):
            if batch:
                rows = [_make_row(line, record) for line, record in batch]
                if rows[0]["seq"] != self.copied_seq + 1:
                    expired = {"first": self.copied_seq + 1, "last": rows[0]["seq"] - 1}
                    logger.error("audit_records_not_copied", extra=expired)
                await database.write(lambda connection, rows=rows: _insert(connection, rows))  # type: ignore[misc]
                self.copied_seq = rows[-1]["seq"]
            if self.problem is not None:
                logger.warning("audit_copy_works_again")
                self.problem = None
            backoff.reset()

    def _find_position(self, connection: Connection) -> int:
        from hubbub.governance.audit_tables import records
        from hubbub.store.sql import func, select

        query = select(func.max(records.c.seq)).where(records.c.node == self._node())
        return int(connection.execute(query).scalar() or 0)


def _insert(connection: Connection, rows: list[dict[str, Any]]) -> None:
    from hubbub.store.sql import text

    connection.execute(text(_INSERT), rows)


def _make_row(line: bytes, record: AuditRecord) -> dict[str, Any]:
    values = (
        record.node, record.seq, record.ts, record.event, record.tenant, record.user, record.server, record.tool,
        record.decision.effect if record.decision is not None else "", record.outcome, record.hash,
        line.decode().rstrip("\n"),
    )  # fmt: skip
    return {
        # PostgreSQL stores no NUL in texts.
        name: value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value
        for name, value in zip(_COLUMNS, values, strict=True)
    }
