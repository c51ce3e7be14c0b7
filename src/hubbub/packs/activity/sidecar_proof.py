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
Part: TypeAlias = Literal["request", "answer"]
_LABEL: Final = "hubbub sidecar 1"
_BYTES: Final = 24
_TAG_BYTES: Final = 16
_TIME: Final = struct.Struct("!d")
_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{32,128}")
_ONLY_MESSAGE: Final = bytes(12)
"""Nonce of the cipher. It is constant because each key encrypts a single message."""


class Exchange:
    """One request and its response between two parties that know the token."""

    def __init__(self, token: Secret, nonce: str, challenge: str) -> None:
        self.headers = {NONCE_HEADER: nonce, CHALLENGE_HEADER: challenge}
        about = f"{_LABEL}\n{nonce}\n{challenge}".encode()
        self._secret = hmac.digest(token.reveal().encode(), about, "sha256")

    @property
    def proof(self) -> str:
        """Return the proof that the sidecar knows the token."""
        return hmac.digest(self._secret, b"proof", "sha256").hex()

    def is_proof(self, given: object) -> bool:
        """Whether a proof shows that the sidecar knows the token."""
        return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), self.proof.encode())

    def seal(self, part: Part, plain: bytes) -> bytes:
        """Encrypt the request or the response."""
        return bytes(self._cipher(part).encrypt(_ONLY_MESSAGE, plain, None))

    def open(self, part: Part, sealed: bytes) -> bytes:
        """Decrypt the request or the response.

        Raises: ValueError, if it was not encrypted by the other side, or was changed.
        """
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(self._cipher(part).decrypt(_ONLY_MESSAGE, sealed, None))
        except InvalidTag:
            raise ValueError("not encrypted with the token, or changed on the way") from None

    def _cipher(self, part: Part) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(hmac.digest(self._secret, part.encode(), "sha256"))


def make_nonce() -> str:
    return secrets.token_urlsafe(_BYTES)


def is_nonce(text: object) -> bool:
    """Whether a text has the form of a nonce or challenge."""
    return isinstance(text, str) and _TEXT.fullmatch(text) is not None


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
        stamped = _TIME.pack(self._clock()) + os.urandom(_BYTES)
        return base64.urlsafe_b64encode(stamped + self._tag(stamped)).rstrip(b"=").decode()

    def use(self, text: str) -> bool:
        """Mark a challenge as used; return False if it was not issued here, has expired, or was used before."""
        expires = self._expires(text)
        now = self._clock()
        with self._lock:
            self._used = {each: until for each, until in self._used.items() if until > now}
            if expires is None or expires <= now or text in self._used:
                return False
            self._used[text] = expires
            return True

    def _expires(self, text: str) -> float | None:
        try:
            whole = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        stamped = whole[:-_TAG_BYTES]
        is_own = len(stamped) == _TIME.size + _BYTES and hmac.compare_digest(whole[-_TAG_BYTES:], self._tag(stamped))
        return _TIME.unpack_from(stamped)[0] + limits.SIDECAR_CHALLENGE_S if is_own else None

    def _tag(self, stamped: bytes) -> bytes:
        return hmac.digest(self._key, stamped, "sha256")[:_TAG_BYTES]
