"""The logins on this machine: what `hubbub login`, `logout`, `whoami` and `doctor` share."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import click
import msgspec

from hubbub.cli.options import read_variable
from hubbub.cli.target import TargetOptions, UnknownServer, resolve_target
from hubbub.errors import SettingsError
from hubbub.protocol.host_origin import http_url
from hubbub.settings import format_suggestion
from hubbub.settings.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubbub.client.config import ServerConfig
    from hubbub.oauth.client.credential_store import FileCredentialStore
    from hubbub.oauth.client.credentials import CredentialKey, Credentials
    from hubbub.oauth.client.oauth_client import OAuthClient
    from hubbub.oauth.client.settings import OAuth

LoginStatus: TypeAlias = Literal["valid", "refreshable", "expired", "ended"]
upstream_key_option: Final = click.option(
    "--key-env",
    "key_variable",
    metavar="VARIABLE",
    help="With --upstream: the environment variable with your API key of the hub. Default: your login there.",
)
_USER_CLAIMS: Final = ("email", "preferred_username", "name", "sub")


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True):
    """One login, without its tokens."""

    server: str
    issuer: str
    user: str | None
    """From the ID token; None: the authorization server issued none."""
    subject: str | None
    client_id: str
    scopes: tuple[str, ...]
    requested_scopes: tuple[str, ...]
    expires: str | None
    """When the access token expires."""
    refreshes: bool
    """Whether it is refreshed automatically."""
    state: LoginStatus
    store: str | None


def hub_options(
    upstream: str | None, key_variable: str | None, *, config: str | None, allow_private_network: bool
) -> TargetOptions:
    """Return the options for the server, which is a hub if there is an upstream.

    Raises: SettingsError.
    """
    headers = {}
    if key_variable is not None:
        if upstream is None:
            raise SettingsError("--key-env needs --upstream: it is the key for the hub")
        headers["X-API-Key"] = Secret(read_variable(key_variable, "--key-env"))
    return TargetOptions(config=config, headers=headers, allow_private_network=allow_private_network)


def resolve_remote(target: str, options: TargetOptions) -> ServerConfig:
    """Return the config of the server with this URL, or with this name in the settings.

    Raises: SettingsError.
    """
    try:
        config = resolve_target(target, options)
    except UnknownServer as error:
        raise SettingsError(
            f"unknown server {target!r} (give the URL of a server, or the name of [servers.NAME] in hubbub.toml)"
            f"{format_suggestion(target, error.sections)}"
        ) from None
    if not config.is_remote:
        raise SettingsError(
            f"{target!r} is not a server with a URL, so it has no login; give a URL, or the name of a server with one"
        )
    return config


def make_oauth_client(config: ServerConfig, settings: OAuth) -> OAuthClient:
    """Make the OAuth client of a server."""
    from hubbub.oauth.client.oauth_client import OAuthClient, resolve_secret  # late: `hubbub --help` loads this module

    return OAuthClient(
        http_url(str(config.url)),
        settings,
        rules=config.egress,
        allow_private_network=config.allow_private_network,
        reveal=partial(resolve_secret, resolver=config.secrets),
    )


def auth_settings(config: ServerConfig) -> OAuth:
    """Return how to log in at a server: as the settings say, or by discovery."""
    from hubbub.oauth.client.settings import OAuth

    return config.auth if isinstance(config.auth, OAuth) else OAuth()


def find_resource_url(target: str, options: TargetOptions) -> str:
    """Return the URL under which the logins at a server are stored.

    Raises: SettingsError.
    """
    from hubbub.oauth.client.discovery import canonical_url

    return canonical_url(http_url(str(resolve_remote(target, options).url)))


async def read_logins(store: FileCredentialStore, resource: str | None = None) -> list[StoredLogin]:
    """Return the logins of this user, or only those at a server.

    Raises: SettingsError, if they cannot be read.
    """
    keys: Sequence[CredentialKey] = await store.list(resource=resource, principal="")
    kind = await store.kind()
    found = [(key, await store.load(key)) for key in keys]
    return [describe_login(key, credentials, kind) for key, credentials in found if credentials is not None]


def describe_login(key: CredentialKey, credentials: Credentials, store: str | None) -> StoredLogin:
    """Describe a login."""
    claims = _read_id_token(credentials.id_token)
    expires_at = credentials.expires_at
    has_expired = expires_at is not None and expires_at <= time.time()
    state: LoginStatus = "ended" if credentials.is_ended else "valid"
    if state == "valid" and has_expired:
        state = "refreshable" if credentials.refresh_token else "expired"
    return StoredLogin(
        server=key.resource,
        issuer=key.issuer,
        user=next((claims[name] for name in _USER_CLAIMS if name in claims), None),
        subject=claims.get("sub"),
        client_id=credentials.registration.client_id,
        scopes=credentials.scopes,
        requested_scopes=credentials.requested_scopes,
        expires=None if expires_at is None else _format_time(expires_at),
        refreshes=credentials.refresh_token is not None and state != "ended",
        state=state,
        store=store,
    )


def format_login(login: StoredLogin) -> list[str]:
    """Return the lines about a login."""
    lines = [
        login.server,
        f"  user      {login.user or 'not named by the authorization server'}",
        f"  issuer    {login.issuer}",
        f"  client    {login.client_id}",
        f"  scopes    {_format_scopes(login)}",
    ]
    expires = login.expires or "unknown"
    match login.state:
        case "valid" | "refreshable":
            lines.append(f"  expires   {'refreshed automatically; this token: ' if login.refreshes else ''}{expires}")
        case "expired":
            lines.append(f"  expires   {expires}: expired; run `hubbub login {login.server}`")
        case "ended":
            lines.append(f"  expires   ended by the authorization server; run `hubbub login {login.server}`")
    return [*lines, f"  store     {_format_store(login.store)}"]


def _format_scopes(login: StoredLogin) -> str:
    granted = {*login.scopes, "offline_access"} if login.refreshes else {*login.scopes}
    missing = [scope for scope in login.requested_scopes if scope not in granted]
    if not login.scopes:
        return f"none (requested: {' '.join(missing)})" if missing else "none requested"
    return " ".join(login.scopes) + (f" (not granted: {' '.join(missing)})" if missing else "")


def _format_store(kind: str | None) -> str:
    """Name the place of credentials."""
    return {"keyring": "encrypted file, with its key in the system's keyring", "file": "encrypted file"}.get(
        kind or "", "none"
    )


def _format_time(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "in the far future"


def _read_id_token(token: str | None) -> dict[str, str]:
    """Return the claims of an ID token that are text.

    Its signature is not verified: it came from the token endpoint itself (OpenID Connect Core 3.1.3.7), and is only
    shown to the person.
    """
    try:
        payload = (token or "").split(".")[1]
        claims: Any = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(claims, dict):
        return {}
    from hubbub.oauth.errors import printable

    return {name: printable(value) for name, value in claims.items() if isinstance(value, str) and printable(value)}
