"""Keys from files, and signatures."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from hubbub import SettingsError
from hubbub.security.crypto import SigningKey, VerifyingKey, decrypt, make_cipher


def pem(key: object, encryption: KeySerializationEncryption | None = None) -> bytes:
    assert hasattr(key, "private_bytes")
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return data


def test_a_signature_is_verified_with_the_public_key_and_with_the_private_one(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    private.write_bytes(pem(key))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    signature = SigningKey(private, "signing_key_file").sign(b"head")
    for path in (private, public):
        assert VerifyingKey(path).verifies(signature, b"head")
        assert not VerifyingKey(path).verifies(signature, b"another")
        assert not VerifyingKey(path).verifies(b"short", b"head")


@pytest.mark.parametrize(
    "content",
    [
        b"hunter2",
        b"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
        pem(generate_private_key(SECP256R1())),
        pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"password")),
    ],
)
def test_a_file_without_a_usable_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"signing_key_file: .* has no Ed25519 private key") as raised:
        SigningKey(path, "signing_key_file")
    assert "hunter2" not in raised.value.message
    with pytest.raises(SettingsError, match="has no Ed25519 public key"):
        VerifyingKey(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"signing_key_file: .*/none cannot be read: No such file"):
        SigningKey(tmp_path / "none", "signing_key_file")
    with pytest.raises(SettingsError, match="/none cannot be read: No such file"):
        VerifyingKey(tmp_path / "none")


def test_only_the_same_key_and_purpose_decrypt() -> None:
    cipher, other, nonce = make_cipher(bytes(32)), make_cipher(b"x" * 32), bytes(12)
    sealed = cipher.encrypt(nonce, b"plain", b"purpose")
    assert decrypt(cipher, nonce, sealed, b"purpose") == b"plain"
    assert decrypt(cipher, nonce, sealed, b"another") is None
    assert decrypt(other, nonce, sealed, b"purpose") is None
