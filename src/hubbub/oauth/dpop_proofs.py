"""Checks DPoP proofs (RFC 9449): short signed JWTs that show that the sender of a request has the key of its token.

A proof is for one method and one URL, was made at about the time of the request, and is accepted once. Used for
requests with access tokens, and by the token endpoint of the hub.
"""

from __future__ import annotations

import hashlib
import heapq
import hmac
import math
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.oauth import limits
from hubbub.security.jose import ALGORITHMS, InvalidJwt, parse_jwt, read_jwk, thumbprint, verify_jwt
from hubbub.security.token_claims import InvalidClaim, parse_claims

PROOF_ALGORITHMS: Final = tuple(sorted(ALGORITHMS))
"""The algorithms with which proofs are accepted, for metadata and challenges."""
_TYPES: Final = frozenset(("dpop+jwt",))
_PRIVATE_MEMBERS: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class InvalidProof(HubbubError):
    """A proof is missing, wrong or was used before: the OAuth error `invalid_dpop_proof`. Messages show no value."""


class DpopProofs:
    """Checks the proofs of one endpoint, and remembers them so that none is accepted twice."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._seen: set[bytes] = set()
        self._by_age: list[tuple[float, bytes]] = []
        """A heap: the times and digests of proofs that were accepted."""
        self._oldest_time = -math.inf
        """Proofs from this time or before are refused: some of them were forgotten, to have room for newer ones."""

    def check(self, proof: bytes | None, *, method: str, url: str, token: bytes | None = None) -> str:
        """Check a proof for a request; return the thumbprint of its key. With `token`, it must be for that token.

        Raises: InvalidProof.
        """
        if not proof:
            raise InvalidProof("the header DPoP is missing")
        if len(proof) > bounds.CREDENTIAL_BYTES:
            raise InvalidProof("the proof is too large")
        try:
            signed = parse_jwt(proof, _TYPES)
            key_thumbprint = _verify_with_own_key(signed)
            claims = parse_claims(bytes(signed.payload))
        except (InvalidJwt, InvalidClaim) as error:
            raise InvalidProof(error.message) from None
        if claims.get("htm") != method:
            raise InvalidProof("htm is not the method of this request")
        if not _is_same_url(claims.get("htu"), url):
            raise InvalidProof("htu is not the URL of this request")
        if token is not None and not _is_hash_of(claims.get("ath"), token):
            raise InvalidProof("ath is not the hash of the access token")
        self._accept_once(key_thumbprint, claims.get("jti"), claims.get("iat"))
        return key_thumbprint

    def _accept_once(self, key_thumbprint: str, identifier: Any, issued_at: Any) -> None:
        if not isinstance(identifier, str) or not 0 < len(identifier) <= limits.PROOF_ID_CHARACTERS:
            raise InvalidProof("jti is missing, empty or too long")
        is_number = isinstance(issued_at, int | float) and not isinstance(issued_at, bool)
        now = self._clock()
        # Compared and not subtracted: JSON may have NaN, and numbers that are too large for a float.
        if not is_number or not now - limits.PROOF_AGE_S <= issued_at <= now + limits.PROOF_AGE_S:
            raise InvalidProof(f"iat is not within {limits.PROOF_AGE_S:.0f} s of the time of this server")
        if issued_at <= self._oldest_time:
            raise InvalidProof("the proof is too old; make a new one for each request")
        digest = hashlib.sha256(f"{key_thumbprint}.{identifier}".encode("utf-8", "surrogatepass")).digest()
        if digest in self._seen:
            raise InvalidProof("this proof was used before; make a new one for each request")
        self._seen.add(digest)
        heapq.heappush(self._by_age, (issued_at, digest))
        self._forget(now - limits.PROOF_AGE_S)

    def _forget(self, before: float) -> None:
        """Forget proofs that are too old to be accepted again, and the oldest ones if there are too many."""
        heap = self._by_age
        while heap and (heap[0][0] < before or len(heap) > limits.ACCEPTED_PROOFS):
            issued_at, digest = heapq.heappop(heap)
            self._seen.discard(digest)
            self._oldest_time = max(self._oldest_time, issued_at)


def _verify_with_own_key(signed: Any) -> str:
    """Verify a proof with the public key in its header; return the thumbprint of the key.

    Raises: InvalidJwt.
    """
    if "typ" not in signed.protected:
        raise InvalidJwt("wrong token type")
    members = signed.protected.get("jwk")
    if not isinstance(members, dict) or not _PRIVATE_MEMBERS.isdisjoint(members):
        raise InvalidJwt("jwk is not a public key")
    key = read_jwk(members)
    if key is None:
        raise InvalidJwt("jwk is not a public RSA (2048 bits or more), EC or Ed25519 key")
    verify_jwt(signed, key)
    return thumbprint(members)


def _is_hash_of(value: Any, token: bytes) -> bool:
    expected = urlsafe_b64encode(hashlib.sha256(token).digest()).rstrip(b"=")
    return isinstance(value, str) and hmac.compare_digest(value.encode("utf-8", "replace"), expected)


def _is_same_url(value: Any, url: str) -> bool:
    parsed = _split(value)
    return parsed is not None and parsed == _split(url)


def _split(url: Any) -> tuple[str, str, int | None, str] | None:
    """The parts of a URL that must be equal: without query and fragment, as RFC 9449 says."""
    if not isinstance(url, str) or len(url) > limits.PROOF_URL_CHARACTERS:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        return None
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS[parts.scheme], parts.path or "/"
