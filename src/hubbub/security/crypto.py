"""Ciphers and signatures. The only module of the core that imports `cryptography`, which is slow to load, lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubbub.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def make_cipher(key: bytes) -> Any:
    """Return ChaCha20-Poly1305 with a key of 32 bytes."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)


def decrypt(cipher: Any, nonce: bytes, body: bytes, associated: bytes) -> bytes | None:
    """Decrypt what a cipher of `make_cipher` encrypted; None if another key or purpose was used, or it was changed."""
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(cipher.decrypt(nonce, body, associated))
    except InvalidTag:
        return None


class SigningKey:
    """An Ed25519 private key from a PEM file."""

    def __init__(self, path: Path, setting: str) -> None:
        """Raises: SettingsError, naming the setting, if the file has no such key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise SettingsError(f"{setting}: {path} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise SettingsError(
                f"{setting}: {path} has no Ed25519 private key without a password; "
                "create one with: openssl genpkey -algorithm ed25519"
            )
        self._key = key

    def sign(self, data: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        return self._key.sign(data)


class VerifyingKey:
    """An Ed25519 public key from a PEM file; a private key is accepted too."""

    def __init__(self, path: Path) -> None:
        """Raises: SettingsError, if the file has no such key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

        try:
            pem = path.read_bytes()
            key: Any = load_pem_private_key(pem, None) if b"PRIVATE KEY" in pem else load_pem_public_key(pem)
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError):
            key = None
        if isinstance(key, Ed25519PrivateKey):
            key = key.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise SettingsError(f"{path} has no Ed25519 public key; write one with: openssl pkey -in KEY -pubout")
        self._key = key

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Whether the signature of the data is by this key."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True
