"""Grants without a person. A refused grant is never replaced by another one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final

from hubbub.errors import HubbubError
from hubbub.oauth.client.credentials import ClientRegistration
from hubbub.oauth.client.discovery import DiscoveryResult, fetch_server_metadata
from hubbub.oauth.client.settings import OAuth, TokenSource
from hubbub.oauth.client.tokens import TokenEndpoint, TokenResponse
from hubbub.oauth.documents import DocumentClient
from hubbub.oauth.errors import AuthorizationFailed, MetadataError, OAuthError
from hubbub.oauth.metadata import check_endpoint, show_url
from hubbub.settings.secret import Secret

Reveal = Callable[[Secret], Awaitable[str]]

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"
ID_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:id_token"
ID_JAG_TYPE: Final = "urn:ietf:params:oauth:token-type:id-jag"


async def request_tokens(
    settings: OAuth,
    endpoint: TokenEndpoint,
    discovered: DiscoveryResult,
    scopes: tuple[str, ...],
    *,
    resource: str | None,
    reveal: Reveal,
    identity_documents: DocumentClient,
) -> TokenResponse:
    """Request tokens with the configured grant.

    Raises: OAuthError.
    """
    scope = " ".join(scopes)
    match settings.grant:
        case "client_credentials":
            form: dict[str, str | None] = {"grant_type": "client_credentials"}
        case "jwt_bearer":
            assertion = await provide_token(settings.assertion, "assertion", discovered.issuer, reveal)
            form = {"grant_type": JWT_BEARER, "assertion": assertion}
        case "token_exchange":
            form = {
                "grant_type": TOKEN_EXCHANGE,
                "subject_token": await provide_token(
                    settings.subject_token, "subject_token", discovered.issuer, reveal
                ),
                "subject_token_type": settings.subject_token_type,
                "requested_token_type": ACCESS_TOKEN_TYPE,
            }
        case _:
            assertion = await _request_id_jag(settings, endpoint, discovered, scope, reveal, identity_documents)
            form = {"grant_type": JWT_BEARER, "assertion": assertion}
    return await endpoint.request({**form, "scope": scope, "resource": resource})


async def provide_token(provider: TokenSource | None, name: str, audience: str, reveal: Reveal) -> str:
    """Return the token of a provider, for this audience.

    Raises: OAuthError, without the exception of the provider, because that may contain a secret.
    """
    try:
        found = provider(audience) if callable(provider) else provider
        if inspect.isawaitable(found):
            found = await found
        token = await reveal(found) if isinstance(found, Secret) else found
    except HubbubError as error:
        raise OAuthError(f"`{name}` failed: {error.message}") from None
    except Exception as error:
        raise OAuthError(f"`{name}` failed ({type(error).__name__})") from None
    if not isinstance(token, str) or not token:
        raise OAuthError(f"`{name}` must return a token, not {type(token).__name__}")
    return token


async def _request_id_jag(
    settings: OAuth,
    endpoint: TokenEndpoint,
    discovered: DiscoveryResult,
    scope: str,
    reveal: Reveal,
    documents: DocumentClient,
) -> str:
    """Exchange the person's ID token at the company's identity provider for an assertion (enterprise-managed)."""
    provider = settings.identity_provider
    if provider is None:
        raise AuthorizationFailed("The grant enterprise_managed needs `identity_provider`")
    url = provider.token_endpoint
    if url is None:
        metadata = await fetch_server_metadata(documents, provider.issuer)
        url = None if metadata is None else metadata.token_endpoint
        if url is None:
            raise MetadataError(
                f"The identity provider {show_url(provider.issuer)} has no metadata with a token endpoint; "
                "set its `token_endpoint`"
            )
        check_endpoint(url, f"`token_endpoint` of {show_url(provider.issuer)}")
    secret = provider.client_secret
    identity_endpoint = TokenEndpoint(
        documents=documents,
        issuer=provider.issuer,
        url=url,
        registration=ClientRegistration(
            client_id=provider.client_id,
            client_secret=await reveal(secret) if isinstance(secret, Secret) else secret,
            auth_method="client_secret_post" if secret else "none",
        ),
        clock=endpoint.clock,
    )
    issued = await identity_endpoint.request(
        {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG_TYPE,
            "subject_token": await provide_token(provider.id_token, "id_token", provider.issuer, reveal),
            "subject_token_type": ID_TOKEN_TYPE,
            "audience": discovered.issuer,
            "resource": discovered.resource,
            "scope": scope,
        }
    )
    if issued.issued_token_type not in (None, ID_JAG_TYPE):
        raise AuthorizationFailed(
            f"The identity provider {show_url(provider.issuer)} issued another kind of token than an ID-JAG; "
            "enable enterprise-managed authorization there"
        )
    return issued.access_token
