"""The keys that verify tokens: their sources, and which keys are refused."""

import json
import time
from pathlib import Path
from typing import Any, Never

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk
from tests.security.tokens import (
    EC,
    ED,
    ISSUER,
    KEYS,
    RSA,
    SETTINGS,
    Clock,
    assert_accepted,
    assert_refused,
    authenticate,
    claims,
    key_set,
    sign,
)

from hubbub import SettingsError, bounds
from hubbub.security.jose import read_key_set, read_keys
from hubbub.security.jwks import FileKeys
from hubbub.security.jwt import BearerTokens, JwtSettings, make_token_authenticator


async def _no_fetch(url: str) -> Never:
    raise AssertionError(f"nothing should be fetched from {url}")


def valid_now() -> dict[str, Any]:
    return claims(iat=time.time() - 5, exp=time.time() + 3600)


def make_authenticator(file: Path) -> BearerTokens:
    return make_token_authenticator(JwtSettings(keys=str(file), issuer=ISSUER, audience=("mcp",)), _no_fetch)


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["RSA", "EC", "Ed25519"])
@pytest.mark.parametrize("form", ["pem", "jwk", "jwks"])
def test_keys_are_read_from_every_kind_of_file(tmp_path: Path, key: jwk.Key, form: str) -> None:
    file = tmp_path / "key"
    if form == "pem":
        assert not isinstance(key, jwk.OctKey)
        file.write_bytes(key.as_pem(private=False))
    else:
        file.write_bytes(key_set(key) if form == "jwks" else json.dumps(key.as_dict(private=False)).encode())
    algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "Ed25519"}[key.key_type]
    settings = JwtSettings(keys=str(file), issuer=ISSUER, audience=("mcp",))
    tokens = make_token_authenticator(settings, _no_fetch)
    assert assert_accepted(sign(valid_now(), key=key, algorithm=algorithm), tokens=tokens).name == "alice"


def test_keys_are_fetched_from_a_url() -> None:
    async def fetch(url: str) -> bytes:
        assert url == "https://issuer.example/jwks"
        return key_set(RSA)

    tokens = make_token_authenticator(
        JwtSettings(keys="https://issuer.example/jwks", issuer=ISSUER, audience=("mcp",)), fetch
    )
    assert assert_accepted(sign(valid_now()), tokens=tokens).name == "alice"


def test_keys_are_not_fetched_over_plain_http() -> None:
    with pytest.raises(SettingsError, match="https"):
        make_token_authenticator(JwtSettings(keys="http://issuer.example/jwks", issuer="i", audience=("a",)), _no_fetch)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----",
        RSA.as_pem(private=True),
        json.dumps(RSA.as_dict(private=True)).encode(),
        json.dumps({"kty": "oct", "k": "c2VjcmV0"}).encode(),
        key_set(RSA, use="enc"),
        key_set(RSA, alg="HS256"),
        key_set(RSA, alg=7),
        key_set(RSA, n="!"),
        key_set(jwk.OKPKey.generate_key("X25519")),
        key_set(jwk.ECKey.generate_key("secp256k1")),
        b'{"keys": 7}',
        b'{"keys": [7, null, {}]}',
        json.dumps({"keys": [{}] * (bounds.PUBLIC_KEYS + 1)}).encode(),
        b"{" + b" " * bounds.KEY_FILE_BYTES + b"}",
    ],
    ids=range(17),
)
def test_a_file_without_a_usable_public_key_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(text)
    with pytest.raises(SettingsError, match=r"jwt_keys"):
        make_authenticator(file)


@pytest.mark.parametrize("form", ["pem", "jwk"])
@pytest.mark.filterwarnings("ignore:Key size should be")
def test_a_short_rsa_key_is_refused(tmp_path: Path, form: str) -> None:
    short = jwk.RSAKey.generate_key(1024)
    file = tmp_path / "key"
    file.write_bytes(short.as_pem(private=False) if form == "pem" else key_set(short))
    with pytest.raises(SettingsError, match=r"jwt_keys"):
        make_authenticator(file)


def test_a_key_removed_from_the_file_verifies_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, now = tmp_path / "keys.json", Clock()
    file.write_bytes(key_set(RSA, EC))
    keys = FileKeys(file, read_keys, monotonic=now)
    tokens = BearerTokens(SETTINGS, keys, clock=Clock())
    by_rsa, by_ec = sign(), sign(key=EC, algorithm="ES256")
    assert assert_accepted(by_rsa, tokens=tokens).name == assert_accepted(by_ec, tokens=tokens).name == "alice"
    file.write_bytes(key_set(EC))
    now.now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert_refused(authenticate(by_rsa, tokens=tokens))
    assert assert_accepted(by_ec, tokens=tokens).name == "alice"
    file.write_bytes(b"not finished")
    now.now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert assert_accepted(by_ec, tokens=tokens).name == "alice"  # an invalid edit does not lock callers out
    file.unlink()
    now.now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert_refused(authenticate(by_ec, tokens=tokens))
    assert [record.getMessage() for record in caplog.records] == ["keys_not_read", "key_file_missing"]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"jwt_keys"):
        make_authenticator(tmp_path / "missing")


@given(st.binary(max_size=300) | st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["keys", "kty", "kid", "crv", "x"]), inner)).map(lambda value: json.dumps(value).encode()))  # noqa: E501  # fmt: skip
def test_any_other_text_is_refused_as_a_key_set_with_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_key_set(text)


def test_an_unusable_key_does_not_prevent_the_use_of_others() -> None:
    text = json.dumps({"keys": [{"kty": "RSA", "n": "x"}, {"kty": "new"}, RSA.as_dict(private=False)]}).encode()
    assert [key.kid for key in read_key_set(text)] == ["rsa"]


@pytest.mark.parametrize("wrong", [{"issuer": ""}, {"audience": ()}, {"audience": ("a", "")}])
def test_issuer_and_audience_are_required(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="audience"):
        BearerTokens(JwtSettings(**({"keys": "", "issuer": "i", "audience": ("a",)} | wrong)), KEYS)
