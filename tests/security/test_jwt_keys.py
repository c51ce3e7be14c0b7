"""The keys that tokens are verified with: where they are read from, and what is no key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk
from tests.security.tokens import EC, ED, ISSUER, KEYS, RSA, Clock, ask, key_set, sign

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.security.jwt import BearerTokens, JwtSettings, open_tokens, read_key_file, read_key_set


async def _no_fetch(url):
    raise AssertionError(f"nothing should be fetched from {url}")


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["RSA", "EC", "Ed25519"])
@pytest.mark.parametrize("form", ["pem", "jwk", "jwks"])
def test_keys_are_read_from_every_kind_of_file(tmp_path, key, form):
    file = tmp_path / "key"
    if form == "pem":
        file.write_bytes(key.as_pem(private=False))
    else:
        file.write_bytes(key_set(key) if form == "jwks" else json.dumps(key.as_dict(private=False)).encode())
    algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "Ed25519"}[key.key_type]
    settings = JwtSettings(keys=str(file), issuer=ISSUER, audience=("mcp",))
    tokens = open_tokens(settings, _no_fetch)
    tokens._clock = Clock()
    assert ask(sign(key=key, algorithm=algorithm), tokens=tokens).name == "alice"


def test_keys_are_fetched_from_an_address():
    async def fetch(url):
        assert url == "https://issuer.example/jwks"
        return key_set(RSA)

    tokens = open_tokens(JwtSettings(keys="https://issuer.example/jwks", issuer=ISSUER, audience=("mcp",)), fetch)
    tokens._clock = Clock()
    assert ask(sign(), tokens=tokens).name == "alice"


def test_keys_are_not_fetched_in_the_clear():
    with pytest.raises(SettingsError, match="https"):
        open_tokens(JwtSettings(keys="http://issuer.example/jwks", issuer="i", audience=("a",)), _no_fetch)


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
def test_a_file_without_a_usable_public_key_is_refused(tmp_path, text):
    file = tmp_path / "keys.json"
    file.write_bytes(text)
    with pytest.raises(SettingsError, match=r"jwt_keys"):
        read_key_file(file)


@pytest.mark.parametrize("form", ["pem", "jwk"])
@pytest.mark.filterwarnings("ignore:Key size should be")
def test_a_short_rsa_key_is_refused(tmp_path, form):
    short = jwk.RSAKey.generate_key(1024)
    file = tmp_path / "key"
    file.write_bytes(short.as_pem(private=False) if form == "pem" else key_set(short))
    with pytest.raises(SettingsError, match=r"jwt_keys"):
        read_key_file(file)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"jwt_keys"):
        read_key_file(tmp_path / "missing")


@given(st.binary(max_size=300) | st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["keys", "kty", "kid", "crv", "x"]), inner)).map(lambda value: json.dumps(value).encode()))  # noqa: E501  # fmt: skip
def test_reading_keys_fails_in_one_way(text):
    with pytest.raises(ValueError):  # noqa: PT011
        read_key_set(text)


def test_one_bad_key_does_not_spoil_the_others():
    text = json.dumps({"keys": [{"kty": "RSA", "n": "x"}, {"kty": "new"}, RSA.as_dict(private=False)]}).encode()
    assert [key.kid for key in read_key_set(text)] == ["rsa"]


@pytest.mark.parametrize("wrong", [{"issuer": ""}, {"audience": ()}, {"audience": ("a", "")}])
def test_issuer_and_audience_are_needed(wrong):
    with pytest.raises(SettingsError, match="audience"):
        BearerTokens(JwtSettings(**({"keys": "", "issuer": "i", "audience": ("a",)} | wrong)), KEYS)
