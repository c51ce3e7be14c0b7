"""Consent pages that were answered, so that none is used twice."""

from hubbub.store.migrate import op
from hubbub.store.sql import BigInteger, Column, Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "oauth_answered_consents",
        Column("id", Text, primary_key=True),
        Column("code_hash", Text, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
    )
