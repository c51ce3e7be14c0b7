"""Makes the front door of a server (its OAuth authorization server) from the settings, and adds its routes."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub.errors import SettingsError
from hubbub.net.egress_rules import NO_RULES
from hubbub.oauth.errors import MetadataError
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.client_directory import ConfiguredClient
from hubbub.oauth.front_door.clients import Client, check_redirect_uri
from hubbub.oauth.front_door.config import FrontDoorConfig, ProviderConfig
from hubbub.oauth.front_door.front_door import FrontDoor
from hubbub.oauth.front_door.provider import ReadSecret, no_secret
from hubbub.oauth.front_door.signing_keys import FOREIGN_KEY_PROBLEM, SEALED_KEY
from hubbub.ports import Sealer
from hubbub.security.api_keys import ApiKeys
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.security.token_claims import ClaimMapping
from hubbub.security.verified_tokens import MatchAudience
from hubbub.server.client_sessions import ManagesClients
from hubbub.server.public_routes import PublicRoute
from hubbub.server.server import Server
from hubbub.settings.folders import data_folder
from hubbub.settings.governance import SecretSettings, SecretSource
from hubbub.settings.oauth import ClientSettings, OAuthSettings, ProviderSettings
from hubbub.settings.secret import Secret

_SHOWN_HOST_CHARACTERS: Final = 80
_SECRET: Final = "oauth.provider.client_secret"


def make_front_door(
    server: Server,
    settings: OAuthSettings,
    *,
    sealer: Sealer,
    identity: TenantIdentity | None,
    api_keys: ApiKeys | None,
    match_audience: MatchAudience,
) -> FrontDoor:
    """Make the front door of a server, and add its routes.

    Raises:
        SettingsError: neither a provider nor API keys are configured.
        PackUnavailable: the libraries for its store are not installed.
    """
    provider = settings.provider
    if provider is None and api_keys is None:
        raise SettingsError(
            "[oauth] front_door needs a way to log in: set [oauth.provider], or create API keys with "
            "`hubbub keys create` and set --key-file"
        )
    config = FrontDoorConfig(
        issuer=settings.public_url,
        server_name=server.info.name if server.info.title is msgspec.UNSET else server.info.title,
        database=settings.database or f"sqlite:///{data_folder() / database_file(settings.public_url)}",
        scopes=settings.scopes,
        provider=None if provider is None else _provider_config(provider),
        dpop=settings.dpop != "off",
    )
    front_door = FrontDoor(
        config,
        sealer=_WatchedSealer(sealer, server),
        identity=identity,
        api_keys=api_keys if provider is None else None,
        read_secret=_secret_reader(_SECRET, None if provider is None else provider.client_secret),
        clients=[_configured_client(client) for client in settings.clients],
        match_audience=match_audience,
        rules=lambda: server.egress or NO_RULES,
    )
    for path, handlers in front_door.pages.items():
        server.public_routes[path] = PublicRoute(handlers)
    for path, handlers in front_door.endpoints.items():
        server.public_routes[path] = PublicRoute(handlers, any_origin=True)
    return front_door


def database_file(public_url: str) -> str:
    """Return the name of the default database of a server. Servers with different URLs have different databases."""
    host = re.sub(r"[^a-z0-9]+", "-", urlsplit(public_url).netloc.lower())[:_SHOWN_HOST_CHARACTERS]
    return f"oauth-{host}-{sha256(public_url.rstrip('/').encode()).hexdigest()[:12]}.db"


class _WatchedSealer:
    """Reports to the server if another process sealed the signing keys in the database with another key."""

    def __init__(self, sealer: Sealer, server: Server) -> None:
        self._sealer = sealer
        self._server = server

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        return self._sealer.seal(purpose, record, lifetime_s=lifetime_s)

    def open(self, purpose: str, text: str) -> Any:
        try:
            return self._sealer.open(purpose, text)
        except ValueError:
            if purpose == SEALED_KEY and isinstance(self._server, ManagesClients):
                self._server.add_problem(FOREIGN_KEY_PROBLEM)
            raise


def _provider_config(settings: ProviderSettings) -> ProviderConfig:
    return ProviderConfig(
        issuer=settings.issuer,
        client_id=settings.client_id,
        scopes=settings.scopes,
        claims=ClaimMapping(tenant=settings.tenant_claim, user=settings.user_claim, scopes=settings.scope_claims),
        scope_map=settings.scope_map,
        max_login_s=settings.max_login_s,
    )


def _configured_client(settings: ClientSettings) -> ConfiguredClient:
    where = f"oauth.clients: {settings.client_id!r}"
    if settings.client_id.startswith("https://") or len(settings.client_id) > limits.CLIENT_ID_CHARACTERS:
        raise SettingsError(f"{where}: client_id must not be an https URL, and not be too long")
    try:
        for uri in settings.redirect_uris:
            check_redirect_uri(uri)
    except MetadataError as error:
        raise SettingsError(f"{where}: {error.message}") from None
    client = Client(
        client_id=settings.client_id, name=settings.name, redirect_uris=settings.redirect_uris, is_configured=True
    )
    return ConfiguredClient(client, _secret_reader(f"{where}: client_secret", settings.client_secret))


def _secret_reader(name: str, source: SecretSource | None) -> ReadSecret:
    if source is None:
        return no_secret
    from hubbub.governance.secret_provider import SecretProvider

    settings = SecretSettings(
        env=source.env, file=source.file, keyring=source.keyring, command=source.command, hub=True
    )
    secrets = SecretProvider({name: settings})

    async def read() -> Secret | None:
        return await secrets.resolve(name, None)

    return read
