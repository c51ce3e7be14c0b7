"""The API key of each grant, so that the grants of a key that has ended can be found."""

from hubbub.store.migrate import op
from hubbub.store.sql import Column, Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("oauth_grants", Column("key_reference", Text, nullable=False, server_default=""))
