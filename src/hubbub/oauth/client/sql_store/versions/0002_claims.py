"""Claims on links to log in, and since when credentials cannot be used."""

from hubbub.store.migrate import op
from hubbub.store.sql import BigInteger, Column, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "oauth_claims",
        Column("name", Text, primary_key=True),
        Column("value", Text, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
    )
    op.create_index("oauth_claims_expires", "oauth_claims", ["expires_at"])
    op.add_column("oauth_credentials", Column("unusable_at", BigInteger, nullable=True))
    op.create_index("oauth_credentials_unusable", "oauth_credentials", ["unusable_at"])
