"""Bearer tokens: authenticate callers by a JWT of a trusted issuer.

Only signatures with a public key are accepted, and only by an algorithm that fits the type
of that key: the token's own `alg` chooses among those that the key allows and never adds
to them, so neither `none` nor a public key used as an HMAC secret is accepted. Key
addresses and certificates in a token are ignored. Every failure gives the same response;
the reason is in the log. The only module that loads joserfc, and only when tokens are
configured.
"""

from __future__ import annotations

import hashlib
import logging
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError, SettingsError
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.protocol.host_origin import is_loopback
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.security.gate import unauthorized
from hubbub.security.jwks import Fetch, FetchedKeys, FileKeys, KeySource, KeysUnavailable, VerifyingKey
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
_MIN_RSA_BITS: Final = 2048
_RSA_ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
_CURVE_ALGORITHMS: Final = {
    "P-256": frozenset(("ES256",)),
    "P-384": frozenset(("ES384",)),
    "P-521": frozenset(("ES512",)),
    "Ed25519": frozenset(("Ed25519", "EdDSA")),
    "Ed448": frozenset(("Ed448", "EdDSA")),
}
_ALGORITHMS: Final = _RSA_ALGORITHMS.union(*_CURVE_ALGORITHMS.values())

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


class _InvalidToken(HubbubError):
    """Why a token is refused; written to the log, never sent to the caller."""


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

    async def __call__(self, headers: Headers) -> Principal | Refusal | None:
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
            signed = _parse_token(token)
            key = await self._keys.find(signed.protected.get("kid"), signed.protected["alg"])
            if key is None:
                raise _InvalidToken("no key matches")
            payload = _verify_signature(signed, key)
            claims = self._check_claims(payload)
            principal = self._make_principal(claims, payload)
        except (_InvalidToken, InvalidClaim) as reason:
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
            raise _InvalidToken(f"claims: {error}") from None
        now, leeway = self._clock(), bounds.CLOCK_LEEWAY_S
        audience = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
        if claims.iss != self._settings.issuer:
            raise _InvalidToken("wrong issuer")
        if audience.isdisjoint(self._settings.audience):
            raise _InvalidToken("wrong audience")
        if claims.exp + leeway <= now:
            raise _InvalidToken("expired")
        if claims.nbf - leeway > now or claims.iat - leeway > now:
            raise _InvalidToken("not valid yet")
        # Names of callers with an API key, or without a credential.
        if claims.sub == ANONYMOUS.name or claims.sub.startswith(PRINCIPAL_PREFIX):
            raise _InvalidToken("the subject is a reserved name")
        if not 0 < len(claims.sub) <= bounds.TOKEN_SUBJECT_CHARACTERS or not claims.sub.isprintable():
            raise _InvalidToken("the subject is empty, too long or not printable")
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


def _parse_token(token: bytes) -> Any:
    """Parse a token and check its header; nothing is verified yet."""
    from joserfc import jws
    from joserfc.errors import JoseError

    try:
        signed = jws.extract_compact(token)
    except (JoseError, ValueError, RecursionError) as error:
        raise _InvalidToken(f"malformed: {type(error).__name__}") from None
    header: Any = signed.protected
    if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
        raise _InvalidToken("the header names no algorithm")
    if header["alg"] not in _ALGORITHMS:
        raise _InvalidToken("the algorithm is not allowed")
    # No extensions are supported, so critical ones must be refused.
    if "crit" in header or "b64" in header:
        raise _InvalidToken("critical extensions are not supported")
    kind, kid = header.get("typ", "JWT"), header.get("kid")
    if not isinstance(kind, str) or kind.lower() not in _TOKEN_TYPES:
        raise _InvalidToken("wrong token type")
    if kid is not None and not isinstance(kid, str):
        raise _InvalidToken("the key id is not a string")
    return signed


def _verify_signature(signed: Any, key: VerifyingKey) -> bytes:
    from joserfc import jws
    from joserfc.errors import JoseError, SecurityWarning

    registry = jws.JWSRegistry(algorithms=sorted(key.algorithms), strict_check_header=False)
    try:
        with warnings.catch_warnings():
            # `EdDSA` is a deprecated name of Ed25519, which issuers still use.
            warnings.simplefilter("ignore", SecurityWarning)
            is_valid = jws.validate_compact(signed, key.key, registry=registry)
    except (JoseError, ValueError) as error:
        raise _InvalidToken(f"signature: {type(error).__name__}") from None
    if not is_valid:
        raise _InvalidToken("the signature is wrong")
    return bytes(signed.payload)


# -- reading keys --------------------------------------------------------------


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


def read_keys(text: bytes) -> list[VerifyingKey]:
    """Parse the public keys of a PEM, JWK or JWKS file.

    Raises: ValueError, if none can be used.
    """
    return _read_pem(text) if text.lstrip().startswith(b"-----BEGIN") else read_key_set(text)


def read_key_set(text: bytes) -> list[VerifyingKey]:
    """Parse the keys of a JWK or JWKS that can verify; others are ignored, as is common practice.

    Raises: ValueError, if none is left.
    """
    if len(text) > bounds.KEY_FILE_BYTES:
        raise ValueError(f"it is larger than {bounds.KEY_FILE_BYTES} bytes")
    document = msgspec.json.decode(text, type=dict[str, Any])
    entries = document.get("keys", [document])
    if not isinstance(entries, list) or len(entries) > bounds.PUBLIC_KEYS:
        raise ValueError(f"`keys` must be a list of at most {bounds.PUBLIC_KEYS} keys")
    keys = [key for entry in entries if isinstance(entry, dict) and (key := _read_jwk(entry)) is not None]
    if not keys:
        raise ValueError("it contains no public RSA, EC or Ed25519 key for signatures")
    return keys


def _read_jwk(entry: dict[str, Any]) -> VerifyingKey | None:
    from joserfc import jwk
    from joserfc.errors import JoseError, SecurityWarning

    if entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig" or "d" in entry:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # small keys are refused below
            key = jwk.import_key(entry)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    kid, algorithms = entry.get("kid"), _allowed_algorithms(key)
    if "alg" in entry:
        algorithms &= {entry["alg"]} if isinstance(entry["alg"], str) else set()
    return VerifyingKey(kid if isinstance(kid, str) else None, algorithms, key) if algorithms else None


def _read_pem(text: bytes) -> list[VerifyingKey]:
    from joserfc import jwk
    from joserfc.errors import JoseError, SecurityWarning

    if b"PRIVATE" in text:
        raise ValueError("it contains a private key; use the public key, which is enough to verify tokens")
    for kind in (jwk.RSAKey, jwk.ECKey, jwk.OKPKey):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SecurityWarning)
                key = kind.import_key(text)
        except (JoseError, ValueError):
            continue
        algorithms = _allowed_algorithms(key)
        if algorithms:
            return [VerifyingKey(None, algorithms, key)]
    raise ValueError("it contains no public RSA (2048 bits or more), EC or Ed25519 key")


def _allowed_algorithms(key: Any) -> frozenset[str]:
    """The algorithms that this key may verify; none for keys that are too weak or for other purposes."""
    if key.key_type == "RSA":
        return _RSA_ALGORITHMS if key.raw_value.key_size >= _MIN_RSA_BITS else frozenset()
    return _CURVE_ALGORITHMS.get(key.curve_name, frozenset())
