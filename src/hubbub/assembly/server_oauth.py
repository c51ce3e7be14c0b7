"""Converts a section `[servers.NAME.oauth]` to the `OAuth` of a client."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, overload

from hubbub import bounds
from hubbub.client.mcp_json import expand_text
from hubbub.errors import SettingsError
from hubbub.oauth import limits
from hubbub.oauth.client.credential_store import FileCredentialStore
from hubbub.oauth.client.settings import IdentityProvider, IssuerQuirks, OAuth, TokenSource
from hubbub.oauth.errors import OAuthError
from hubbub.settings.secret import Secret
from hubbub.settings.servers import ServerOAuthSettings

_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:"


def make_oauth(
    name: str, settings: ServerOAuthSettings, variables: Mapping[str, str], secret_names: Collection[str]
) -> OAuth:
    """Convert the section; a login is that of `hubbub login`.

    Raises: SettingsError.
    """

    def expand(secret: Secret | None, key: str) -> Secret | None:
        if secret is None:
            return None
        text = expand_text(secret.reveal(), variables, secret_names, server=name, key=f"oauth.{key}")
        return text if isinstance(text, Secret) else Secret(text)

    provider = settings.identity_provider
    provider_secret = expand(None if provider is None else provider.client_secret, "identity_provider.client_secret")
    private_key = None
    if settings.private_key_file is not None:
        private_key = Secret(_read(Path(settings.private_key_file), f"server {name!r}: oauth.private_key_file"))
    client_secret = expand(settings.client_secret, "client_secret")
    try:
        return _make_oauth(name, settings, client_secret, private_key, provider_secret)
    except SettingsError as error:
        raise SettingsError(f"server {name!r}: oauth: {error.message}") from None


@lru_cache(maxsize=bounds.HUB_KNOWN_SERVERS)
def _make_oauth(
    name: str,
    settings: ServerOAuthSettings,
    client_secret: Secret | None,
    private_key: Secret | None,
    provider_secret: Secret | None,
) -> OAuth:
    """Return the same object for the same settings, so that tokens outlive a reload that does not change them."""
    provider = settings.identity_provider
    return OAuth(
        grant=settings.grant,
        issuer=settings.issuer,
        client_id=settings.client_id,
        client_secret=client_secret,
        private_key=private_key,
        private_key_algorithm=settings.private_key_algorithm,
        private_key_id=settings.private_key_id,
        assertion=_token_source(name, "assertion_file", settings.assertion_file),
        subject_token=_token_source(name, "subject_token_file", settings.subject_token_file),
        subject_token_type=_TOKEN_TYPE + settings.subject_token_type,
        identity_provider=None
        if provider is None
        else IdentityProvider(
            issuer=provider.issuer,
            client_id=provider.client_id,
            client_secret=provider_secret,
            id_token=_token_source(name, "identity_provider.id_token_file", provider.id_token_file),
            token_endpoint=provider.token_endpoint,
        ),
        client_metadata_url=settings.client_metadata_url,
        scope=settings.scope,
        redirect_uri=settings.redirect_uri,
        dpop=settings.dpop,
        quirks={
            "*": IssuerQuirks(
                omit_resource=settings.omit_resource, prompt=settings.prompt, assume_pkce=settings.assume_pkce
            )
        },
        store=FileCredentialStore() if settings.grant == "authorization_code" else None,
        login_command=f"hubbub login {name}",
    )


@overload
def _token_source(server: str, key: str, file: str) -> TokenSource: ...
@overload
def _token_source(server: str, key: str, file: str | None) -> TokenSource | None: ...
def _token_source(server: str, key: str, file: str | None) -> TokenSource | None:
    """Return a function that reads the token in a file, which other programs replace before it expires."""
    if file is None:
        return None
    path = Path(file)

    def read_token(_issuer: str) -> Secret:
        try:
            return Secret(_read(path, f"server {server!r}: oauth.{key}"))
        except SettingsError as error:
            raise OAuthError(error.message) from None

    return read_token


def _read(path: Path, setting: str) -> str:
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(limits.SECRET_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be read: {error.strerror or error}") from None
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or len(data) > limits.SECRET_FILE_BYTES:
        raise SettingsError(
            f"{setting}: {path} is empty, larger than {limits.SECRET_FILE_BYTES // 1024} KiB or not ASCII text; "
            "give a PEM or JWK key, or a JWT"
        )
    return text
