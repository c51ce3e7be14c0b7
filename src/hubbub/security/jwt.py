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
from hubbub.protocol.authority import is_loopback
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal
from hubbub.security.gate import unauthorized
from hubbub.security.jwks import Fetch, FetchedKeys, FileKeys, KeySource, KeysUnavailable, VerifyingKey
from hubbub.security.keys import PRINCIPAL_PREFIX

_BEARER: Final = b"bearer "
_TYPES: Final = frozenset(("jwt", "at+jwt", "application/at+jwt"))
_RSA_BITS: Final = 2048
_RSA: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
_CURVES: Final = {
    "P-256": frozenset(("ES256",)),
    "P-384": frozenset(("ES384",)),
    "P-521": frozenset(("ES512",)),
    "Ed25519": frozenset(("Ed25519", "EdDSA")),
    "Ed448": frozenset(("Ed448", "EdDSA")),
}
_ALGORITHMS: Final = _RSA.union(*_CURVES.values())

_INVALID: Final = unauthorized(
    "This access token is not accepted here; get a new one for this server "
    "and send it as 'Authorization: Bearer <token>'",
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


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    aud: str | list[str]
    sub: str
    exp: float
    nbf: float = float("-inf")
    iat: float = float("-inf")
    scope: str | list[str] = ""
    scp: str | list[str] = ""


_claims = msgspec.json.Decoder(_Claims)


class _Invalid(HubbubError):
    """Why a token is refused; written to the log, never sent to the caller."""


class BearerTokens:
    """Authenticates callers by bearer tokens.

    Raises: SettingsError, if issuer or audience is missing.
    """

    def __init__(self, settings: JwtSettings, keys: KeySource, *, clock: Callable[[], float] = time.time) -> None:
        if not settings.issuer or not settings.audience or "" in settings.audience:
            raise SettingsError("say who issues the tokens (jwt_issuer) and what they call this server (jwt_audience)")
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._verified: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._generation = keys.generation
        """The generation of the keys that verified these tokens."""

    async def __call__(self, headers: Headers) -> Principal | Refusal | None:
        """Return the principal of the token; None if there is no bearer token."""
        sent = headers.raw(b"authorization")
        if sent is None or sent[:7].lower() != _BEARER:
            return None
        token = sent[7:].strip(b" ")
        if len(token) > bounds.CREDENTIAL_BYTES:
            return _INVALID
        if self._keys.generation != self._generation:
            self._generation = self._keys.generation
            self._verified.clear()
        digest = hashlib.sha256(token).digest()
        known = self._verified.get(digest)
        if known is not None and self._clock() < known[1]:
            self._verified.move_to_end(digest)
            return known[0]
        return await self._verify(token, digest)

    async def _verify(self, token: bytes, digest: bytes) -> Principal | Refusal:
        self._verified.pop(digest, None)
        try:
            signed = _unpack(token)
            key = await self._keys.find(signed.protected.get("kid"), signed.protected["alg"])
            if key is None:
                raise _Invalid("no key fits")
            claims = self._check(_verified_payload(signed, key))
        except _Invalid as reason:
            logger.info("token_refused", extra={"reason": str(reason)})
            return _INVALID
        except KeysUnavailable:
            return Refusal(
                503,
                f"Tokens cannot be checked at the moment; try again in {bounds.PUBLIC_KEY_FETCH_S:.0f} s",
                ((b"retry-after", b"%d" % bounds.PUBLIC_KEY_FETCH_S),),
            )
        principal = Principal(claims.sub, _scopes(claims))
        self._remember(digest, principal, claims.exp)
        return principal

    def _check(self, payload: bytes) -> _Claims:
        try:
            claims = _claims.decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _Invalid(f"claims: {error}") from None
        now, leeway = self._clock(), bounds.CLOCK_LEEWAY_S
        audience = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
        if claims.iss != self._settings.issuer:
            raise _Invalid("another issuer")
        if audience.isdisjoint(self._settings.audience):
            raise _Invalid("for another audience")
        if claims.exp + leeway <= now:
            raise _Invalid("expired")
        if claims.nbf - leeway > now or claims.iat - leeway > now:
            raise _Invalid("not valid yet")
        # Names of callers with an API key, or without a credential.
        if claims.sub == ANONYMOUS.name or claims.sub.startswith(PRINCIPAL_PREFIX):
            raise _Invalid("a reserved name")
        if not 0 < len(claims.sub) <= bounds.TOKEN_SUBJECT_CHARACTERS or not claims.sub.isprintable():
            raise _Invalid("not a name")
        return claims

    def _remember(self, digest: bytes, principal: Principal, expires_at: float) -> None:
        self._verified[digest] = principal, min(expires_at, self._clock() + bounds.VERIFIED_TOKEN_S)
        if len(self._verified) > bounds.VERIFIED_TOKENS:
            self._verified.popitem(last=False)


def _scopes(claims: _Claims) -> frozenset[str]:
    found: list[str] = []
    for claim in (claims.scope, claims.scp):
        found += claim.split() if isinstance(claim, str) else claim
    return frozenset(found[: bounds.TOKEN_SCOPES])


def _unpack(token: bytes) -> Any:
    """Parse a token and check its header; nothing is verified yet."""
    from joserfc import jws
    from joserfc.errors import JoseError

    try:
        signed = jws.extract_compact(token)
    except (JoseError, ValueError, RecursionError) as error:
        raise _Invalid(f"not a token: {type(error).__name__}") from None
    header: Any = signed.protected
    if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
        raise _Invalid("not a header")
    if header["alg"] not in _ALGORITHMS:
        raise _Invalid("an algorithm that is not allowed")
    # No extensions are supported, so critical ones must be refused.
    if "crit" in header or "b64" in header:
        raise _Invalid("critical extensions")
    kind, kid = header.get("typ", "JWT"), header.get("kid")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise _Invalid("another kind of token")
    if kid is not None and not isinstance(kid, str):
        raise _Invalid("a key id that is not text")
    return signed


def _verified_payload(signed: Any, key: VerifyingKey) -> bytes:
    from joserfc import jws
    from joserfc.errors import JoseError, SecurityWarning

    registry = jws.JWSRegistry(algorithms=sorted(key.algorithms), strict_check_header=False)
    try:
        with warnings.catch_warnings():
            # `EdDSA` is a deprecated name of Ed25519, which issuers still use.
            warnings.simplefilter("ignore", SecurityWarning)
            is_genuine = jws.validate_compact(signed, key.key, registry=registry)
    except (JoseError, ValueError) as error:
        raise _Invalid(f"signature: {type(error).__name__}") from None
    if not is_genuine:
        raise _Invalid("the signature is wrong")
    return bytes(signed.payload)


# -- reading keys --------------------------------------------------------------


def open_tokens(settings: JwtSettings, fetch: Fetch) -> BearerTokens:
    """The authenticator for these settings; `fetch` is used if the keys are at an address.

    Raises: SettingsError.
    """
    address = urlsplit(settings.keys)
    if address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname or "")):
        return BearerTokens(settings, FetchedKeys(settings.keys, fetch, read_key_set))
    if address.scheme == "http":
        raise SettingsError(f"jwt_keys: {settings.keys} must be https, or anybody on the way could change the keys")
    try:
        return BearerTokens(settings, FileKeys(Path(settings.keys), read_keys))
    except (OSError, ValueError) as error:
        raise SettingsError(f"jwt_keys: {settings.keys}: {error}") from None


def read_keys(text: bytes) -> list[VerifyingKey]:
    """The public keys of a PEM, JWK or JWKS file.

    Raises: ValueError, if none can be used.
    """
    return _read_pem(text) if text.lstrip().startswith(b"-----BEGIN") else read_key_set(text)


def read_key_set(text: bytes) -> list[VerifyingKey]:
    """The keys of a JWK or JWKS that can verify; others are ignored, as is common practice.

    Raises: ValueError, if none is left.
    """
    if len(text) > bounds.KEY_FILE_BYTES:
        raise ValueError(f"larger than {bounds.KEY_FILE_BYTES} bytes")
    found = msgspec.json.decode(text, type=dict[str, Any])
    entries = found.get("keys", [found])
    if not isinstance(entries, list) or len(entries) > bounds.PUBLIC_KEYS:
        raise ValueError(f"not a list of at most {bounds.PUBLIC_KEYS} keys")
    keys = [key for entry in entries if isinstance(entry, dict) and (key := _read_entry(entry)) is not None]
    if not keys:
        raise ValueError("no public RSA, EC or Ed25519 key for signatures in it")
    return keys


def _read_entry(entry: dict[str, Any]) -> VerifyingKey | None:
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
    kid, algorithms = entry.get("kid"), _algorithms(key)
    if "alg" in entry:
        algorithms &= {entry["alg"]} if isinstance(entry["alg"], str) else set()
    return VerifyingKey(kid if isinstance(kid, str) else None, algorithms, key) if algorithms else None


def _read_pem(text: bytes) -> list[VerifyingKey]:
    from joserfc import jwk
    from joserfc.errors import JoseError, SecurityWarning

    if b"PRIVATE" in text:
        raise ValueError("it holds a private key; give the public key, which is all that verifying needs")
    for kind in (jwk.RSAKey, jwk.ECKey, jwk.OKPKey):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SecurityWarning)
                key = kind.import_key(text)
        except (JoseError, ValueError):
            continue
        algorithms = _algorithms(key)
        if algorithms:
            return [VerifyingKey(None, algorithms, key)]
    raise ValueError("no public RSA (2048 bits or more), EC or Ed25519 key in it")


def _algorithms(key: Any) -> frozenset[str]:
    """The algorithms that this key may verify; none for keys that are too weak or for other purposes."""
    if key.key_type == "RSA":
        return _RSA if key.raw_value.key_size >= _RSA_BITS else frozenset()
    return _CURVES.get(key.curve_name, frozenset())
