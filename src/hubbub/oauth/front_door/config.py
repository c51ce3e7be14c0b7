"""What the front door needs to know; `hubbub.assembly` makes it from the settings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hubbub.security.token_claims import ClaimMapping
from hubbub.settings.secret import Secret


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The OpenID Connect provider that people log in at."""

    issuer: str
    client_id: str
    client_secret: Secret | None = None
    scopes: tuple[str, ...] = ("openid", "profile")
    claims: ClaimMapping = ClaimMapping(scopes=())
    """The claims of the tenant and the user, and those whose values `scope_map` maps."""
    scope_map: Mapping[str, tuple[str, ...]] = {}
    """The scopes that a value of these claims permits."""


class FrontDoorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the front door works."""

    issuer: str
    """The public URL of this server."""
    server_name: str
    database: str
    """The URL of the SQL store."""
    scopes: tuple[str, ...] = ()
    """The scopes that clients can request."""
    provider: ProviderConfig | None = None
    """None: people log in with an API key."""
    dpop: bool = True
    """Whether tokens can be bound to a key of the client."""

    def url(self, path: str) -> str:
        """Return the public URL of a path of this server."""
        return self.issuer.rstrip("/") + path
