"""Checks at the start that the secrets of `[oauth]` can be read, so that no login fails because of them later."""

from __future__ import annotations

from collections.abc import Iterator

from hubbub.errors import SettingsError
from hubbub.settings.governance import SecretSource
from hubbub.settings.oauth import OAuthSettings


async def check_secrets(settings: OAuthSettings) -> None:
    """Read each secret once.

    Raises: SettingsError, which names the setting and what is wrong, without the value.
    """
    from hubbub.governance.secret_sources import SourceFailed, read_source

    for name, source in _find_sources(settings):
        try:
            await read_source(source)
        except SourceFailed as error:
            raise SettingsError(f"{name} ({source.source_kind}) cannot be read: {error.message}") from None


def _find_sources(settings: OAuthSettings) -> Iterator[tuple[str, SecretSource]]:
    if settings.provider is not None and settings.provider.client_secret is not None:
        yield "oauth.provider.client_secret", settings.provider.client_secret
    for index, issuer in enumerate(settings.issuers):
        if issuer.introspection is not None:
            yield f"oauth.issuers[{index}].introspection.client_secret", issuer.introspection.client_secret
    for index, client in enumerate(settings.clients):
        if client.client_secret is not None:
            yield f"oauth.clients[{index}].client_secret", client.client_secret
