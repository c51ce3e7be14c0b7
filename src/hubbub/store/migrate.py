"""Run database migrations. The only module that imports alembic.

Migrations are modules in a folder `versions` beside the tables that they change, each with
`revision`, `down_revision` and `upgrade()`; they use the declarations of `hubbub.store.sql` and
`op` of this module. Called by `hubbub.store.sql` when a database is opened and is
not up to date, in one transaction that other processes wait for.
"""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

if TYPE_CHECKING:
    from hubbub.store.sql import Connection, MetaData

__all__ = ["differences", "is_known", "op", "upgrade"]

_operations: ContextVar[Operations] = ContextVar("operations")


class _CurrentOperations:
    """The operations of the migration that runs in this thread or task.

    Alembic's own `op` is one for the whole process, so that two databases opened at the same time would write into each
    other.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(_operations.get(), name)


op = cast("Operations", _CurrentOperations())


def upgrade(connection: Connection, folder: Path, version_table: str) -> None:
    """Run the pending migrations, within the transaction of the connection."""
    scripts = ScriptDirectory(str(folder))
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": version_table,
            "fn": lambda revision, _context: scripts._upgrade_revs("head", revision),
            "transactional_ddl": True,
        },
    )
    token = _operations.set(Operations(context))
    try:
        context.run_migrations()
    finally:
        _operations.reset(token)


def is_known(folder: Path, revision: str) -> bool:
    """Whether a revision is one of these migrations; if not, a later version made the database."""
    return any(script.revision == revision for script in ScriptDirectory(str(folder)).walk_revisions())


def differences(connection: Connection, metadata: MetaData, version_table: str) -> list[Any]:
    """The differences between the migrated tables and their declarations; for tests."""
    context = MigrationContext.configure(connection, opts={"version_table": version_table})
    return list(compare_metadata(context, metadata))
