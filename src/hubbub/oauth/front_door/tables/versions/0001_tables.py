"""Clients, codes, grants, consents and signing keys."""

from hubbub.store.migrate import op
from hubbub.store.sql import BigInteger, Column, PrimaryKeyConstraint, Text

revision = "0001"
down_revision = None


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _times(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "oauth_clients",
        Column("client_id", Text, primary_key=True),
        *_texts("name", "redirect_uris", "auth_method", "secret_hash"),
        *_times("created_at", "used_at", "expires_at"),
    )
    op.create_index("oauth_clients_used", "oauth_clients", ["used_at", "created_at"])
    op.create_table(
        "oauth_codes",
        Column("code_hash", Text, primary_key=True),
        *_texts("client_id", "tenant", "user_name", "content"),
        *_times("expires_at"),
    )
    op.create_index("oauth_codes_user", "oauth_codes", ["tenant", "user_name"])
    op.create_table(
        "oauth_grants",
        Column("grant_id", Text, primary_key=True),
        *_texts(
            "handle_hash", "secret_hash", "code_hash", "client_id", "client_name", "tenant", "user_name", "content"
        ),
        *_times("created_at", "used_at", "expires_at"),
    )
    op.create_index("oauth_grants_handle", "oauth_grants", ["handle_hash"], unique=True)
    op.create_index("oauth_grants_code", "oauth_grants", ["code_hash"], unique=True)
    op.create_index("oauth_grants_user", "oauth_grants", ["tenant", "user_name"])
    op.create_table(
        "oauth_ended_grants",
        Column("grant_id", Text, primary_key=True),
        *_times("expires_at"),
    )
    op.create_table(
        "oauth_consents",
        *_texts("tenant", "user_name", "client_id", "client_name", "scopes", "redirect_target", "resource"),
        *_times("created_at", "expires_at"),
        PrimaryKeyConstraint("tenant", "user_name", "client_id", "redirect_target", "resource"),
    )
    op.create_table(
        "oauth_provider_logins",
        Column("id", Text, primary_key=True),
        *_texts("grant_id", "tenant", "user_name", "sealed"),
        *_times("checked_at", "expires_at"),
    )
    op.create_index("oauth_provider_logins_grant", "oauth_provider_logins", ["grant_id"])
    op.create_index("oauth_provider_logins_user", "oauth_provider_logins", ["tenant", "user_name"])
    op.create_table(
        "oauth_signing_keys",
        Column("kid", Text, primary_key=True),
        *_texts("sealed"),
        *_times("created_at"),
    )
