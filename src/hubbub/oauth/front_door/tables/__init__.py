"""The tables of the front door. The migrations in `versions` must produce the same schema.

Times are seconds since 1970. Codes, tokens and secrets are stored as their SHA-256 only.
"""

from pathlib import Path
from typing import Final

from hubbub.store.sql import BigInteger, Column, Index, MetaData, PrimaryKeyConstraint, Schema, Table, Text

SCHEMA: Final = Schema(Path(__file__).parent, "0005", "oauth_version")

metadata = MetaData()

clients = Table(
    "oauth_clients",
    metadata,
    Column("client_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("redirect_uris", Text, nullable=False),  # JSON
    Column("auth_method", Text, nullable=False),
    Column("secret_hash", Text, nullable=False),  # empty if it has none
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),  # 0 until it was granted something
    Column("expires_at", BigInteger, nullable=False),
    Index("oauth_clients_used", "used_at", "created_at"),
)

codes = Table(
    "oauth_codes",
    metadata,
    Column("code_hash", Text, primary_key=True),
    Column("client_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("content", Text, nullable=False),  # JSON of AuthorizationCode
    Column("expires_at", BigInteger, nullable=False),
    Index("oauth_codes_user", "tenant", "user_name"),
    Index("oauth_codes_client", "client_id"),
)

grants = Table(
    "oauth_grants",
    metadata,
    Column("grant_id", Text, primary_key=True),
    Column("handle_hash", Text, nullable=False),  # identifies the grant in its refresh tokens
    Column("secret_hash", Text, nullable=False),  # of the only refresh token that is valid
    Column("code_hash", Text, nullable=False),
    Column("client_id", Text, nullable=False),
    Column("client_name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("key_reference", Text, nullable=False, server_default=""),  # empty if the login was at a provider
    Column("content", Text, nullable=False),  # JSON of Grant
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("oauth_grants_handle", "handle_hash", unique=True),
    Index("oauth_grants_code", "code_hash", unique=True),
    Index("oauth_grants_user", "tenant", "user_name"),
    Index("oauth_grants_client", "client_id"),
)

ended_grants = Table(
    "oauth_ended_grants",
    metadata,
    Column("grant_id", Text, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),  # when its last access token has expired
)

revocations = Table(
    "oauth_revocations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text),  # null: all tenants; the same for user and client
    Column("user_name", Text),
    Column("client_id", Text),
    Column("revoked_at_us", BigInteger, nullable=False),  # in microseconds, because a login may follow at once
    Column("expires_at", BigInteger, nullable=False),  # when every login that began before has expired
)

consents = Table(
    "oauth_consents",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("client_id", Text, nullable=False),
    Column("client_name", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("redirect_target", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "user_name", "client_id", "redirect_target", "resource"),
)

answered_consents = Table(
    "oauth_answered_consents",
    metadata,
    Column("id", Text, primary_key=True),  # of the consent page
    Column("code_hash", Text, nullable=False),  # of the code that the answer led to; empty if it was denied
    Column("expires_at", BigInteger, nullable=False),  # when the page cannot be answered any more
)

provider_logins = Table(
    "oauth_provider_logins",
    metadata,
    Column("id", Text, primary_key=True),
    Column("grant_id", Text, nullable=False),  # the grant that began with this login; empty until there is one
    Column("tenant", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("sealed", Text, nullable=False),  # the refresh token of the identity provider
    Column("checked_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("oauth_provider_logins_grant", "grant_id"),
    Index("oauth_provider_logins_user", "tenant", "user_name"),
)

signing_keys = Table(
    "oauth_signing_keys",
    metadata,
    Column("kid", Text, primary_key=True),
    Column("sealed", Text, nullable=False),  # the private key, sealed with the key of the installation
    Column("created_at", BigInteger, nullable=False),
)
