"""Credentials and their locks."""

from hubbub.store.migrate import op
from hubbub.store.sql import BigInteger, Column, PrimaryKeyConstraint, Text

revision = "0001"
down_revision = None


def _key() -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in ("issuer", "resource", "principal")]


def upgrade() -> None:
    op.create_table(
        "oauth_credentials",
        *_key(),
        Column("sealed", Text, nullable=False),
        PrimaryKeyConstraint("resource", "principal", "issuer"),
    )
    op.create_table(
        "oauth_credential_locks",
        *_key(),
        Column("holder", Text, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("resource", "principal", "issuer"),
    )
    op.create_index("oauth_credential_locks_expires", "oauth_credential_locks", ["expires_at"])
