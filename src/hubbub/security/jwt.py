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
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.protocol.host_origin import is_loopback
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.security.gate import NO_TARGET, unauthorized
from hubbub.security.jose import InvalidJwt, parse_jwt, read_key_set, read_keys, verify_jwt
from hubbub.security.jwks import Fetch, FetchedKeys, FileKeys, KeySource, KeysUnavailable
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.security.token_claims import (
    DEFAULT_SCOPE_CLAIMS,
    ClaimMapping,
    InvalidClaim,
    make_token_principal,
    parse_claims,
    read_scopes,
)

_BEARER_PREFIX: Final = b"bearer "
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


_claims_decoder = msgspec.json.Decoder(_Claims)


class BearerTokens:
    """Authenticates callers by bearer tokens.

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
        """With `identity`, callers belong to the tenants that their claims name; others are refused."""
        if not settings.issuer or not settings.audience or "" in settings.audience:
            raise SettingsError(
                "jwt_keys needs two more settings: jwt_issuer (`iss` of the tokens) and jwt_audience (`aud`)"
            )
        self._settings = settings
        self._keys = keys
        self._identity = identity
        self._clock = clock
        self._verified_tokens: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._generation = self._current_generation()
        """The generation of the keys that verified these tokens, and of the tenants."""

    async def __call__(self, headers: Headers, target: RequestTarget = NO_TARGET) -> Principal | Refusal | None:
        """Return the principal of the token; None if there is no bearer token."""
        token = _read_token(headers)
        if token is None:
            return None
        if len(token) > bounds.CREDENTIAL_BYTES:
            return _INVALID_TOKEN
        digest = hashlib.sha256(token).digest()
        return self._find_verified(digest) or await self._verify(token, digest)

    def find_known(self, headers: Headers) -> Principal | None:
        """Return the principal of a token that was verified before."""
        digest = headers.token_digest
        if digest is None:
            token = _read_token(headers)
            if token is None or len(token) > bounds.CREDENTIAL_BYTES:
                return None
            # Requests with the same head share the headers, so a token is hashed once for each connection.
            digest = headers.token_digest = hashlib.sha256(token).digest()
        return self._find_verified(digest)

    def _find_verified(self, digest: bytes) -> Principal | None:
        if (generation := self._current_generation()) != self._generation:
            self._generation = generation
            self._verified_tokens.clear()
        known = self._verified_tokens.get(digest)
        if known is None or self._clock() >= known[1]:
            return None
        self._verified_tokens.move_to_end(digest)
        return known[0]

    def _current_generation(self) -> tuple[int, int]:
        return self._keys.generation, 0 if self._identity is None else self._identity.tenants.generation

    async def _verify(self, token: bytes, digest: bytes) -> Principal | Refusal:
        self._verified_tokens.pop(digest, None)
        try:
            signed = parse_jwt(token, _TOKEN_TYPES)
            key = await self._keys.find(signed.protected.get("kid"), signed.protected["alg"])
            if key is None:
                raise InvalidJwt("no key matches")
            payload = verify_jwt(signed, key)
            claims = self._check_claims(payload)
            principal = self._make_principal(claims, payload)
        except (InvalidJwt, InvalidClaim) as reason:
            logger.info("token_refused", extra={"reason": str(reason)})
            return _INVALID_TOKEN
        except KeysUnavailable:
            return Refusal(
                503,
                f"Tokens cannot be checked at the moment; try again in {bounds.PUBLIC_KEY_FETCH_INTERVAL_S:.0f} s",
                ((b"retry-after", b"%d" % bounds.PUBLIC_KEY_FETCH_INTERVAL_S),),
            )
        self._cache_principal(digest, principal, claims.exp)
        return principal

    def _make_principal(self, claims: _Claims, payload: bytes) -> Principal:
        mapping = self._settings.claims
        if self._identity is not None:
            return make_token_principal(parse_claims(payload), mapping, self._identity)
        if mapping.scopes != DEFAULT_SCOPE_CLAIMS:
            return Principal(claims.sub, read_scopes(parse_claims(payload), mapping.scopes))
        return Principal(claims.sub, _scopes(claims))

    def _check_claims(self, payload: bytes) -> _Claims:
        try:
            claims = _claims_decoder.decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidJwt(f"claims: {error}") from None
        now, leeway = self._clock(), bounds.CLOCK_LEEWAY_S
        audience = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
        if claims.iss != self._settings.issuer:
            raise InvalidJwt("wrong issuer")
        if audience.isdisjoint(self._settings.audience):
            raise InvalidJwt("wrong audience")
        if claims.exp + leeway <= now:
            raise InvalidJwt("expired")
        if claims.nbf - leeway > now or claims.iat - leeway > now:
            raise InvalidJwt("not valid yet")
        # Names of callers with an API key, or without a credential.
        if claims.sub == ANONYMOUS.name or claims.sub.startswith(PRINCIPAL_PREFIX):
            raise InvalidJwt("the subject is a reserved name")
        if not 0 < len(claims.sub) <= bounds.TOKEN_SUBJECT_CHARACTERS or not claims.sub.isprintable():
            raise InvalidJwt("the subject is empty, too long or not printable")
        return claims

    def _cache_principal(self, digest: bytes, principal: Principal, expires_at: float) -> None:
        self._verified_tokens[digest] = principal, min(expires_at, self._clock() + bounds.VERIFIED_TOKEN_TTL_S)
        if len(self._verified_tokens) > bounds.VERIFIED_TOKENS:
            self._verified_tokens.popitem(last=False)


def _read_token(headers: Headers) -> bytes | None:
    sent = headers.raw(b"authorization")
    if sent is None or sent[:7].lower() != _BEARER_PREFIX:
        return None
    return sent[7:].strip(b" ")


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
    address = urlsplit(settings.keys)
    if address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname or "")):
        return BearerTokens(settings, FetchedKeys(settings.keys, fetch, read_key_set), identity=identity)
    if address.scheme == "http":
        raise SettingsError(f"jwt_keys: {settings.keys} must use https, or the keys could be replaced in transit")
    try:
        return BearerTokens(settings, FileKeys(Path(settings.keys), read_keys), identity=identity)
    except (OSError, ValueError) as error:
        raise SettingsError(f"jwt_keys: {settings.keys}: {error}") from None
