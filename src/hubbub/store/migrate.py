"""Brings the tables of a database up to date. The only importer of alembic.

Migrations are modules in a folder `versions` beside their owner's tables, each with
`revision`, `down_revision` and `upgrade()`; they declare with `hubbub.store.sql` and act
through `op` of this module. Called by `hubbub.store.sql` when a database is opened and is
not up to date, in one transaction that others wait for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

if TYPE_CHECKING:
    from hubbub.store.sql import Connection, MetaData

__all__ = ["differences", "is_known", "op", "upgrade"]


def upgrade(connection: Connection, folder: Path, version_table: str) -> None:
    """Run what this database has not seen yet, within the transaction of the connection."""
    scripts = ScriptDirectory(str(folder))
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": version_table,
            "fn": lambda revision, _context: scripts._upgrade_revs("head", revision),
            "transactional_ddl": True,
        },
    )
    with Operations.context(context):
        context.run_migrations()


def is_known(folder: Path, revision: str) -> bool:
    """Whether a revision is among ours; if not, a later version made the database."""
    return any(script.revision == revision for script in ScriptDirectory(str(folder)).walk_revisions())


def differences(connection: Connection, metadata: MetaData, version_table: str) -> list[Any]:
    """What migrations made otherwise than the tables are declared; for tests."""
    context = MigrationContext.configure(connection, opts={"version_table": version_table})
    return list(compare_metadata(context, metadata))
