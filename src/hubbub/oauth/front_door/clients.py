"""OAuth clients: what they declare about themselves, and which redirect URIs they may use."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub.oauth.errors import MetadataError, printable
from hubbub.oauth.front_door import limits
from hubbub.protocol.host_origin import is_loopback

GRANT_TYPES: Final = ("authorization_code", "refresh_token")
AUTH_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
PRIVATE_KEY_JWT: Final = "private_key_jwt"
"""An authentication method that only clients with documents can use."""
_PRIVATE_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_REFUSED_SCHEMES: Final = frozenset(
    ("about", "blob", "chrome", "data", "file", "filesystem", "ftp", "javascript", "mailto", "vbscript", "view-source",
     "ws", "wss")
)  # fmt: skip
_BROWSER_SCHEMES: Final = frozenset(
    ("brave", "ddgquicklink", "feed", "firefox", "googlechrome", "googlechromes", "intent", "jar", "microsoft-edge",
     "microsoft-edge-http", "microsoft-edge-https", "opera-http", "opera-https", "touch-http", "touch-https",
     "x-safari-http", "x-safari-https")
)  # fmt: skip
"""Browsers open the rest of such a URI as a web page, which the consent page would present as a local program."""
_URI: Final = re.compile(r"[!-~]+")
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0")
"""Letters that are invisible."""


class ClientMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client declares (RFC 7591); other members are ignored."""

    redirect_uris: tuple[str, ...]
    client_id: str | None = None
    client_name: str | None = None
    client_uri: str | None = None
    token_endpoint_auth_method: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    jwks_uri: str | None = None
    jwks: dict[str, Any] | None = None
    grant_types: tuple[str, ...] | None = None
    response_types: tuple[str, ...] | None = None
    scope: str | None = None
    application_type: str | None = None


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A registered or published client, with the methods that authlib's grants expect."""

    client_id: str
    name: str
    redirect_uris: tuple[str, ...]
    auth_method: str = "none"
    secret_hash: bytes | None = None
    verified_host: str = ""
    """The host that published the client's document; empty if its identity is not verified."""
    is_registered: bool = False
    """Whether it registered itself."""
    is_configured: bool = False
    """Whether the operator of this server named it in the settings."""
    jwks_uri: str = ""
    """The URL of the public keys that verify its assertions; empty: they are in `jwks`."""
    jwks: bytes = b""
    may_be_public: bool = False
    """Whether it may also use the method `none`."""
    is_authenticated: bool = False
    """Whether it has authenticated itself in the present request, by an assertion."""

    def may_skip_consent(self, redirect_uri: str) -> bool:
        """Whether a remembered consent is enough, because another program cannot take the role of this client.

        Every program of this machine can listen on a loopback port or claim a private-use scheme (RFC 8252 §8.6), and
        the id of a document is public; that of a registration is known to one installation.
        """
        return self.is_registered or urlsplit(redirect_uri).scheme == "https"

    # -- authlib's ClientMixin ------------------------------------------------------

    def get_default_redirect_uri(self) -> str | None:
        return None  # OAuth 2.1 clients always send it

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Whether this URI was declared: exactly, except for the port of a loopback address (RFC 8252 §7.3)."""
        return any(_is_same_redirect(declared, redirect_uri) for declared in self.redirect_uris)

    def check_client_secret(self, client_secret: str) -> bool:
        expected = self.secret_hash or bytes(32)
        return hmac.compare_digest(hash_secret(client_secret), expected) and self.secret_hash is not None

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        if self.is_configured and self.secret_hash is not None:
            return method != "none"
        # authlib does not know assertions: it finds no other method in the request.
        is_public = method == "none" and (self.may_be_public or self.is_authenticated)
        return method == self.auth_method or is_public

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        # Clients that do not declare `refresh_token` get one too: many forget it, and then log in every ten minutes.
        return grant_type in GRANT_TYPES


def hash_secret(secret: str) -> bytes:
    """Return what is stored of a random secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def parse_metadata(body: bytes) -> ClientMetadata:
    """Parse and check what a client declares.

    Raises: MetadataError.
    """
    try:
        metadata = msgspec.json.decode(body, type=ClientMetadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MetadataError(f"the client metadata cannot be read: {error}") from None
    if not 0 < len(metadata.redirect_uris) <= limits.REDIRECT_URIS:
        raise MetadataError(f"redirect_uris must have 1 to {limits.REDIRECT_URIS} URIs")
    for uri in metadata.redirect_uris:
        check_redirect_uri(uri)
    unknown = set(metadata.response_types or ("code",)) - {"code"}
    if unknown:
        raise MetadataError("response_types: only 'code' is supported")
    if "authorization_code" not in (metadata.grant_types or GRANT_TYPES):
        raise MetadataError("grant_types must contain 'authorization_code'")
    return metadata


def check_redirect_uri(uri: str) -> None:
    """Refuse redirect URIs to which codes must never be sent.

    Raises: MetadataError.
    """
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise MetadataError("redirect_uris: one is not a URI") from None
    problem = ""
    if len(uri) > limits.PARAMETER_CHARACTERS or not _URI.fullmatch(uri) or "\\" in uri:
        problem = "is too long or has characters that a URI must not have"
    elif "#" in uri:
        problem = "must not have a fragment"
    elif "@" in parts.netloc:
        problem = "must not have a user"
    elif "%" in parts.netloc:
        problem = "must not have an encoded host"  # browsers open the decoded host, which the page does not show
    elif parts.scheme in ("http", "https"):
        if not host or (parts.scheme == "http" and not is_loopback(host)):
            problem = "must use https, or http on a loopback address"
    elif not _PRIVATE_SCHEME.fullmatch(parts.scheme) or parts.scheme in _REFUSED_SCHEMES | _BROWSER_SCHEMES:
        problem = "must use https, http on a loopback address, or a scheme of its own"
    if problem:
        raise MetadataError(f"redirect_uris: {printable(uri)!r} {problem}")


def _is_same_redirect(declared: str, sent: str) -> bool:
    if declared == sent:
        return True
    try:
        one, other = urlsplit(declared), urlsplit(sent)
        _ = other.port
    except ValueError:
        return False
    if one.scheme != "http" or not is_loopback(one.hostname or "") or not _URI.fullmatch(sent) or "#" in sent:
        return False
    # Compared as text up to the port, so that no parser's reading of the host can differ from the browser's.
    return _without_port(one.netloc) == _without_port(other.netloc) and one._replace(netloc="") == other._replace(
        netloc=""
    )


def _without_port(netloc: str) -> str:
    host, colon, port = netloc.rpartition(":")
    return host if colon and port.isdigit() and port.isascii() else netloc


def redirect_target(uri: str) -> str:
    """Return the part of a redirect URI that says where it leads: its host, or its private-use scheme."""
    parts = urlsplit(uri)
    return (parts.hostname or "") if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def is_local_redirect(uri: str) -> bool:
    """Whether a redirect URI leads to a program on the person's computer."""
    parts = urlsplit(uri)
    return parts.scheme != "https" and (parts.scheme != "http" or is_loopback(parts.hostname or ""))


def display_name(metadata: ClientMetadata, fallback: str) -> str:
    """Return the name of a client for pages: one short line."""
    name = printable(metadata.client_name or "")[: limits.CLIENT_NAME_CHARACTERS]
    has_letters = any(character.isalnum() and character not in _BLANK_LETTERS for character in name)
    return name if has_letters else fallback


def registration_response(
    client: Client, metadata: ClientMetadata, secret: str | None, issued_at: int
) -> dict[str, Any]:
    """Return the members of a registration's response (RFC 7591 §3.2.1)."""
    response: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": issued_at,
        "client_name": client.name,
        "redirect_uris": metadata.redirect_uris,
        "grant_types": GRANT_TYPES,
        "response_types": ("code",),
        "token_endpoint_auth_method": client.auth_method,
    }
    if metadata.scope:
        response["scope"] = metadata.scope
    if metadata.application_type:
        response["application_type"] = metadata.application_type
    if secret is not None:
        response |= {"client_secret": secret, "client_secret_expires_at": 0}
    return response
