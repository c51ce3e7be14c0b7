"""The one sealer: small records as opaque text that only we can read and write.

Cursors, request states, context ids and event ids are sealed here. The purpose is
bound into the seal, so that a cursor never opens as a request state. The first key
of the ring seals, every key opens, so that keys can be rotated.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

KEY_BYTES = 32
_NONCE_BYTES = 12
_REFUSED = "this text was not issued here, was changed, or is too old"


class _Record(msgspec.Struct, array_like=True):
    expires: float | None
    value: Any


class Sealer:
    """Seals and opens with a ring of 32-byte keys; without any, with one that is loaded when first needed."""

    def __init__(
        self,
        keys: Sequence[bytes] = (),
        *,
        load: Callable[[], bytes] = lambda: os.urandom(KEY_BYTES),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = tuple(keys)
        self._load = load
        if any(len(key) != KEY_BYTES for key in self._keys):
            raise ValueError(f"a sealing key has {KEY_BYTES} bytes")
        self._clock = clock
        self._ciphers: list[Any] = []

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        """The record as text that nobody else can read or change."""
        expires = None if lifetime_s is None else self._clock() + lifetime_s
        nonce = os.urandom(_NONCE_BYTES)
        plain = msgspec.msgpack.encode(_Record(expires, record))
        sealed = self._ring()[0].encrypt(nonce, plain, purpose.encode())
        return base64.urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def open(self, purpose: str, text: str) -> Any:
        """The record of a text that we sealed for the same purpose.

        Raises:
            ValueError: it was not us, not for this purpose, or too long ago.
        """
        record = msgspec.msgpack.decode(self._decrypt(purpose, _unpad(text)), type=_Record)
        if record.expires is not None and record.expires < self._clock():
            raise ValueError(_REFUSED)
        return record.value

    def _decrypt(self, purpose: str, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        for cipher in self._ring():
            try:
                return bytes(cipher.decrypt(nonce, body, purpose.encode()))
            except InvalidTag:
                continue
        raise ValueError(_REFUSED)

    def _ring(self) -> list[Any]:
        if not self._ciphers:
            # Loading the library takes longer than starting a whole stdio server.
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

            self._ciphers = [ChaCha20Poly1305(key) for key in self._keys or (self._load(),)]
        return self._ciphers


def _unpad(text: str) -> bytes:
    try:
        # A canonical form only: two texts must never open to the same record.
        sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, UnicodeEncodeError):
        raise ValueError(_REFUSED) from None
    if len(sealed) <= _NONCE_BYTES or base64.urlsafe_b64encode(sealed).rstrip(b"=").decode() != text:
        raise ValueError(_REFUSED)
    return sealed
