"""Hashes, encryption, session MACs and join tokens as the VDO.Ninja bridge computes them.

Written from the protocol description alone; nothing of `hubbub` is used, so that a mistake there is not made twice.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from typing import Any
from urllib.parse import quote

from cryptography.hazmat.primitives import padding, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

DEFAULT_PASSWORD = "someEncryptionKey123"
SALT = "vdo.ninja"


def to_json(value: Any) -> str:
    """`JSON.stringify`, for the plain values that the tests send."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class RoomCipher:
    """Names on the wire and encryption of descriptions, for one room password."""

    def __init__(self, password: str = DEFAULT_PASSWORD) -> None:
        self._password = quote(password.strip(), safe="-_.!~*'()")
        self._key = hashlib.sha256((self._password + SALT).encode()).digest()
        self.suffix = self._key.hex()[:6]

    def room_id(self, room: str) -> str:
        return hashlib.sha256((room + self._password + SALT).encode()).hexdigest()[:16]

    def encrypt(self, value: Any) -> tuple[str, str]:
        """The value as hexadecimal ciphertext, and the vector."""
        vector = os.urandom(16)
        padder = padding.PKCS7(128).padder()
        padded = padder.update(to_json(value).encode()) + padder.finalize()
        encryptor = Cipher(algorithms.AES(self._key), modes.CBC(vector)).encryptor()
        return (encryptor.update(padded) + encryptor.finalize()).hex(), vector.hex()

    def decrypt(self, text: str, vector: str) -> Any:
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(bytes.fromhex(vector))).decryptor()
        padded = decryptor.update(bytes.fromhex(text)) + decryptor.finalize()
        unpadder = padding.PKCS7(128).unpadder()
        return json.loads(unpadder.update(padded) + unpadder.finalize())


class SessionKeys:
    """The X25519 key pair of one session."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        der = self._private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.public_key = base64.b64encode(der).decode()

    def derive(self, public_key: str) -> bytes:
        theirs = serialization.load_der_public_key(base64.b64decode(public_key))
        assert isinstance(theirs, X25519PublicKey)
        return self._private.exchange(theirs)


def envelope_mac(key: bytes, envelope: dict[str, Any]) -> str:
    names = ("kind", "ts", "nonce", "room", "from_stream_id", "payload")
    text = to_json({name: envelope[name] for name in names})
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def mint_token(secret: str, room: str, stream_id: str, ttl_ms: int = 600_000) -> str:
    claims = {
        "room": room,
        "stream_id": stream_id,
        "exp": int(time.time() * 1000) + ttl_ms,
        "nonce": f"join_{secrets.token_hex(4)}",
    }
    head = _base64url(to_json(claims).encode())
    return f"{head}.{_sign(secret, head)}"


def check_token(
    token: str | None, secret: str | None, room: str, stream_id: str | None, *, enforce: bool
) -> str | None:
    """Return the bridge's reason for refusing a token; None if it is accepted."""
    if token is None:
        return "join token required" if enforce else None
    if secret is None:
        return None
    parts = token.split(".")
    if len(parts) != 2:
        return "invalid token format"
    if not hmac.compare_digest(_sign(secret, parts[0]), parts[1]):
        return "invalid token signature"
    claims = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    if claims.get("room") not in (None, room):
        return "join token room mismatch"
    if claims.get("stream_id") not in (None, stream_id):
        return "join token stream mismatch"
    if claims.get("exp") is not None and claims["exp"] <= time.time() * 1000:
        return "join token expired"
    return None


def _sign(secret: str, head: str) -> str:
    return _base64url(hmac.digest(secret.encode(), head.encode(), hashlib.sha256))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
