"""The identity provider at which people log in: OpenID Connect, authorization code with PKCE and nonce.

Its tokens are used to learn who logged in, and never given to a client. Only a refresh token is stored, so that
the person can be checked again (`provider_logins.py`).
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from hubbub import bounds
from hubbub.net.egress import ANY_ADDRESS
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.oauth.documents import DocumentClient, DocumentResponse, ErrorResponse, egress_for_named_url
from hubbub.oauth.errors import (
    AuthorizationFailed,
    MetadataError,
    OAuthError,
    ServerUnavailable,
    TokenRequestRefused,
)
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.config import ProviderConfig
from hubbub.oauth.front_door.records import User
from hubbub.oauth.metadata import (
    OPENID_CONFIGURATION_PATH,
    AuthorizationServerMetadata,
    append_path,
    check_endpoint,
    parse_document,
)
from hubbub.protocol.calls import ANONYMOUS
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.security.jose import InvalidJwt, hash_base64url, parse_jwt, read_key_set, verify_with_keys
from hubbub.security.jwks import FetchedKeys, KeysUnavailable
from hubbub.security.tenant_identity import TenantIdentity, is_user_name
from hubbub.security.token_claims import InvalidClaim, make_token_principal, parse_claims, read_scopes, read_time
from hubbub.settings.secret import Secret

_OFFLINE_ACCESS: Final = "offline_access"
_LOGIN_ENDED: Final = frozenset(("invalid_grant", "interaction_required", "login_required", "consent_required"))
_OK: Final = 200
_SERVER_ERROR: Final = 500
_ID_TOKEN_TYPES: Final = frozenset(("jwt",))

ReadSecret = Callable[[], Awaitable[Secret | None]]
"""Returns the secret of this server at the provider; None if it has none."""

logger = logging.getLogger("hubbub.oauth")


async def no_secret() -> Secret | None:
    """Return None, because a public client has no secret."""
    return None


class LoginEnded(AuthorizationFailed):
    """The provider no longer confirms the login of a person."""


class AccountRefused(AuthorizationFailed):
    """The account of a person cannot be used here; the message says why, and is for the person."""


class ProviderLogin(msgspec.Struct, frozen=True):
    """A person who logged in."""

    user: User
    subject: str
    """The person's identifier at the provider."""
    refresh_token: str
    """With which the person can be checked again; empty if the provider issued none."""


class _TokenResponse(ErrorResponse, frozen=True):
    id_token: str = ""
    access_token: str = ""
    refresh_token: str = ""


class Provider:
    """One provider. Its metadata and keys are fetched when they are needed, and used for a while."""

    def __init__(
        self,
        config: ProviderConfig,
        redirect_uri: str,
        *,
        read_secret: ReadSecret,
        identity: TenantIdentity | None = None,
        rules: Callable[[], EgressRules] = lambda: NO_RULES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._redirect_uri = redirect_uri
        self._identity = identity
        self._rules = rules
        self._read_secret = read_secret
        self._clock = clock
        self._metadata: AuthorizationServerMetadata | None = None
        self._discover_at = float("-inf")
        self._discovery: asyncio.Task[AuthorizationServerMetadata] | None = None
        self._keys: FetchedKeys | None = None

    @property
    def name(self) -> str:
        """Its host, as a name for pages."""
        return urlsplit(self._config.issuer).hostname or self._config.issuer

    async def login_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Return the URL at which a person logs in.

        Raises: OAuthError.
        """
        metadata = await self._discover()
        endpoint = check_endpoint(metadata.authorization_endpoint, "authorization_endpoint")
        parameters = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._scopes(metadata)),
            "state": state,
            "nonce": nonce,
            "code_challenge": hash_base64url(verifier.encode()),
            "code_challenge_method": "S256",
        }
        return endpoint + ("&" if "?" in endpoint else "?") + urlencode(parameters)

    def _scopes(self, metadata: AuthorizationServerMetadata) -> list[str]:
        scopes = dict.fromkeys(("openid", *self._config.scopes))
        if _OFFLINE_ACCESS not in (metadata.scopes_supported or ()):
            scopes.pop(_OFFLINE_ACCESS, None)  # some refuse scopes that they do not know
        return list(scopes)

    async def check_response_issuer(self, issuer: str | None) -> None:
        """Refuse the response of another provider (RFC 9207).

        Raises: AuthorizationFailed, OAuthError.
        """
        metadata = await self._discover()
        is_promised = bool(metadata.authorization_response_iss_parameter_supported)
        if (issuer is None and is_promised) or (issuer is not None and issuer != metadata.issuer):
            raise AuthorizationFailed(
                "The response did not come from the identity provider of this server; start the login again"
            )

    async def finish_login(self, code: str, *, nonce: str, verifier: str) -> ProviderLogin:
        """Redeem a code of the provider; return who logged in.

        Raises: OAuthError.
        """
        metadata = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        tokens = await self._request_tokens(metadata, form)
        if not tokens.id_token:
            raise AuthorizationFailed(
                f"The identity provider {self.name} answered without an ID token; ask the operator of this server to "
                "check its registration there"
            )
        try:
            claims = await self._verify(metadata, tokens.id_token, nonce)
            claims = await self._complete(metadata, claims, tokens.access_token)
            return ProviderLogin(self._make_user(claims), claims["sub"], tokens.refresh_token)
        except (InvalidJwt, InvalidClaim) as error:
            logger.warning("oauth_id_token_refused", extra={"issuer": self._config.issuer, "reason": str(error)})
            subject = "The ID token of your login" if isinstance(error, InvalidJwt) else "Your account"
            refused = AuthorizationFailed if isinstance(error, InvalidJwt) else AccountRefused
            raise refused(
                f"{subject} cannot be used at this server: {error}. Ask its operator to check [oauth.provider]"
            ) from None
        except KeysUnavailable:
            raise OAuthError(f"The keys of {self.name} cannot be fetched at the moment; try again") from None

    async def refresh_login(self, refresh_token: str, subject: str, user: User) -> ProviderLogin:
        """Check a person who logged in before; return the login with the current claims.

        If the response has no claims, its user is `user`.

        Raises: LoginEnded, OAuthError.
        """
        metadata = await self._discover()
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        try:
            tokens = await self._request_tokens(metadata, form)
            claims: dict[str, Any] = {"sub": subject}
            if tokens.id_token:
                claims = await self._verify(metadata, tokens.id_token, None)
                if claims["sub"] != subject:
                    raise InvalidJwt("it has another subject than before")
            found = await self._complete(metadata, claims, tokens.access_token)
            if tokens.id_token or found != claims:
                user = self._make_user(found)
        except TokenRequestRefused as error:
            if error.code in _LOGIN_ENDED:
                raise LoginEnded(error.message) from None
            raise
        except (InvalidJwt, InvalidClaim) as error:
            raise LoginEnded(f"The account is no longer accepted: {error}") from None
        except KeysUnavailable:
            raise OAuthError(f"The keys of {self.name} cannot be fetched at the moment") from None
        return ProviderLogin(user, subject, tokens.refresh_token or refresh_token)

    # -- discovery -----------------------------------------------------------------

    async def _discover(self) -> AuthorizationServerMetadata:
        """Return the metadata. Known metadata is returned at once, and fetched again in the background.

        Raises: OAuthError.
        """
        if self._discovery is None and self._clock() >= self._discover_at:
            self._discovery = asyncio.create_task(self._refresh_metadata(), name="oauth provider")
            self._discovery.add_done_callback(self._on_discovered)
        if self._metadata is not None:
            return self._metadata
        assert self._discovery is not None
        # Shielded: cancelling one login must not cancel the request that others wait for.
        return await asyncio.shield(self._discovery)

    def _on_discovered(self, task: asyncio.Task[AuthorizationServerMetadata]) -> None:
        self._discovery = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio would warn if no login waits for it

    async def _refresh_metadata(self) -> AuthorizationServerMetadata:
        try:
            metadata = await self._fetch_metadata()
        except OAuthError as error:
            if self._metadata is None:
                raise
            logger.warning("oauth_provider_not_refreshed", extra={"issuer": self._config.issuer, "reason": str(error)})
            self._discover_at = self._clock() + limits.PROVIDER_METADATA_RETRY_S
            return self._metadata
        if self._keys is None or self._metadata is None or metadata.jwks_uri != self._metadata.jwks_uri:
            self._keys = FetchedKeys(str(metadata.jwks_uri), self._fetch, read_key_set, monotonic=self._clock)
        self._metadata, self._discover_at = metadata, self._clock() + limits.PROVIDER_METADATA_TTL_S
        return metadata

    async def _fetch_metadata(self) -> AuthorizationServerMetadata:
        url = append_path(self._config.issuer, OPENID_CONFIGURATION_PATH)
        response = await DocumentClient(ANY_ADDRESS, self._rules()).get(url)
        if response.status != _OK:
            raise OAuthError(f"The identity provider {self.name} answered with status {response.status}")
        metadata = parse_document(response.body, AuthorizationServerMetadata, url)
        self._check(metadata)
        return metadata

    def _check(self, metadata: AuthorizationServerMetadata) -> None:
        if metadata.issuer != self._config.issuer:
            raise MetadataError(
                "The metadata of the identity provider belongs to another issuer; set `issuer` of [oauth.provider] "
                "to exactly the `issuer` of its discovery document"
            )
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            check_endpoint(getattr(metadata, name), name)

    def _client(self, url: str) -> DocumentClient:
        rules = self._rules()
        return DocumentClient(egress_for_named_url(url, self._config.issuer, rules), rules)

    async def _fetch(self, url: str) -> bytes:
        response = await self._client(url).get(url)
        if response.status != _OK:
            raise OAuthError(f"the keys were answered with status {response.status}")
        return response.body

    # -- tokens ----------------------------------------------------------------------

    async def _request_tokens(self, metadata: AuthorizationServerMetadata, form: dict[str, str]) -> _TokenResponse:
        headers: dict[str, str] = {}
        secret = await self._read_secret()
        methods = metadata.token_endpoint_auth_methods_supported or ("client_secret_basic",)
        if secret is None:
            form["client_id"] = self._config.client_id
        elif "client_secret_basic" in methods:
            # Both are form-encoded before they are joined: RFC 6749 §2.3.1.
            pair = f"{quote(self._config.client_id, safe='')}:{quote(secret.reveal(), safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form |= {"client_id": self._config.client_id, "client_secret": secret.reveal()}
        url = str(metadata.token_endpoint)
        response = await self._client(url).post_form(url, form, headers=headers)
        tokens = self._parse(response)
        if not response.is_success or tokens.error:
            refusal = tokens.mask_sent_values(form, headers, "" if secret is None else secret.reveal())
            raise TokenRequestRefused(self._config.issuer, refusal.error, refusal.error_description)
        return tokens

    def _parse(self, response: DocumentResponse) -> _TokenResponse:
        try:
            return msgspec.json.decode(response.body, type=_TokenResponse)
        except (msgspec.DecodeError, RecursionError):
            answer = f"The identity provider {self.name} answered with status {response.status} and without tokens"
            if response.status >= _SERVER_ERROR:
                raise ServerUnavailable(f"{answer}; it may be down, so try again later") from None
            raise AuthorizationFailed(f"{answer}; check how this server is registered there") from None

    async def _verify(self, metadata: AuthorizationServerMetadata, token: str, nonce: str | None) -> dict[str, Any]:
        if len(token) > bounds.CREDENTIAL_BYTES:
            raise InvalidJwt("the ID token is too large")
        signed = parse_jwt(token.encode("utf-8", "replace"), _ID_TOKEN_TYPES)
        assert self._keys is not None
        claims = parse_claims(await verify_with_keys(signed, self._keys))
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if claims.get("iss") != metadata.issuer:
            raise InvalidJwt("wrong issuer")
        if not isinstance(audiences, list) or self._config.client_id not in audiences:
            raise InvalidJwt("wrong audience")
        authorized_party = claims.get("azp")
        if authorized_party != self._config.client_id and (authorized_party is not None or len(audiences) > 1):
            raise InvalidJwt("it was issued to another client")
        now, leeway = self._clock(), bounds.CLOCK_LEEWAY_S
        if read_time(claims, "exp") + leeway <= now:
            raise InvalidJwt("expired")
        if read_time(claims, "iat", now) - leeway > now:
            raise InvalidJwt("not valid yet; compare the clocks of both servers")
        if nonce is not None and not _is_same_text(claims.get("nonce"), nonce):
            raise InvalidJwt("it belongs to another login")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise InvalidJwt("it has no subject")
        return claims

    async def _complete(
        self, metadata: AuthorizationServerMetadata, claims: dict[str, Any], access_token: str
    ) -> dict[str, Any]:
        """Add the claims that are needed and that the provider has at its userinfo endpoint only."""
        mapping = self._config.claims
        needed = [mapping.user, *mapping.scopes, *([mapping.tenant] if self._identity is not None else [])]
        is_complete = all(name in claims or name.split(".")[0] in claims for name in needed)
        if is_complete or metadata.userinfo_endpoint is None or not access_token:
            return claims
        url = check_endpoint(metadata.userinfo_endpoint, "userinfo_endpoint")
        response = await self._client(url).get(url, headers={"Authorization": f"Bearer {access_token}"})
        if response.status != _OK:
            return claims
        found = parse_claims(response.body)
        if found.get("sub") != claims["sub"]:
            raise InvalidJwt("the userinfo endpoint describes another subject")
        return {**found, **claims}

    # -- users -----------------------------------------------------------------------

    def _make_user(self, claims: Mapping[str, Any]) -> User:
        mapping, known = self._config.claims, dict(claims)
        values = read_scopes(known, mapping.scopes)
        scopes = frozenset(scope for value in values for scope in self._config.scope_map.get(value, ()))
        if self._identity is not None:
            principal = make_token_principal(known, mapping, self._identity)
            return User(name=principal.user, tenant=principal.tenant, scopes=scopes)
        name = known.get(mapping.user)
        if not isinstance(name, str) or not is_user_name(name):
            # Not `#` and `/`: `ISSUER#SUBJECT` is a caller with a token of another issuer.
            raise InvalidClaim(
                f"the claim {mapping.user!r} must be a printable name, without / and #, and not too long"
            )
        if name == ANONYMOUS.name or name.startswith(PRINCIPAL_PREFIX):
            raise InvalidClaim(f"the claim {mapping.user!r} is a reserved name")
        if mapping.user == "email" and known.get("email_verified", True) is not True:
            raise InvalidClaim("the claim 'email' is not verified")
        return User(name=name, scopes=scopes)


def _is_same_text(value: Any, expected: str) -> bool:
    return isinstance(value, str) and hmac.compare_digest(value.encode("utf-8", "replace"), expected.encode())
