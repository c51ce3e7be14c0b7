"""Records in SQLite or PostgreSQL, and tamper-evident hash chains of records.

    database = await open_database(read_url("sqlite:///tides.db"), schema)
    await database.write(lambda connection: add_row(connection, tides, {"metres": 4}))

Importing this module loads SQLAlchemy, whose names for tables and statements it re-exports; `op`, for migrations, loads
Alembic. Both must be in the pack's `requires`.
"""

from typing import TYPE_CHECKING, Any

from hubbub.store.hash_chain import GENESIS, Chain, link
from hubbub.store.sql import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Database,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Row,
    Schema,
    Select,
    Table,
    Text,
    UniqueConstraint,
    add_row,
    and_,
    delete,
    func,
    insert,
    open_database,
    position_column,
    read_url,
    select,
    text,
    update,
)

if TYPE_CHECKING:
    from hubbub.store.migrate import op

__all__ = [
    "GENESIS",
    "BigInteger",
    "Chain",
    "CheckConstraint",
    "Column",
    "Connection",
    "Database",
    "ForeignKey",
    "ForeignKeyConstraint",
    "Index",
    "Integer",
    "MetaData",
    "PrimaryKeyConstraint",
    "Row",
    "Schema",
    "Select",
    "Table",
    "Text",
    "UniqueConstraint",
    "add_row",
    "and_",
    "delete",
    "func",
    "insert",
    "link",
    "op",
    "open_database",
    "position_column",
    "read_url",
    "select",
    "text",
    "update",
]


def __getattr__(name: str) -> Any:
    if name == "op":  # imported late: a database that is up to date needs no Alembic
        from hubbub.store.migrate import op

        return op
    raise AttributeError(f"module 'hubbub.pack.store' has no attribute {name!r}")
