"""Converts a section `[servers.NAME.oauth]` to the `OAuth` of a client."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hubbub import bounds
from hubbub.client.mcp_json import expand_text
from hubbub.errors import SettingsError
from hubbub.oauth import limits
from hubbub.oauth.client.credential_store import FileCredentialStore
from hubbub.oauth.client.settings import IssuerQuirks, OAuth
from hubbub.oauth.errors import OAuthError
from hubbub.settings.secret import Secret
from hubbub.settings.servers import ServerOAuthSettings


def make_oauth(
    name: str, settings: ServerOAuthSettings, variables: Mapping[str, str], secret_names: Collection[str]
) -> OAuth:
    """Convert the section; a login is that of `hubbub login`.

    Raises: SettingsError.
    """
    secret: Secret | None = None
    if settings.client_secret is not None:
        text = expand_text(
            settings.client_secret.reveal(), variables, secret_names, server=name, key="oauth.client_secret"
        )
        secret = text if isinstance(text, Secret) else Secret(text)
    private_key = None
    if settings.private_key_file is not None:
        private_key = Secret(_read(Path(settings.private_key_file), f"server {name!r}: oauth.private_key_file"))
    try:
        return _make_oauth(name, settings, secret, private_key)
    except SettingsError as error:
        raise SettingsError(f"server {name!r}: oauth: {error.message}") from None


@lru_cache(maxsize=bounds.HUB_KNOWN_SERVERS)
def _make_oauth(
    name: str, settings: ServerOAuthSettings, client_secret: Secret | None, private_key: Secret | None
) -> OAuth:
    """Return the same object for the same settings, so that tokens outlive a reload that does not change them."""
    fields: dict[str, Any] = {}
    if settings.assertion_file is not None:
        path = Path(settings.assertion_file)

        def read_assertion(_issuer: str) -> Secret:
            try:
                return Secret(_read(path, f"server {name!r}: oauth.assertion_file"))
            except SettingsError as error:
                raise OAuthError(error.message) from None

        fields["assertion"] = read_assertion
    if settings.grant == "authorization_code":
        fields["store"] = FileCredentialStore()
    return OAuth(
        grant=settings.grant,
        issuer=settings.issuer,
        client_id=settings.client_id,
        client_secret=client_secret,
        private_key=private_key,
        private_key_algorithm=settings.private_key_algorithm,
        private_key_id=settings.private_key_id,
        client_metadata_url=settings.client_metadata_url,
        scope=settings.scope,
        redirect_uri=settings.redirect_uri,
        dpop=settings.dpop,
        quirks={
            "*": IssuerQuirks(
                omit_resource=settings.omit_resource, prompt=settings.prompt, assume_pkce=settings.assume_pkce
            )
        },
        **fields,
    )


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
