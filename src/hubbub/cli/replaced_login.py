"""Logs in again: uses the client that is registered already, and revokes the tokens of the previous login."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hubbub.cli.terminal import note
from hubbub.oauth.errors import OAuthError, TokenRequestRefused

if TYPE_CHECKING:
    from hubbub.oauth.client.browser_login import BrowserLogin
    from hubbub.oauth.client.credential_store import FileCredentialStore
    from hubbub.oauth.client.credentials import Credentials
    from hubbub.oauth.client.oauth_client import OAuthClient


async def replace_login(
    client: OAuthClient, store: FileCredentialStore, handler: BrowserLogin, challenge: str
) -> Credentials:
    """Log in and store the credentials; then revoke the previous ones.

    Raises: OAuthError, SettingsError.
    """
    from hubbub.oauth.client.authorizer import OAuthAuthorizer  # late: `hubbub --help` loads this module

    before = {key: await store.load(key) for key in await store.list(resource=client.resource, principal="")}
    handler.registered_uris = [uri for each in before.values() if each for uri in each.registration.redirect_uris]
    credentials = await OAuthAuthorizer(client).log_in(challenge)
    replaced = before.get(client.key(credentials.issuer))
    if replaced is None or replaced.revocation_endpoint is None:
        return credentials
    has_same_client = replaced.registration.client_id == credentials.registration.client_id
    if has_same_client and credentials.refresh_token is None:
        return credentials  # without a refresh, nothing shows whether the new tokens are revoked too
    with contextlib.suppress(OAuthError):
        await client.revoke(replaced)
    if not has_same_client:
        return credentials
    # Some authorization servers then revoke all tokens of this client and user, including the new ones.
    key = client.key(credentials.issuer)
    try:
        async with store.lock(key):
            credentials = await client.refresh(credentials)
            await store.save(key, credentials)
    except TokenRequestRefused:
        note("The authorization server revoked the new login together with the previous one: log in again.")
        return await OAuthAuthorizer(client).log_in(challenge)
    except OAuthError:
        return credentials
    return credentials
