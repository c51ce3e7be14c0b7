"""Obtains a client id if none is configured: a Client ID Metadata Document, or dynamic registration (RFC 7591)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from hubbub.oauth import limits
from hubbub.oauth.client.credentials import ClientRegistration
from hubbub.oauth.client.discovery import DiscoveryResult
from hubbub.oauth.client.settings import OAuth
from hubbub.oauth.documents import DocumentClient
from hubbub.oauth.errors import AuthorizationFailed, printable
from hubbub.oauth.metadata import parse_document, show_url
from hubbub.protocol.host_origin import is_loopback

_PUBLIC_CLIENT_METHODS = ("none", "client_secret_basic", "client_secret_post")


class _RegistrationResponse(msgspec.Struct, frozen=True):
    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None


async def register_client(
    documents: DocumentClient,
    settings: OAuth,
    discovered: DiscoveryResult,
    *,
    redirect_uri: str,
    scopes: tuple[str, ...],
    previous: ClientRegistration | None,
    now: float,
) -> ClientRegistration:
    """Return the client id for an authorization server; `previous` is an earlier registration there.

    Raises: OAuthError.
    """
    metadata = discovered.metadata
    if settings.client_metadata_url is not None and metadata.client_id_metadata_document_supported:
        return ClientRegistration(
            client_id=settings.client_metadata_url, auth_method="none", source="metadata_document"
        )
    if previous is not None and _is_reusable(previous, redirect_uri, scopes, now):
        return previous
    if metadata.registration_endpoint is not None:
        return await _register_dynamically(documents, settings, discovered, redirect_uri, scopes)
    also = ", or `client_metadata_url`" if metadata.client_id_metadata_document_supported else ""
    raise AuthorizationFailed(
        f"The authorization server {show_url(discovered.issuer)} does not register clients by itself: register one "
        f"there with the redirect URI {show_url(redirect_uri)}, and set `client_id`{also}"
    )


def _is_reusable(registration: ClientRegistration, redirect_uri: str, scopes: tuple[str, ...], now: float) -> bool:
    has_expired = 0 < registration.secret_expires_at <= now
    has_scopes = not registration.scopes or set(scopes) <= set(registration.scopes)
    is_known = registration.source == "dynamic" and not registration.is_forgotten
    return is_known and has_scopes and not has_expired and redirect_uri in registration.redirect_uris


async def _register_dynamically(
    documents: DocumentClient, settings: OAuth, discovered: DiscoveryResult, redirect_uri: str, scopes: tuple[str, ...]
) -> ClientRegistration:
    metadata, url = discovered.metadata, str(discovered.metadata.registration_endpoint)
    supported = metadata.token_endpoint_auth_methods_supported or ("client_secret_basic",)
    method = next((name for name in _PUBLIC_CLIENT_METHODS if name in supported), "client_secret_basic")
    request: dict[str, Any] = {
        "client_name": settings.client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native" if is_loopback(urlsplit(redirect_uri).hostname or "") else "web",
    }
    # What a client may ever request: servers refuse a step-up to scopes that it was not registered with.
    usable = tuple(dict.fromkeys((*scopes, *discovered.scopes_supported[: limits.SCOPES])))
    if usable:
        request["scope"] = " ".join(usable)
    response = await documents.send(
        "POST",
        url,
        headers={"Accept": "application/json", "Content-Type": "application/json"},
        body=msgspec.json.encode(request),
    )
    if not response.is_success:
        reason = printable(f"{response.error.error} {response.error.error_description}")
        raise AuthorizationFailed(
            f"The authorization server {show_url(discovered.issuer)} refused to register this client "
            f"(status {response.status}{reason and f': {reason}'}); register one by hand, and set `client_id`"
        )
    registered = parse_document(response.body, _RegistrationResponse, url)
    return ClientRegistration(
        client_id=registered.client_id,
        client_secret=registered.client_secret,
        auth_method=registered.token_endpoint_auth_method or method,
        source="dynamic",
        redirect_uris=(redirect_uri,),
        secret_expires_at=registered.client_secret_expires_at or 0,
        scopes=usable,
    )
