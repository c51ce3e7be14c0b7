"""JOSE: reads public keys, verifies and signs JWTs. The only module that loads joserfc, and only when it is used.

Only signatures with a public key are accepted, and only by an algorithm that fits the type of that key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.security.jwks import KeySource, VerifyingKey
from hubbub.security.verified_tokens import TokenRefused

_MIN_RSA_BITS: Final = 2048
_MAX_RSA_BITS: Final = 8192
_MAX_RSA_EXPONENT: Final = 2**32
"""Callers choose the keys of their DPoP proofs: to verify with an exponent of 3072 bits takes 4 ms."""
_RSA_ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
_CURVE_ALGORITHMS: Final = {
    "P-256": frozenset(("ES256",)),
    "P-384": frozenset(("ES384",)),
    "P-521": frozenset(("ES512",)),
    "Ed25519": frozenset(("Ed25519", "EdDSA")),
    "Ed448": frozenset(("Ed448", "EdDSA")),
}
ALGORITHMS: Final = _RSA_ALGORITHMS.union(*_CURVE_ALGORITHMS.values())
"""The algorithms with which signatures are accepted."""


class InvalidJwt(TokenRefused):
    """What is wrong with a JWT."""


def parse_jwt(token: bytes, types: frozenset[str]) -> Any:
    """Parse a token and check its header, `protected`; nothing is verified yet. `types`: accepted `typ`, in lower case.

    Raises: InvalidJwt.
    """
    from joserfc import jws
    from joserfc.errors import JoseError

    try:
        signed = jws.extract_compact(token, registry=_registry(None))
    except (JoseError, ValueError, RecursionError) as error:
        raise InvalidJwt(f"malformed: {type(error).__name__}") from None
    header: Any = signed.protected
    if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
        raise InvalidJwt("the header names no algorithm")
    if header["alg"] not in ALGORITHMS:
        raise InvalidJwt("the algorithm is not allowed")
    # No extensions are supported, so critical ones must be refused.
    if "crit" in header or "b64" in header:
        raise InvalidJwt("critical extensions are not supported")
    kind, kid = header.get("typ", "JWT"), header.get("kid")
    if not isinstance(kind, str) or kind.lower() not in types:
        raise InvalidJwt("wrong token type")
    if kid is not None and not isinstance(kid, str):
        raise InvalidJwt("the key id is not a string")
    return signed


def verify_jwt(signed: Any, key: VerifyingKey) -> bytes:
    """Return the claims of a parsed token, if its signature is right.

    Raises: InvalidJwt.
    """
    from joserfc import jws
    from joserfc.errors import JoseError, SecurityWarning

    registry = _registry(sorted(key.algorithms))
    try:
        with warnings.catch_warnings():
            # `EdDSA` is a deprecated name of Ed25519, which issuers still use.
            warnings.simplefilter("ignore", SecurityWarning)
            is_valid = jws.validate_compact(signed, key.key, registry=registry)
    except (JoseError, ValueError) as error:
        raise InvalidJwt(f"signature: {type(error).__name__}") from None
    if not is_valid:
        raise InvalidJwt("the signature is wrong")
    return bytes(signed.payload)


def _registry(algorithms: list[str] | None) -> Any:
    from joserfc import jws

    registry = jws.JWSRegistry(algorithms=algorithms, strict_check_header=False)
    registry.max_header_length = bounds.JWT_HEADER_BYTES
    return registry


async def verify_with_keys(signed: Any, keys: KeySource) -> bytes:
    """Return the claims of a parsed token, if its signature is right.

    Raises: InvalidJwt, KeysUnavailable.
    """
    key_id, algorithm = signed.protected.get("kid"), signed.protected["alg"]
    key = await keys.find(key_id, algorithm)
    if key is None:
        raise InvalidJwt("no key matches")
    try:
        return verify_jwt(signed, key)
    except InvalidJwt:
        replacement = await keys.find_replacement(algorithm) if key_id is None else None
        if replacement is None:
            raise
        return verify_jwt(signed, replacement)


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
    keys = [key for entry in entries if isinstance(entry, dict) and (key := read_jwk(entry)) is not None]
    if not keys:
        raise ValueError("it contains no public RSA, EC or Ed25519 key for signatures")
    return keys


def read_jwk(entry: dict[str, Any]) -> VerifyingKey | None:
    """Parse a public key; None if it is private, weak, or cannot verify signatures."""
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
        raw = key.raw_value.public_key() if key.is_private else key.raw_value
        is_usable = _MIN_RSA_BITS <= raw.key_size <= _MAX_RSA_BITS
        return _RSA_ALGORITHMS if is_usable and raw.public_numbers().e <= _MAX_RSA_EXPONENT else frozenset()
    return _CURVE_ALGORITHMS.get(key.curve_name, frozenset())


# -- signing -----------------------------------------------------------------------


class JwtSigningKey:
    """A private key that signs JWTs with one algorithm."""

    def __init__(self, key: Any, algorithm: str) -> None:
        self._key = key
        self.algorithm = algorithm
        self.thumbprint: str = key.thumbprint()
        """The RFC 7638 thumbprint of the public key."""

    @classmethod
    def generate(cls) -> JwtSigningKey:
        """Make a new key for ES256."""
        from joserfc import jwk

        return cls(jwk.ECKey.generate_key("P-256", private=True), "ES256")

    @classmethod
    def read(cls, text: bytes, algorithm: str | None = None) -> JwtSigningKey:
        """Parse a private key, as PEM or JWK; by default it signs with the first algorithm that fits.

        Raises: ValueError.
        """
        from joserfc import jwk
        from joserfc.errors import JoseError, SecurityWarning

        is_pem = text.lstrip().startswith(b"-----BEGIN")
        kinds = (jwk.RSAKey, jwk.ECKey, jwk.OKPKey) if is_pem else (jwk,)
        for kind in kinds:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SecurityWarning)
                    key: Any = kind.import_key(text if is_pem else msgspec.json.decode(text))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
            allowed = _allowed_algorithms(key) if getattr(key, "is_private", False) else frozenset()
            if algorithm is not None:
                allowed &= {algorithm}
            if allowed:
                return cls(key, algorithm or min(allowed, key=_preference))
        wanted = f" for {algorithm}" if algorithm else ""
        raise ValueError(f"it contains no private RSA (2048 bits or more), EC or Ed25519 key{wanted}")

    def to_pem(self) -> bytes:
        """Return the private key as PEM."""
        return bytes(self._key.as_pem(private=True))

    def derive_secret(self, purpose: str) -> bytes:
        """Return a secret that only holders of the private key can derive, the same one for the same purpose."""
        return hmac.digest(self.to_pem(), f"hubbub {purpose}".encode(), "sha256")

    def public_jwk(self) -> dict[str, Any]:
        """Return the public key as a JWK, without an id or a use."""
        return {name: value for name, value in self._key.as_dict(private=False).items() if name != "kid"}

    def sign(self, claims: Mapping[str, Any], *, header: Mapping[str, Any]) -> str:
        """Return a JWT with these claims; `alg` is added to its header."""
        from joserfc import jws
        from joserfc.errors import SecurityWarning

        registry = jws.JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            return jws.serialize_compact(
                {"alg": self.algorithm, **header}, msgspec.json.encode(claims), self._key, registry=registry
            )


def hash_base64url(data: bytes) -> str:
    """Return the SHA-256 hash as PKCE and DPoP write it: base64url without padding."""
    return urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def new_token_id() -> str:
    """Return a value for `jti` that does not occur twice."""
    return secrets.token_urlsafe(16)


def _preference(algorithm: str) -> tuple[bool, str]:
    """Sort key: the names that most servers know first."""
    return algorithm not in ("ES256", "RS256", "EdDSA"), algorithm
