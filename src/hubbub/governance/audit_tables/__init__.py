"""The table that audit records are copied to. The migrations in `versions` must produce the same schema."""

from pathlib import Path
from typing import Final

from hubbub.store.sql import BigInteger, Column, Index, MetaData, PrimaryKeyConstraint, Schema, Table, Text

SCHEMA: Final = Schema(Path(__file__).parent, "0001", "audit_version")

metadata = MetaData()

records = Table(
    "audit_records",
    metadata,
    Column("node", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("ts", Text, nullable=False),  # UTC in ISO 8601: sorts like the time
    Column("event", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("effect", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("line", Text, nullable=False),  # as in the file, so that the chain can be verified from the table too
    PrimaryKeyConstraint("node", "seq"),
    Index("audit_records_tenant", "tenant", "ts"),
)
