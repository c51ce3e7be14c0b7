"""Mutual authentication of the pack and a sidecar on a TCP port with a shared token, which is never sent.

Any user of a machine can connect to a port, or listen on one while it is free. So the pack asks with a nonce, the
sidecar answers with a challenge and a proof, and only then the request follows. Request and answer are encrypted
with keys that come from the token and both nonces: a program that only forwards them learns nothing.
The only importer of cryptography in this pack.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from hubbub import Secret
from hubbub.packs.activity import limits

NONCE_HEADER: Final = "X-Hubbub-Nonce"
CHALLENGE_HEADER: Final = "X-Hubbub-Challenge"
Direction: TypeAlias = Literal["request", "answer"]
_LABEL: Final = "hubbub sidecar 1"
_NONCE_BYTES: Final = 24
_TAG_BYTES: Final = 16
_TIMESTAMP: Final = struct.Struct("!d")
_NONCE_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{32,128}")
_CIPHER_NONCE: Final = bytes(12)
"""Nonce of the cipher. It is constant because each key encrypts a single message."""


class Exchange:
    """One request and its response between two parties that know the token."""

    def __init__(self, token: Secret, nonce: str, challenge: str) -> None:
        self.headers = {NONCE_HEADER: nonce, CHALLENGE_HEADER: challenge}
        context = f"{_LABEL}\n{nonce}\n{challenge}".encode()
        self._secret = hmac.digest(token.reveal().encode(), context, "sha256")

    @property
    def proof(self) -> str:
        """Return the proof that the sidecar knows the token."""
        return hmac.digest(self._secret, b"proof", "sha256").hex()

    def verify_proof(self, candidate: object) -> bool:
        """Whether a proof shows that the sidecar knows the token."""
        return isinstance(candidate, str) and hmac.compare_digest(
            candidate.encode(errors="replace"), self.proof.encode()
        )

    def seal(self, direction: Direction, plain: bytes) -> bytes:
        """Encrypt the request or the response."""
        return bytes(self._cipher(direction).encrypt(_CIPHER_NONCE, plain, None))

    def open(self, direction: Direction, sealed: bytes) -> bytes:
        """Decrypt the request or the response.

        Raises: ValueError, if it was not encrypted by the other side, or was changed.
        """
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(self._cipher(direction).decrypt(_CIPHER_NONCE, sealed, None))
        except InvalidTag:
            raise ValueError("not encrypted with the token, or changed on the way") from None

    def _cipher(self, direction: Direction) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(hmac.digest(self._secret, direction.encode(), "sha256"))


def make_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)


def is_nonce(text: object) -> bool:
    """Whether a text has the form of a nonce or challenge."""
    return isinstance(text, str) and _NONCE_PATTERN.fullmatch(text) is not None


class Challenges:
    """The sidecar's nonces, each valid for one request and a limited time.

    A challenge is stored only once it is used, so that requests for challenges cannot fill the memory.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = os.urandom(32)
        self._used: dict[str, float] = {}
        self._lock = threading.Lock()

    def issue(self) -> str:
        """Return a new challenge."""
        payload = _TIMESTAMP.pack(self._clock()) + os.urandom(_NONCE_BYTES)
        return base64.urlsafe_b64encode(payload + self._compute_tag(payload)).rstrip(b"=").decode()

    def consume(self, text: str) -> bool:
        """Mark a challenge as used; return False if it was not issued here, has expired, or was used before."""
        expires = self._expiry_time(text)
        now = self._clock()
        with self._lock:
            self._used = {each: until for each, until in self._used.items() if until > now}
            if expires is None or expires <= now or text in self._used:
                return False
            self._used[text] = expires
            return True

    def _expiry_time(self, text: str) -> float | None:
        try:
            decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        payload = decoded[:-_TAG_BYTES]
        is_authentic = len(payload) == _TIMESTAMP.size + _NONCE_BYTES and hmac.compare_digest(
            decoded[-_TAG_BYTES:], self._compute_tag(payload)
        )
        return _TIMESTAMP.unpack_from(payload)[0] + limits.SIDECAR_CHALLENGE_MAX_S if is_authentic else None

    def _compute_tag(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, "sha256")[:_TAG_BYTES]
