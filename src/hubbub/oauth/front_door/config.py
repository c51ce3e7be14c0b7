"""Configuration of the front door; `hubbub.server.http.front_door` makes it from the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hubbub.oauth.front_door.records import User
from hubbub.protocol.host_origin import DEFAULT_PORTS
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.security.token_claims import ClaimMapping

MCP_PATH: Final = "/mcp"
_OTHER_ENDPOINTS: Final = frozenset(("", MCP_PATH, "/mcp-ws", "/sse"))


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The OpenID Connect provider that people log in at."""

    issuer: str
    client_id: str
    scopes: tuple[str, ...] = ("openid", "profile")
    claims: ClaimMapping = ClaimMapping(scopes=())
    """The claims of the tenant and the user, and those whose values `scope_map` maps."""
    scope_map: Mapping[str, tuple[str, ...]] = {}
    """The scopes that a value of these claims permits."""
    max_login_s: float = 86_400.0
    """Seconds after which a login ends that cannot be checked at the provider again."""


class FrontDoorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one front door."""

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

    def find_resource(self, resources: Sequence[str]) -> str | None:
        """Return the endpoint that a request names (RFC 8707), by default `/mcp`; None if it names another server's."""
        if not resources:
            return self.url(MCP_PATH)
        if len(set(resources)) > 1:
            return None
        try:
            base, resource = urlsplit(self.issuer), urlsplit(resources[0])
            is_same = (resource.scheme, resource.hostname, resource.port or DEFAULT_PORTS.get(resource.scheme)) == (
                base.scheme, base.hostname, base.port or DEFAULT_PORTS.get(base.scheme)
            )  # fmt: skip
        except ValueError:
            return None
        root, path = base.path.rstrip("/"), resource.path.rstrip("/")
        if not is_same or resource.query or resource.fragment or "@" in resource.netloc or not path.startswith(root):
            return None
        path = path.removeprefix(root)
        view = path.removeprefix(MCP_PATH + "/")
        is_view = path != view and "/" not in view and view.isascii() and view.isprintable()
        return self.url(path) if is_view or path in _OTHER_ENDPOINTS else None

    def permitted_scopes(self, user: User) -> frozenset[str]:
        """Return the scopes that a person may grant.

        A key has its own. A user of the provider has those that `scope_map` gives to the values of the claims, and
        those that are not in `scope_map`; `hub:admin` is never one of these.
        """
        if self.provider is None:
            return user.scopes
        mapped = {scope for scopes in self.provider.scope_map.values() for scope in scopes}
        return user.scopes | (frozenset(self.scopes) - mapped - {ADMIN_SCOPE})
