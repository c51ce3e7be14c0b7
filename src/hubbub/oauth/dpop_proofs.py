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
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.oauth import limits
from hubbub.protocol.host_origin import DEFAULT_PORTS
from hubbub.security.jose import ALGORITHMS, InvalidJwt, hash_base64url, parse_jwt, read_jwk, verify_jwt
from hubbub.security.token_claims import InvalidClaim, parse_claims
from hubbub.shares import Shares

PROOF_ALGORITHMS: Final = tuple(sorted(ALGORITHMS))
"""The algorithms with which proofs are accepted, for metadata and challenges."""
_TYPES: Final = frozenset(("dpop+jwt",))


class InvalidProof(HubbubError):
    """A proof is missing, wrong or was used before: the OAuth error `invalid_dpop_proof`. Messages show no value."""


class VerifiedProof(msgspec.Struct, frozen=True):
    """A proof that is valid for its request and was not used before."""

    key_thumbprint: str
    digest: bytes
    """Of its `jti`."""
    issued_at: float


class _UsedProofs:
    """The proofs of one key that were accepted."""

    __slots__ = ("by_age", "digests", "floor", "used_at")

    def __init__(self) -> None:
        self.digests: set[bytes] = set()
        self.by_age: list[tuple[float, bytes]] = []
        """A heap: the times and digests of proofs."""
        self.floor = -math.inf
        """Proofs from this time or before are refused: some of them were forgotten, to have room for newer ones."""
        self.used_at = -math.inf


class DpopProofs:
    """Checks the proofs of one endpoint, and remembers them so that none is accepted twice.

    Keys share the memory (`Shares`): a key that makes many proofs displaces its own, not those of others.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._used: OrderedDict[str, _UsedProofs] = OrderedDict()
        """By thumbprint; the key that was used last is at the end."""
        self._shares = Shares(limits.ACCEPTED_PROOFS)
        self._floor = -math.inf
        """As `_UsedProofs.floor`, for the keys that are not in `_used`."""

    def check(
        self,
        proof: bytes | None,
        *,
        method: str,
        url: str,
        token: bytes | None = None,
        key_thumbprint: str | None = None,
    ) -> str:
        """Verify and remember a proof; return the thumbprint of its key.

        Raises: InvalidProof.
        """
        verified = self.verify(proof, method=method, url=url, token=token, key_thumbprint=key_thumbprint)
        self.remember(verified)
        return verified.key_thumbprint

    def verify(
        self,
        proof: bytes | None,
        *,
        method: str,
        url: str,
        token: bytes | None = None,
        key_thumbprint: str | None = None,
    ) -> VerifiedProof:
        """Check a proof for a request, and that it was not used before. Nothing is remembered.

        With `token`, the proof must be for that token; with `key_thumbprint`, it must be made with that key.

        Raises: InvalidProof.
        """
        if not proof:
            raise InvalidProof("the header DPoP is missing")
        if len(proof) > bounds.CREDENTIAL_BYTES:
            raise InvalidProof("the proof is too large")
        try:
            signed = parse_jwt(proof, _TYPES)
            proven = _verify_with_own_key(signed)
            claims = parse_claims(bytes(signed.payload))
        except (InvalidJwt, InvalidClaim) as error:
            raise InvalidProof(error.message) from None
        if claims.get("htm") != method:
            raise InvalidProof("htm is not the method of this request")
        if not _is_same_url(claims.get("htu"), url):
            raise InvalidProof("htu is not the URL of this request")
        if token is not None and not _is_hash_of(claims.get("ath"), token):
            raise InvalidProof("ath is not the hash of the access token")
        if key_thumbprint is not None and not hmac.compare_digest(proven, key_thumbprint):
            raise InvalidProof("the proof is not signed with the key of the token")
        verified = self._read(proven, claims.get("jti"), claims.get("iat"))
        self._check_unused(verified)
        return verified

    def _read(self, key_thumbprint: str, identifier: Any, issued_at: Any) -> VerifiedProof:
        if not isinstance(identifier, str) or not 0 < len(identifier) <= limits.PROOF_ID_CHARACTERS:
            raise InvalidProof("jti is missing, empty or too long")
        is_number = isinstance(issued_at, int | float) and not isinstance(issued_at, bool)
        now = self._clock()
        # Compared and not subtracted: JSON may have NaN, and numbers that are too large for a float.
        if not is_number or not now - limits.PROOF_AGE_S <= issued_at <= now + bounds.CLOCK_LEEWAY_S:
            raise InvalidProof(
                f"iat is more than {limits.PROOF_AGE_S:.0f} s before or {bounds.CLOCK_LEEWAY_S:.0f} s after the time "
                "of this server"
            )
        digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).digest()
        return VerifiedProof(key_thumbprint, digest, issued_at)

    def _check_unused(self, proof: VerifiedProof) -> None:
        used = self._used.get(proof.key_thumbprint)
        if proof.issued_at <= (self._floor if used is None else used.floor):
            raise InvalidProof("the proof is too old; make a new one for each request")
        if used is not None and proof.digest in used.digests:
            raise InvalidProof("this proof was used before; make a new one for each request")

    def remember(self, proof: VerifiedProof) -> None:
        """Refuse a proof from now on.

        Raises: InvalidProof, if it was used since it was verified.
        """
        self._check_unused(proof)
        key, now = proof.key_thumbprint, self._clock()
        self._forget_expired(now)
        used = self._used.get(key)
        if used is None:
            if not self._shares.has_room(key):
                self._forget_key(next(iter(self._used)))
            used = self._used[key] = _UsedProofs()
            used.floor = self._floor
        while used.by_age and (used.by_age[0][0] < now - limits.PROOF_AGE_S or not self._shares.has_room(key)):
            issued_at, digest = heapq.heappop(used.by_age)
            used.digests.discard(digest)
            used.floor = max(used.floor, issued_at)
            self._shares.give_back(key)
        used.used_at = now
        used.digests.add(proof.digest)
        heapq.heappush(used.by_age, (proof.issued_at, proof.digest))
        self._shares.take(key)
        self._used.move_to_end(key)

    def _forget_expired(self, now: float) -> None:
        """Forget the keys all of whose proofs are too old to be accepted again."""
        while self._used:
            key, used = next(iter(self._used.items()))
            if used.used_at >= now - limits.PROOF_AGE_S - bounds.CLOCK_LEEWAY_S:
                return
            self._forget_key(key)

    def _forget_key(self, key: str) -> None:
        used = self._used.pop(key)
        self._floor = max(self._floor, *(issued_at for issued_at, _ in used.by_age), used.floor)
        self._shares.give_back(key, len(used.by_age))


def _verify_with_own_key(signed: Any) -> str:
    """Verify a proof with the public key in its header; return the thumbprint of the key.

    Raises: InvalidJwt.
    """
    if "typ" not in signed.protected:
        raise InvalidJwt("wrong token type")
    members = signed.protected.get("jwk")
    if not isinstance(members, dict):
        raise InvalidJwt("jwk is not a key")
    key = read_jwk(members)
    if key is None:
        raise InvalidJwt("jwk is not a public RSA (2048 bits or more), EC or Ed25519 key")
    verify_jwt(signed, key)
    return str(key.key.thumbprint())


def _is_hash_of(value: Any, token: bytes) -> bool:
    expected = hash_base64url(token).encode()
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
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        return None
    return parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.path or "/"
