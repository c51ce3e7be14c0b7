"""The public URL of the server that the database belongs to."""

from hubbub.store.migrate import op
from hubbub.store.sql import Column, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "oauth_owner",
        Column("subject", Text, primary_key=True),
        Column("public_url", Text, nullable=False),
    )
