"""Indexes to find the grants and codes of a client."""

from hubbub.store.migrate import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_index("oauth_grants_client", "oauth_grants", ["client_id"])
    op.create_index("oauth_codes_client", "oauth_codes", ["client_id"])
