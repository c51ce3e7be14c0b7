"""Requests to a token endpoint: client authentication, DPoP with nonces, and the tokens of the response."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from hubbub.oauth import limits
from hubbub.oauth.client.credentials import ClientRegistration
from hubbub.oauth.client.dpop import DpopKey
from hubbub.oauth.documents import DocumentClient, DocumentResponse, ErrorResponse, basic_authorization
from hubbub.oauth.errors import AuthorizationFailed, OAuthError, TokenRequestRefused
from hubbub.oauth.metadata import parse_document, show_url
from hubbub.security.jose import JwtSigningKey, new_token_id

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_VISIBLE_ASCII: Final = re.compile(r"[!-~]+")
_SECRET_METHODS: Final = ("client_secret_basic", "client_secret_post")
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


class TokenResponse(msgspec.Struct, frozen=True):
    """The tokens that were issued."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: float | str | None = None
    refresh_token: str | None = None
    scope: str | None = None
    id_token: str | None = None
    issued_token_type: str | None = None

    def __repr__(self) -> str:
        return f"TokenResponse(token_type={self.token_type!r}, scope={self.scope!r})"

    def expires_at(self, now: float) -> float | None:
        """Return when the access token expires; None if that is unknown. Some servers send the number as a string."""
        try:
            seconds = float(self.expires_in or 0)
        except ValueError:
            return None
        return now + seconds if 0 < seconds < float("inf") else None


class TokenEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The token endpoint of one authorization server, for one client."""

    documents: DocumentClient
    issuer: str
    url: str
    registration: ClientRegistration
    supported_methods: tuple[str, ...] = ()
    signing_key: JwtSigningKey | None = None
    signing_key_id: str | None = None
    dpop: DpopKey | None = None
    clock: Callable[[], float]

    async def request(self, form: Mapping[str, str | None]) -> TokenResponse:
        """Request tokens.

        Raises:
            TokenRequestRefused: the server answered with an OAuth error.
            OAuthError: it could not be reached, or its response cannot be used.
        """
        response = await self._post(self.url, form)
        token = parse_document(response.body, TokenResponse, self.url)
        if not _VISIBLE_ASCII.fullmatch(token.access_token):
            raise AuthorizationFailed(
                f"The authorization server {show_url(self.issuer)} issued an invalid token; report this to its operator"
            )
        return token

    async def revoke(self, url: str, token: str, kind: str) -> None:
        """Revoke a token (RFC 7009).

        Raises: OAuthError.
        """
        await self._post(url, {"token": token, "token_type_hint": kind})

    async def _post(self, url: str, form: Mapping[str, str | None]) -> DocumentResponse:
        fields = {name: value for name, value in form.items() if value}
        response, error = await self._post_once(url, fields)
        if error.error == "use_dpop_nonce" and response.dpop_nonce and self.dpop is not None:
            # The request was refused before the code or refresh token in it was used, so it can be sent again.
            response, error = await self._post_once(url, fields)
        if response.is_success:
            return response
        if response.status >= _SERVER_ERROR or response.status == _TOO_MANY_REQUESTS:
            raise OAuthError(f"{show_url(url)} answered with status {response.status}; try again later")
        code = error.error or f"status {response.status}"
        raise TokenRequestRefused(show_url(self.issuer), code, error.error_description)

    async def _post_once(self, url: str, fields: Mapping[str, str]) -> tuple[DocumentResponse, ErrorResponse]:
        headers, all_fields = self._authenticate(fields)
        if self.dpop is not None:
            headers["DPoP"] = self.dpop.make_proof("POST", url)
        response = await self.documents.post_form(url, all_fields, headers=headers)
        if self.dpop is not None and response.dpop_nonce:
            self.dpop.nonce = response.dpop_nonce
        if response.is_success:
            return response, ErrorResponse()
        return response, response.error.mask_sent_values(all_fields, headers, self.registration.client_secret or "")

    def _authenticate(self, fields: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return headers and form with the authentication of the client."""
        client_id, secret = self.registration.client_id, self.registration.client_secret or ""
        match self._auth_method():
            case "private_key_jwt" if self.signing_key is not None:
                assertion = make_client_assertion(
                    self.signing_key, self.signing_key_id, client_id, self.issuer, self.clock()
                )
                return {}, {
                    **fields,
                    "client_id": client_id,
                    "client_assertion_type": ASSERTION_TYPE,
                    "client_assertion": assertion,
                }
            case "client_secret_basic":
                return basic_authorization(client_id, secret), dict(fields)
            case "client_secret_post":
                return {}, {**fields, "client_id": client_id, "client_secret": secret}
        # A workload may have no client id: its assertion says who it is.
        return {}, {**fields, "client_id": client_id} if client_id else dict(fields)

    def _auth_method(self) -> str:
        if self.signing_key is not None:
            return "private_key_jwt"
        if not self.registration.client_secret:
            return "none"
        if self.registration.auth_method in (*_SECRET_METHODS, "none"):
            return str(self.registration.auth_method)
        usable = [name for name in _SECRET_METHODS if name in self.supported_methods]
        return usable[0] if usable else "client_secret_basic"


def make_client_assertion(key: JwtSigningKey, key_id: str | None, client_id: str, issuer: str, now: float) -> str:
    """Return a JWT that authenticates a client (RFC 7523); its audience is the issuer, as RFC 7523bis requires."""
    claims: dict[str, Any] = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": int(now),
        "exp": int(now + limits.ASSERTION_S),
        "jti": new_token_id(),
    }
    header = {"typ": "JWT"} if key_id is None else {"typ": "JWT", "kid": key_id}
    return key.sign(claims, header=header)
