"""Revocations, so that logins from before cannot be continued."""

from hubbub.store.migrate import op
from hubbub.store.sql import BigInteger, Column, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "oauth_revocations",
        Column("id", Text, primary_key=True),
        *(Column(name, Text) for name in ("tenant", "user_name", "client_id")),
        *(Column(name, BigInteger, nullable=False) for name in ("revoked_at_us", "expires_at")),
    )
