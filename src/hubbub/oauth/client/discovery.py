"""Finds the authorization server of an MCP server: RFC 9728, then RFC 8414 or OpenID Connect.

Servers of the revision 2025-03-26 have no metadata of the resource. Their authorization server has the origin of the
MCP server, and default endpoints if it has no metadata either.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hubbub.oauth import limits
from hubbub.oauth.client.challenges import Challenge
from hubbub.oauth.documents import DocumentClient
from hubbub.oauth.errors import MetadataError, OAuthError
from hubbub.oauth.metadata import (
    RESOURCE_METADATA_PATH,
    AuthorizationServerMetadata,
    Document,
    ProtectedResourceMetadata,
    at_origin,
    check_endpoint,
    insert_path,
    is_same_issuer,
    parse_document,
    server_metadata_urls,
    show_url,
    valid_scopes,
)
from hubbub.protocol.host_origin import DEFAULT_PORTS

_ENDPOINTS: Final = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
)
_SERVER_ERROR: Final = 500


class DiscoveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server's authorization server."""

    issuer: str
    metadata: AuthorizationServerMetadata
    token_endpoint: str
    resource: str | None = None
    """The identifier of the MCP server; None for servers of 2025-03-26, which have none."""
    scopes_supported: tuple[str, ...] = ()
    requires_dpop: bool = False
    is_guessed: bool = False
    """Whether neither server publishes metadata, so that the MCP server may not use OAuth at all."""


async def discover(
    documents: DocumentClient,
    server_url: str,
    challenge: Challenge,
    *,
    issuer: str | None = None,
    issuer_documents: DocumentClient,
) -> DiscoveryResult:
    """Find the authorization server of an MCP server; `issuer` is the only one that may be used, if it is known.

    `issuer_documents` may reach other addresses than `documents` if the operator configured the issuer.

    Raises: OAuthError.
    """
    resource = await _find_resource(documents, server_url, challenge.resource_metadata)
    if resource is None:
        issuer_url = issuer or at_origin(server_url, "")
        metadata = await fetch_server_metadata(issuer_documents, issuer_url)
        found = metadata or _default_endpoints(issuer_url)
        checked = _check_server(found.issuer, found, None)
        return msgspec.structs.replace(checked, is_guessed=metadata is None)
    issuer_url = _select_issuer(resource, server_url, issuer)
    check_endpoint(issuer_url, f"The authorization server of {show_url(server_url)}")
    metadata = await fetch_server_metadata(issuer_documents, issuer_url)
    if metadata is None:
        raise MetadataError(
            f"The authorization server {show_url(issuer_url)} of {show_url(server_url)} has no metadata; "
            "ask its operator to publish it (RFC 8414)"
        )
    return _check_server(metadata.issuer, metadata, resource)


async def fetch_server_metadata(documents: DocumentClient, issuer: str) -> AuthorizationServerMetadata | None:
    """Fetch the metadata of an authorization server; None if it has none.

    Raises: OAuthError.
    """
    found = await _fetch_first(documents, server_metadata_urls(issuer), AuthorizationServerMetadata)
    if found is not None and not is_same_issuer(found.issuer, issuer):
        raise MetadataError(
            f"The metadata of the authorization server {show_url(issuer)} belongs to another one, "
            f"{show_url(found.issuer)}, so it is not used"
        )
    return found


def canonical_url(url: str) -> str:
    """Return the URL of a server as an identifier: host in lower case, no default port, query or fragment."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    netloc = f"[{host}]" if ":" in host else host
    if parts.port not in (None, DEFAULT_PORTS.get(parts.scheme)):
        netloc += f":{parts.port}"
    return urlunsplit((parts.scheme, netloc, "" if parts.path == "/" else parts.path, "", ""))


def is_resource_of(resource: str, server_url: str) -> bool:
    """Whether a server may call itself this resource: the same origin, and its own path or a part of it."""
    try:
        ours, theirs = urlsplit(canonical_url(server_url)), urlsplit(canonical_url(resource))
    except ValueError:
        return False
    if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc) or urlsplit(resource).fragment:
        return False
    return f"{ours.path}/".startswith(f"{theirs.path.rstrip('/')}/")


async def _find_resource(
    documents: DocumentClient, server_url: str, named_url: str
) -> ProtectedResourceMetadata | None:
    candidates = [insert_path(server_url, RESOURCE_METADATA_PATH), at_origin(server_url, RESOURCE_METADATA_PATH)]
    if named_url:
        if not is_resource_of(at_origin(named_url, ""), server_url):
            check_endpoint(named_url, "`resource_metadata` of WWW-Authenticate")
        candidates.insert(0, named_url)
    found = await _fetch_first(documents, list(dict.fromkeys(candidates)), ProtectedResourceMetadata)
    if found is not None and not is_resource_of(found.resource, server_url):
        raise MetadataError(
            f"{show_url(server_url)} published metadata of another resource, {show_url(found.resource)}, "
            f"so no token is requested for it; if both are the same server, use {show_url(found.resource)}"
        )
    return found


async def _fetch_first(documents: DocumentClient, urls: list[str], kind: type[Document]) -> Document | None:
    """Fetch the first document that exists. Other pages are skipped, because some sites answer every path with one.

    Raises: MetadataError, if only other pages were found.
    """
    unreadable: MetadataError | None = None
    for url in urls:
        response = await documents.get(url)
        if response.is_success:
            try:
                return parse_document(response.body, kind, url)
            except MetadataError as error:
                unreadable = unreadable or error
        elif response.status >= _SERVER_ERROR:
            raise OAuthError(f"{show_url(url)} answered with status {response.status}; try again later")
    if unreadable is not None:
        raise unreadable
    return None


def _select_issuer(resource: ProtectedResourceMetadata, server_url: str, issuer: str | None) -> str:
    issuers = resource.authorization_servers[: limits.AUTHORIZATION_SERVERS]
    if issuer is not None and issuers and not any(is_same_issuer(issuer, each) for each in issuers):
        raise MetadataError(
            f"{show_url(server_url)} uses the authorization server {show_url(issuers[0])}, not {show_url(issuer)}, "
            "for which credentials are configured; change `issuer` if that is intended"
        )
    return issuer or (issuers[0] if issuers else at_origin(server_url, ""))


def _default_endpoints(issuer: str) -> AuthorizationServerMetadata:
    return AuthorizationServerMetadata(
        issuer=issuer,
        authorization_endpoint=at_origin(issuer, "/authorize"),
        token_endpoint=at_origin(issuer, "/token"),
        registration_endpoint=at_origin(issuer, "/register"),
    )


def _check_server(
    issuer: str, metadata: AuthorizationServerMetadata, resource: ProtectedResourceMetadata | None
) -> DiscoveryResult:
    for name in _ENDPOINTS:
        if (url := getattr(metadata, name)) is not None:
            check_endpoint(url, f"`{name}` of {show_url(issuer)}")
    if metadata.token_endpoint is None:
        raise MetadataError(
            f"The metadata of the authorization server {show_url(issuer)} has no `token_endpoint`; "
            "ask its operator to publish it"
        )
    return DiscoveryResult(
        issuer=issuer,
        metadata=metadata,
        token_endpoint=metadata.token_endpoint,
        resource=None if resource is None else resource.resource,
        scopes_supported=() if resource is None else valid_scopes(resource.scopes_supported or ()),
        requires_dpop=resource is not None and resource.dpop_bound_access_tokens_required is True,
    )
