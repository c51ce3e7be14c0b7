"""Bearer tokens: authenticate callers by a JWT of a trusted issuer.

Only signatures with a public key are accepted, and only by an algorithm that fits the type
of that key: the token's own `alg` chooses among those that the key allows and never adds
to them, so neither `none` nor a public key used as an HMAC secret is accepted. Key
addresses and certificates in a token are ignored. Every failure gives the same response;
the reason is in the log.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.protocol.host_origin import is_loopback
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.security.gate import NO_TARGET, KnownCaller, unauthorized
from hubbub.security.jose import InvalidJwt, parse_jwt, read_key_set, read_keys, verify_with_keys
from hubbub.security.jwks import Fetch, FetchedKeys, FileKeys, KeySource, KeysUnavailable
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.security.token_claims import (
    DEFAULT_SCOPE_CLAIMS,
    ClaimMapping,
    make_token_principal,
    parse_claims,
    read_scopes,
)
from hubbub.security.verified_tokens import (
    MatchAudience,
    TokenRefused,
    VerifiedToken,
    VerifiedTokens,
    read_bearer_token,
    token_digest,
)

_TOKEN_TYPES: Final = frozenset(("jwt", "at+jwt", "application/at+jwt"))

_INVALID_TOKEN: Final = unauthorized(
    "This access token is not valid for this server; get a new one and send it as 'Authorization: Bearer <token>'",
    b'Bearer realm="hubbub", error="invalid_token", error_description="The access token is not accepted"',
)

logger = logging.getLogger("hubbub.security")


class JwtSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens are accepted."""

    keys: str
    """A file (PEM, JWK or JWKS) or the address of a JWKS."""
    issuer: str
    audience: tuple[str, ...]
    """The names of this server; `aud` must contain one of them."""
    claims: ClaimMapping = ClaimMapping()


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    aud: str | list[str]
    sub: str
    exp: float
    nbf: float = float("-inf")
    iat: float = float("-inf")
    scope: str | list[str] = ""
    scp: str | list[str] = ""
    cnf: dict[str, Any] | None = None


_claims_decoder = msgspec.json.Decoder(_Claims)


class JwtVerifier:
    """Verifies the JWTs of one issuer."""

    def __init__(
        self,
        settings: JwtSettings,
        keys: KeySource,
        *,
        identity: TenantIdentity | None = None,
        match_audience: MatchAudience | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """With `identity`, callers belong to the tenants that their claims name; others are refused.

        `match_audience` decides about audiences, if the settings name none.
        """
        self._settings = settings
        self._keys = keys
        self._identity = identity
        self._match_audience = match_audience
        self._clock = clock

    @property
    def generation(self) -> int:
        """Changes with the keys and with the tenants: both only grow."""
        if self._identity is None:
            return self._keys.generation
        return self._keys.generation + self._identity.tenants.generation

    async def verify(self, token: bytes) -> VerifiedToken:
        """Verify a token.

        Raises: TokenRefused, KeysUnavailable.
        """
        signed = parse_jwt(token, _TOKEN_TYPES)
        payload = await verify_with_keys(signed, self._keys)
        claims = self._check_claims(payload)
        return VerifiedToken(
            self._make_principal(claims, payload),
            min(claims.exp, self._clock() + bounds.VERIFIED_TOKEN_TTL_S),
            self._check_audience(claims),
            read_key_thumbprint(claims.cnf),
        )

    def _make_principal(self, claims: _Claims, payload: bytes) -> Principal:
        mapping = self._settings.claims
        if self._identity is not None:
            return make_token_principal(parse_claims(payload), mapping, self._identity)
        name = mapping.name_prefix + claims.sub
        if mapping.scopes != DEFAULT_SCOPE_CLAIMS:
            return Principal(name, read_scopes(parse_claims(payload), mapping.scopes))
        return Principal(name, _scopes(claims))

    def _check_claims(self, payload: bytes) -> _Claims:
        try:
            claims = _claims_decoder.decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidJwt(f"claims: {error}") from None
        now, leeway = self._clock(), bounds.CLOCK_LEEWAY_S
        if claims.iss != self._settings.issuer:
            raise InvalidJwt("wrong issuer")
        if claims.exp + leeway <= now:
            raise InvalidJwt("expired")
        if claims.nbf - leeway > now or claims.iat - leeway > now:
            raise InvalidJwt("not valid yet")
        check_subject(claims.sub)
        return claims

    def _check_audience(self, claims: _Claims) -> frozenset[str] | None:
        """Return the paths at which a token is valid; None: every path."""
        audience = frozenset((claims.aud,) if isinstance(claims.aud, str) else claims.aud)
        if self._match_audience is not None and not self._settings.audience:
            return self._match_audience(audience)
        if audience.isdisjoint(self._settings.audience):
            raise InvalidJwt("wrong audience")
        return None


class BearerTokens:
    """Authenticates callers by the tokens of one issuer, without the section `[oauth]`.

    Raises: SettingsError, if issuer or audience is missing.
    """

    def __init__(
        self,
        settings: JwtSettings,
        keys: KeySource,
        *,
        identity: TenantIdentity | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not settings.issuer or not settings.audience or "" in settings.audience:
            raise SettingsError(
                "jwt_keys needs two more settings: jwt_issuer (`iss` of the tokens) and jwt_audience (`aud`)"
            )
        self.clock = clock
        self._verifier = JwtVerifier(settings, keys, identity=identity, clock=clock)
        self._verified = VerifiedTokens([self._verifier], clock)

    async def __call__(self, headers: Headers, target: RequestTarget = NO_TARGET) -> Principal | Refusal | None:
        """Return the principal of the token; None if there is no bearer token."""
        token = read_bearer_token(headers)
        if token is None:
            return None
        if len(token) > bounds.CREDENTIAL_BYTES:
            return _INVALID_TOKEN
        digest = hashlib.sha256(token).digest()
        verified = self._verified.find(digest)
        if verified is None:
            try:
                verified = await self._verifier.verify(token)
                if verified.key_thumbprint is not None:
                    raise InvalidJwt("it is bound to a key, which is checked only with the section [oauth]")
            except TokenRefused as reason:
                logger.info("token_refused", extra={"reason": str(reason)})
                return _INVALID_TOKEN
            except KeysUnavailable:
                return refuse_unavailable()
            self._verified.add(digest, verified)
        return verified.principal

    @property
    def generation(self) -> int:
        """Grows whenever tokens that were verified before must be verified again."""
        return self._verifier.generation

    def find_known(self, headers: Headers, path: str = "") -> KnownCaller | None:
        """Return the principal of a token that was verified before."""
        digest = token_digest(headers)
        verified = None if digest is None else self._verified.find(digest)
        return None if verified is None else KnownCaller(verified.principal, verified.usable_until)


def refuse_unavailable() -> Refusal:
    """Return the refusal of a token that cannot be checked at the moment."""
    return Refusal(
        503,
        f"Tokens cannot be checked at the moment; try again in {bounds.PUBLIC_KEY_FETCH_INTERVAL_S:.0f} s",
        ((b"retry-after", b"%d" % bounds.PUBLIC_KEY_FETCH_INTERVAL_S),),
    )


def check_subject(subject: str) -> None:
    """Refuse names of callers with an API key or without a credential, and names that cannot be shown.

    Raises: InvalidJwt.
    """
    if subject == ANONYMOUS.name or subject.startswith(PRINCIPAL_PREFIX):
        raise InvalidJwt("the subject is a reserved name")
    if not 0 < len(subject) <= bounds.TOKEN_SUBJECT_CHARACTERS or not subject.isprintable():
        raise InvalidJwt("the subject is empty, too long or not printable")


def read_key_thumbprint(confirmation: dict[str, Any] | None) -> str | None:
    """Return the thumbprint of the key that a token is bound to (`cnf`); None if it is bound to none.

    Raises: InvalidJwt, if it is bound in a way that cannot be checked here.
    """
    if confirmation is None:
        return None
    value = confirmation.get("jkt")
    if len(confirmation) != 1 or not isinstance(value, str) or not value:
        raise InvalidJwt("it is bound to a key in a way that is not supported")
    return value


def _scopes(claims: _Claims) -> frozenset[str]:
    scopes: list[str] = []
    for claim in (claims.scope, claims.scp):
        scopes += claim.split() if isinstance(claim, str) else claim
    return frozenset(scopes[: bounds.TOKEN_SCOPES])


def make_token_authenticator(
    settings: JwtSettings, fetch: Fetch, identity: TenantIdentity | None = None
) -> BearerTokens:
    """Make the authenticator for these settings; `fetch` is used if the keys are at an address.

    Raises: SettingsError.
    """
    return BearerTokens(settings, make_key_source(settings, fetch), identity=identity)


def make_key_source(settings: JwtSettings, fetch: Fetch) -> KeySource:
    """Make the source of the keys: a file or an address.

    Raises: SettingsError.
    """
    address = urlsplit(settings.keys)
    if address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname or "")):
        return FetchedKeys(settings.keys, fetch, read_key_set)
    if address.scheme == "http":
        raise SettingsError(f"jwt_keys: {settings.keys} must use https, or the keys could be replaced in transit")
    try:
        return FileKeys(Path(settings.keys), read_keys)
    except (OSError, ValueError) as error:
        raise SettingsError(f"jwt_keys: {settings.keys}: {error}") from None
