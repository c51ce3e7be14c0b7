"""Audit records."""

from hubbub.store.migrate import op
from hubbub.store.sql import BigInteger, Column, PrimaryKeyConstraint, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    texts = ("ts", "event", "tenant", "user_name", "server", "tool", "effect", "outcome", "hash", "line")
    op.create_table(
        "audit_records",
        Column("node", Text, nullable=False),
        Column("seq", BigInteger, nullable=False),
        *(Column(name, Text, nullable=False) for name in texts),
        PrimaryKeyConstraint("node", "seq"),
    )
    op.create_index("audit_records_tenant", "audit_records", ["tenant", "ts"])
