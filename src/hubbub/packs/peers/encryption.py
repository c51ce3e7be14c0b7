"""The pack's cryptography: encryption for the signalling server, and key exchange between two peers.

The only module of the pack that imports `cryptography`, lazily. AES-CBC without authentication is defined by the
VDO.Ninja bridge; tampering with a description can at most make a connection fail, because DTLS fingerprints and session
MACs are checked later.
"""

from __future__ import annotations

import base64
import os
from typing import Any, Final

from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.js_json import JsonError, parse, stringify

_BLOCK_BYTES: Final = 16
_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b656e032100")
"""DER prefix of the 32 bytes of an X25519 key."""
_SPKI_BYTES: Final = 44


class DecryptionFailed(PeersError):
    """The data was encrypted with another password, or is damaged."""


def encrypt(key: bytes, value: object, vector: bytes | None = None) -> tuple[str, str]:
    """Encrypt a value with AES-256-CBC; return it and the initialisation vector, both in hex."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    vector = os.urandom(_BLOCK_BYTES) if vector is None else vector
    plain = stringify(value).encode()
    padding = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    encrypted = encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize()
    return encrypted.hex(), vector.hex()


def decrypt(key: bytes, encrypted: object, vector: str | None) -> Any:
    """Decrypt a value.

    Raises: DecryptionFailed.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if not isinstance(encrypted, str) or vector is None:
        raise DecryptionFailed("the data is not encrypted")
    try:
        decryptor = Cipher(algorithms.AES(key), modes.CBC(bytes.fromhex(vector))).decryptor()
        plain = decryptor.update(bytes.fromhex(encrypted)) + decryptor.finalize()
    except ValueError as error:
        raise DecryptionFailed("the encrypted data is damaged") from error
    padding = plain[-1] if plain else 0
    if not 1 <= padding <= _BLOCK_BYTES or plain[-padding:] != bytes([padding]) * padding:
        raise DecryptionFailed("the data was encrypted with another password")
    try:
        return parse(plain[:-padding])
    except JsonError as error:
        raise DecryptionFailed("the data was encrypted with another password") from error


class KeyPair:
    """Our X25519 key pair for one session."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()
        raw = self._private.public_key().public_bytes_raw()
        self.public = base64.b64encode(_SPKI_PREFIX + raw).decode()
        """The public key as it is sent: SPKI in base64."""

    def derive_secret(self, public: str) -> bytes:
        """Return the secret that we share with the owner of that public key.

        Raises: ValueError, if it is not a public key.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        spki = base64.b64decode(public, validate=True)
        if len(spki) != _SPKI_BYTES or not spki.startswith(_SPKI_PREFIX):
            raise ValueError("not an X25519 public key")
        return self._private.exchange(X25519PublicKey.from_public_bytes(spki[len(_SPKI_PREFIX) :]))
