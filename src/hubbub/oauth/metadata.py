"""The documents of OAuth discovery: protected resources (RFC 9728), authorization servers (RFC 8414, OpenID Connect).

Members that are not listed here are ignored. Nothing here fetches; `hubbub.oauth.documents` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hubbub.oauth import limits
from hubbub.oauth.errors import MetadataError, printable
from hubbub.protocol.host_origin import is_loopback

_VISIBLE_ASCII: Final = re.compile(r"[!-~]+")
Document = TypeVar("Document", bound=msgspec.Struct)

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
RESOURCE_METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
SERVER_METADATA_PATH: Final = "/.well-known/oauth-authorization-server"
OPENID_CONFIGURATION_PATH: Final = "/.well-known/openid-configuration"


class ProtectedResourceMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of a protected resource (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    bearer_methods_supported: tuple[str, ...] | None = None
    resource_name: str | None = None
    resource_documentation: str | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool | None = None


class AuthorizationServerMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of an authorization server (RFC 8414)."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None
    end_session_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    response_types_supported: tuple[str, ...] | None = None
    response_modes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    revocation_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    revocation_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    introspection_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    subject_types_supported: tuple[str, ...] | None = None
    id_token_signing_alg_values_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    authorization_grant_profiles_supported: tuple[str, ...] | None = None


def parse_document(body: bytes, kind: type[Document], url: str) -> Document:
    """Parse a document that was fetched from a URL.

    Raises: MetadataError.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MetadataError(f"The document at {show_url(url)} cannot be read: {error}") from None


def valid_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return those that are a `scope-token` (RFC 6749, 3.3): others could forge lines where scopes are shown."""
    return tuple(scope for scope in scopes if _SCOPE.fullmatch(scope))


def insert_path(url: str, well_known: str) -> str:
    """Insert a well-known path between the host and the path of a URL (RFC 8615): `https://h/p` -> `https://h/WK/p`."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, well_known + parts.path.rstrip("/"), "", ""))


def append_path(url: str, well_known: str) -> str:
    """Append a well-known path to the path of a URL, as OpenID Connect does."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + well_known, "", ""))


def server_metadata_urls(issuer: str) -> list[str]:
    """Return where the metadata of an issuer may be, in the order in which MCP clients look."""
    urls = (insert_path(issuer, SERVER_METADATA_PATH), insert_path(issuer, OPENID_CONFIGURATION_PATH))
    return list(dict.fromkeys((*urls, append_path(issuer, OPENID_CONFIGURATION_PATH))))


def at_origin(url: str, path: str) -> str:
    """Return the URL of a path at the origin of a URL."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def is_same_issuer(one: str, other: str) -> bool:
    """Whether two identifiers name the same issuer: equal, but for one slash at the end.

    The metadata of both is at the same URL (RFC 8414, 3.1), and many servers name an issuer in both ways, such as
    `https://accounts.google.com`.
    """
    return one.removesuffix("/") == other.removesuffix("/")


def show_url(url: str) -> str:
    """Return a URL for messages: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        netloc = f"[{host}]" if ":" in host else host
        netloc += "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an invalid URL"
    return urlunsplit((parts.scheme, netloc, parts.path, "", ""))


def check_endpoint(url: Any, name: str) -> str:
    """Check the URL of an endpoint from a metadata document: https, or http on this machine.

    Raises: MetadataError.
    """
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = parts.hostname or ""
        is_valid = bool(host) and not parts.username and not parts.password and not parts.fragment
        is_valid = is_valid and len(url) <= limits.URL_CHARACTERS and bool(_VISIBLE_ASCII.fullmatch(url))
        _ = parts.port
    except ValueError:
        is_valid, parts, host = False, urlsplit(""), ""
    if not is_valid or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        shown = show_url(url) if isinstance(url, str) else type(url).__name__
        raise MetadataError(f"{name} must be an https URL in ASCII without user and fragment, not {printable(shown)!r}")
    return str(url)
