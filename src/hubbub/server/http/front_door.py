"""Makes the front door of a server (its OAuth authorization server) from the settings, and adds its routes."""

from __future__ import annotations

from typing import Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.net.egress_rules import NO_RULES
from hubbub.oauth.front_door.access_tokens import FindPaths
from hubbub.oauth.front_door.config import FrontDoorConfig, ProviderConfig
from hubbub.oauth.front_door.front_door import FrontDoor
from hubbub.oauth.front_door.provider import ReadSecret, no_secret
from hubbub.ports import Sealer
from hubbub.security.api_keys import ApiKeys
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.security.token_claims import ClaimMapping
from hubbub.server.public_routes import PublicRoute
from hubbub.server.server import Server
from hubbub.settings.folders import data_folder
from hubbub.settings.governance import SecretSettings
from hubbub.settings.oauth import OAuthSettings, ProviderSettings
from hubbub.settings.secret import Secret

DATABASE_FILE: Final = "oauth.db"
_SECRET: Final = "oauth.provider.client_secret"


def make_front_door(
    server: Server,
    settings: OAuthSettings,
    *,
    sealer: Sealer,
    identity: TenantIdentity | None,
    api_keys: ApiKeys | None,
    find_paths: FindPaths = lambda audience: None,
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
        database=settings.database or f"sqlite:///{data_folder() / DATABASE_FILE}",
        scopes=settings.scopes,
        provider=None if provider is None else _provider_config(provider),
        dpop=settings.dpop != "off",
    )
    keys = None if provider is not None else api_keys
    front_door = FrontDoor(
        config,
        sealer=sealer,
        identity=identity,
        identify_key=None if keys is None else keys.identify,
        is_key_valid=(lambda principal: False) if keys is None else keys.is_current,
        key_generation=(lambda: 0) if keys is None else lambda: keys.generation,
        read_secret=_secret_reader(provider),
        find_paths=find_paths,
        rules=lambda: server.egress or NO_RULES,
    )
    for path, handlers in front_door.pages.items():
        server.public_routes[path] = PublicRoute(handlers)
    for path, handlers in front_door.endpoints.items():
        server.public_routes[path] = PublicRoute(handlers, any_origin=True)
    return front_door


def _provider_config(settings: ProviderSettings) -> ProviderConfig:
    return ProviderConfig(
        issuer=settings.issuer,
        client_id=settings.client_id,
        scopes=settings.scopes,
        claims=ClaimMapping(tenant=settings.tenant_claim, user=settings.user_claim, scopes=settings.scope_claims),
        scope_map=settings.scope_map,
        max_session_s=settings.max_session_s,
    )


def _secret_reader(provider: ProviderSettings | None) -> ReadSecret:
    source = None if provider is None else provider.client_secret

    if source is None:
        return no_secret
    from hubbub.governance.secret_provider import SecretProvider

    settings = SecretSettings(
        env=source.env, file=source.file, keyring=source.keyring, command=source.command, hub=True
    )
    secrets = SecretProvider({_SECRET: settings})

    async def read() -> Secret | None:
        return await secrets.resolve(_SECRET, None)

    return read
