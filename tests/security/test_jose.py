"""Signing JWTs with private keys that are generated or read, and verifying what was signed."""

import msgspec
import pytest
from joserfc import jwk

from hubbub.security.jose import InvalidJwt, JwtSigningKey, parse_jwt, read_jwk, verify_jwt

TYPES = frozenset(("dpop+jwt",))


def test_a_signed_token_is_verified_with_its_public_key() -> None:
    key = JwtSigningKey.generate()
    public = read_jwk(key.public_jwk())
    assert public is not None
    token = key.sign({"jti": "1"}, header={"typ": "dpop+jwt"}).encode()
    assert msgspec.json.decode(verify_jwt(parse_jwt(token, TYPES), public)) == {"jti": "1"}


def test_another_key_does_not_verify_it() -> None:
    other = read_jwk(JwtSigningKey.generate().public_jwk())
    assert other is not None
    token = JwtSigningKey.generate().sign({}, header={"typ": "dpop+jwt"}).encode()
    with pytest.raises(InvalidJwt, match="signature"):
        verify_jwt(parse_jwt(token, TYPES), other)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (jwk.ECKey.generate_key("P-256"), "ES256"),
        (jwk.ECKey.generate_key("P-384"), "ES384"),
        (jwk.RSAKey.generate_key(2048), "RS256"),
        (jwk.OKPKey.generate_key("Ed25519"), "EdDSA"),
    ],
)
def test_private_keys_are_read_as_pem_and_as_jwk(key: jwk.ECKey | jwk.RSAKey | jwk.OKPKey, algorithm: str) -> None:
    for text in (key.as_pem(private=True), msgspec.json.encode(key.as_dict(private=True))):
        read = JwtSigningKey.read(text)
        assert (read.algorithm, read.thumbprint) == (algorithm, key.thumbprint())
        assert read.sign({}, header={}).count(".") == 2


def test_a_stored_key_is_the_same_key() -> None:
    key = JwtSigningKey.generate()
    public = jwk.import_key(key.public_jwk())
    assert JwtSigningKey.read(key.to_pem()).thumbprint == key.thumbprint == public.thumbprint()


def test_a_public_jwk_has_no_private_part() -> None:
    assert JwtSigningKey.generate().public_jwk().keys() == {"kty", "crv", "x", "y"}


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[]", b"-----BEGIN NOTHING-----", jwk.ECKey.generate_key("P-256").as_pem(private=False)],
)
def test_text_without_a_private_key_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="private"):
        JwtSigningKey.read(text)


def test_an_algorithm_that_does_not_fit_the_key_is_refused() -> None:
    with pytest.raises(ValueError, match="for RS256"):
        JwtSigningKey.read(JwtSigningKey.generate().to_pem(), "RS256")
