"""The authorization code flow with PKCE, in two halves: the URL to open, and the redirect that comes back.

`PendingLogin` is all that the second half needs, so another process can finish a login. It contains secrets: seal it.
The only client module that loads authlib.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from hubbub.oauth import limits
from hubbub.oauth.client.challenges import Challenge
from hubbub.oauth.client.credentials import ClientRegistration
from hubbub.oauth.client.discovery import DiscoveryResult
from hubbub.oauth.client.settings import IssuerQuirks
from hubbub.oauth.errors import AuthorizationFailed, MetadataError, printable
from hubbub.oauth.metadata import show_url

OFFLINE_ACCESS: Final = "offline_access"
_VERIFIER_BYTES: Final = 48
_STATE_BYTES: Final = 32


class PendingLogin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A login whose redirect has not arrived yet."""

    server_url: str
    principal: str = ""
    issuer: str
    requires_issuer: bool
    """Whether the redirect must name its issuer (RFC 9207)."""
    registration: ClientRegistration
    redirect_uri: str
    state: str
    code_verifier: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    auth_methods: tuple[str, ...] = ()
    resource: str | None = None
    scopes: tuple[str, ...] = ()
    dpop_key: str | None = None
    created_at: float

    def __repr__(self) -> str:
        return f"PendingLogin(server_url={show_url(self.server_url)!r}, issuer={show_url(self.issuer)!r})"


def new_state() -> str:
    """Return an unguessable `state`."""
    return secrets.token_urlsafe(_STATE_BYTES)


def new_code_verifier() -> str:
    """Return an unguessable PKCE verifier."""
    return secrets.token_urlsafe(_VERIFIER_BYTES)


def check_login_support(discovered: DiscoveryResult, quirks: IssuerQuirks) -> str:
    """Return the authorization endpoint.

    Raises: MetadataError, if it does not support the authorization code flow with PKCE.
    """
    metadata, shown = discovered.metadata, show_url(discovered.issuer)
    if metadata.authorization_endpoint is None:
        raise MetadataError(
            f"The authorization server {shown} has no `authorization_endpoint`; use another grant, such as "
            "client_credentials"
        )
    methods = metadata.code_challenge_methods_supported
    if methods is None and not (discovered.is_guessed or quirks.assume_pkce):
        raise MetadataError(
            f"The metadata of the authorization server {shown} does not say whether it supports PKCE "
            "(`code_challenge_methods_supported`), which MCP requires; if it does, set `assume_pkce`"
        )
    if methods is not None and "S256" not in methods:
        raise MetadataError(
            f"The authorization server {shown} does not support PKCE with S256; ask its operator to enable it"
        )
    return metadata.authorization_endpoint


def select_scopes(configured: str | None, challenge: Challenge, discovered: DiscoveryResult) -> tuple[str, ...]:
    """Return the scopes to request: configured, or of the challenge, or all of the resource; empty to leave it out.

    `offline_access` is requested if the authorization server lists it, because some issue refresh tokens only then.
    """
    if configured is not None:
        return tuple(dict.fromkeys(configured.split()))
    has_offline_access = OFFLINE_ACCESS in (discovered.metadata.scopes_supported or ())
    offered = challenge.scopes or discovered.scopes_supported[: limits.SCOPES]
    scopes = tuple(scope for scope in offered if scope != OFFLINE_ACCESS)
    # By itself it would replace the default scopes of the server.
    return (*scopes, OFFLINE_ACCESS) if scopes and has_offline_access else scopes


def make_authorization_url(endpoint: str, pending: PendingLogin, quirks: IssuerQuirks, dpop_thumbprint: str) -> str:
    """Return the URL that the person opens."""
    from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
    from authlib.oauth2.rfc7636 import create_s256_code_challenge

    prompt = quirks.prompt
    if prompt is None and OFFLINE_ACCESS in pending.scopes:
        prompt = "consent"  # OpenID Connect Core 11: without it, the scope is ignored
    return str(
        prepare_grant_uri(
            endpoint,
            pending.registration.client_id,
            "code",
            redirect_uri=pending.redirect_uri,
            scope=list(pending.scopes),
            state=pending.state,
            code_challenge=create_s256_code_challenge(pending.code_verifier),
            code_challenge_method="S256",
            resource=pending.resource,
            dpop_jkt=dpop_thumbprint or None,
            prompt=prompt or None,
            **quirks.authorization_params,
        )
    )


def read_redirect(pending: PendingLogin, redirect: str, now: float) -> str:
    """Check a redirect, and return its code. `redirect` is the URL, or only its query.

    Raises: AuthorizationFailed.
    """
    shown = show_url(pending.issuer)
    if now - pending.created_at > limits.LOGIN_S:
        raise AuthorizationFailed(f"The login took longer than {limits.LOGIN_S / 60:g} minutes; start it again")
    parameters = _parse_redirect(pending, redirect)
    if not hmac.compare_digest(parameters.get("state", "").encode(), pending.state.encode()):
        raise AuthorizationFailed("The redirect does not belong to this login (`state` differs); start it again")
    _check_issuer(pending, parameters.get("iss"))
    if "error" in parameters:
        code, description = printable(parameters["error"]), printable(parameters.get("error_description", ""))
        detail = f" ({description})" if description else ""
        if code == "access_denied":
            raise AuthorizationFailed(f"The login at {shown} was cancelled: {code}{detail}")
        raise AuthorizationFailed(f"The authorization server {shown} refused the login: {code}{detail}")
    if not parameters.get("code"):
        raise AuthorizationFailed(
            f"The redirect of the authorization server {shown} has no code; start the login again"
        )
    return parameters["code"]


def _parse_redirect(pending: PendingLogin, redirect: str) -> Mapping[str, str]:
    redirect = redirect.strip()
    try:
        expected, parts = urlsplit(pending.redirect_uri), urlsplit(redirect)
    except ValueError:
        raise AuthorizationFailed("The redirect is not a URL; copy the whole address") from None
    query = parts.query
    if parts.scheme and parts.netloc:
        if (parts.scheme, parts.netloc, parts.path or "/") != (expected.scheme, expected.netloc, expected.path or "/"):
            raise AuthorizationFailed(
                f"The redirect went to {show_url(redirect)}, not to {show_url(pending.redirect_uri)}; start the login "
                "again"
            )
    elif not query:
        query = redirect
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=limits.REDIRECT_PARAMETERS)
    except ValueError:
        raise AuthorizationFailed("The redirect has too many parameters; start the login again") from None
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise AuthorizationFailed("The redirect has a parameter twice; start the login again")
    return parameters


def _check_issuer(pending: PendingLogin, issuer: str | None) -> None:
    """RFC 9207, against mix-up attacks: the redirect must come from the server to which the person was sent."""
    shown = show_url(pending.issuer)
    if issuer is None and pending.requires_issuer:
        raise AuthorizationFailed(
            f"The redirect does not name its authorization server (`iss`), although {shown} always does; "
            "it may come from another server, so the login was stopped"
        )
    if issuer is not None and issuer != pending.issuer:
        raise AuthorizationFailed(
            f"The redirect names the authorization server {show_url(issuer)} (`iss`), but the login was started at "
            f"{shown}, so it was stopped"
        )
