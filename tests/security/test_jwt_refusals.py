"""Refused bearer tokens: wrong claims, headers, keys, algorithms and bytes; and the response that callers get."""

import hashlib
import hmac
from typing import Any, Never

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from tests.security.tokens import (
    EC,
    ED,
    ISSUER,
    NOW,
    OTHER_RSA,
    RSA,
    SETTINGS,
    Clock,
    FixedKeys,
    assert_accepted,
    assert_refused,
    authenticate,
    claims,
    encode_segment,
    key_set,
    sign,
)

from hubbub import Principal, bounds
from hubbub.protocol.refusal import Refusal
from hubbub.security.jose import read_key_set
from hubbub.security.jwks import KeysUnavailable
from hubbub.security.jwt import BearerTokens

# -- claims and headers --------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 3600},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": str(NOW + 600)},
        {"exp": -1},
        {"nbf": NOW + 3600},
        {"nbf": "now"},
        {"iat": NOW + 3600},
        {"aud": "another"},
        {"aud": ["another", "mcp2"]},
        {"aud": []},
        {"aud": None},
        {"aud": {"mcp": True}},
        {"aud": [["mcp"]]},
        {"aud": "MCP"},
        {"iss": "https://evil.example"},
        {"iss": ISSUER + "/"},
        {"iss": None},
        {"iss": [ISSUER]},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a" * 257},
        {"sub": "a\nb"},
        {"sub": "anonymous"},
        {"sub": "key:ops"},
        {"scope": 7},
    ],
    ids=str,
)
def test_a_token_with_wrong_claims_is_refused(changes: dict[str, Any]) -> None:
    assert_refused(authenticate(sign(claims(**changes))))


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b"not json", b'{"exp": NaN}', b"\xff", b"[" * 5000])
def test_a_token_without_claims_is_refused(payload: bytes) -> None:
    assert_refused(authenticate(sign(payload)))


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"], "exp": NOW},
        {"crit": []},
        {"b64": True},
        {"kid": "unknown"},
        {"kid": "ec"},
        {"kid": "../../dev/null"},
        {"typ": "logout+jwt"},
    ],
    ids=str,
)
def test_a_token_with_an_unsupported_header_is_refused(header: dict[str, Any]) -> None:
    if "crit" in header or "b64" in header:
        token = _sign_manually({"alg": "RS256", "kid": "rsa"} | header)
    else:
        token = sign(header=header)
    assert_refused(authenticate(token))


def _sign_manually(header: object, payload: object = None) -> str:
    """Return a token with a header that the library refuses to write."""
    signing = f"{encode_segment(header)}.{encode_segment(claims() if payload is None else payload)}"
    signature = jws.JWSRegistry.algorithms["RS256"].sign(signing.encode(), RSA)
    return f"{signing}.{encode_segment(signature)}"


def test_manual_signing_matches_the_library() -> None:
    assert assert_accepted(_sign_manually({"alg": "RS256", "kid": "rsa"})).name == "alice"


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "RS256", "kid": 7},
        {"alg": "RS256", "kid": ["rsa"]},
        {"alg": 5},
        {"alg": ["RS256"]},
        {},
        [],
        "alg",
        7,
        None,
    ],
    ids=str,
)
def test_a_header_of_wrong_types_is_refused(header: object) -> None:
    assert_refused(authenticate(_sign_manually(header)))


# -- keys and algorithms -------------------------------------------------------


def test_a_token_signed_by_another_key_is_refused() -> None:
    assert_refused(authenticate(sign(key=OTHER_RSA)))
    assert_refused(authenticate(sign(key=OTHER_RSA, header={"kid": "rsa"})))
    assert_refused(authenticate(sign(key=OTHER_RSA, header={"kid": "rsa", "jwk": OTHER_RSA.as_dict(private=False)})))


def test_a_token_without_a_key_id_is_refused_if_several_keys_match() -> None:
    one = BearerTokens(SETTINGS, FixedKeys(read_key_set(key_set(RSA, EC))), clock=Clock())
    two = BearerTokens(SETTINGS, FixedKeys(read_key_set(key_set(RSA, OTHER_RSA))), clock=Clock())
    token = sign(header={"kid": None})
    assert assert_accepted(token, tokens=one).name == "alice"
    assert_refused(authenticate(token, tokens=two))


def test_two_keys_with_the_same_id_verify_nothing() -> None:
    keys = FixedKeys(read_key_set(key_set(RSA, OTHER_RSA, kid="rsa")))
    assert_refused(authenticate(sign(), tokens=BearerTokens(SETTINGS, keys, clock=Clock())))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "nOnE"])
@pytest.mark.parametrize("signature", ["", encode_segment(b"x")])
def test_an_unsigned_token_is_refused(algorithm: str, signature: str) -> None:
    assert_refused(
        authenticate(f"{encode_segment({'alg': algorithm, 'kid': 'rsa'})}.{encode_segment(claims())}.{signature}")
    )


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("secret", [RSA.as_pem(private=False), RSA.as_der(private=False), key_set(RSA), b""])
def test_a_public_key_is_not_accepted_as_a_shared_secret(algorithm: str, secret: bytes) -> None:
    signing = f"{encode_segment({'alg': algorithm, 'kid': 'rsa', 'typ': 'JWT'})}.{encode_segment(claims())}"
    made = hmac.new(secret, signing.encode(), hashlib.new("sha" + algorithm[2:]).name).digest()
    assert_refused(authenticate(f"{signing}.{encode_segment(made)}"))


def test_an_algorithm_that_does_not_match_the_key_is_refused() -> None:
    keys = FixedKeys(read_key_set(key_set(RSA, alg="RS256")))
    tokens = BearerTokens(SETTINGS, keys, clock=Clock())
    assert assert_accepted(sign(), tokens=tokens).name == "alice"
    assert_refused(authenticate(sign(algorithm="PS256"), tokens=tokens))
    assert_refused(authenticate(sign(key=EC, algorithm="ES256", header={"kid": "rsa"}), tokens=tokens))


# -- bytes ---------------------------------------------------------------------


def test_a_modified_token_is_refused() -> None:
    token = sign()
    head, body, signature = token.split(".")
    assert_refused(authenticate(f"{head}.{encode_segment(claims(sub='root'))}.{signature}"))
    assert_refused(authenticate(f"{head}.{body}.{signature[:-2]}"))
    assert_refused(authenticate(f"{head}.{body}."))
    assert_refused(authenticate(f"{head}.{body}"))
    assert_refused(authenticate(f"{token}."))
    assert_refused(authenticate(f"{token}.{signature}"))
    assert_refused(authenticate(f".{body}.{signature}"))
    assert_refused(authenticate(f"{head}..{signature}"))
    assert_refused(authenticate(f"{token}="))
    assert_refused(authenticate(f"{token} x"))


@pytest.mark.parametrize("token", ["", ".", "..", "...", "a.b.c", "null", "ü.ü.ü", "\x00", "eyJ", '{"payload":""}'])
def test_garbage_is_refused(token: str) -> None:
    assert_refused(authenticate(token))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(sent: bytes) -> None:
    assert_refused(authenticate(sent))


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_change_of_any_byte_is_refused(position: int, byte: int) -> None:
    token = bytearray(sign(key=ED, algorithm="Ed25519").encode())
    changed = token[:]
    changed[position % len(token)] = byte
    outcome = authenticate(bytes(changed))
    if changed == token:
        assert isinstance(outcome, Principal)
        assert outcome.name == "alice"
    elif changed.strip(b" ") != token:
        assert_refused(outcome)


def test_a_huge_token_is_refused_without_parsing_it() -> None:
    assert_refused(authenticate(sign(claims(scope="x" * bounds.CREDENTIAL_BYTES))))
    assert_refused(authenticate("a" * 10_000_000))


# -- responses and logs -------------------------------------------------------


def test_every_refusal_has_the_same_response() -> None:
    refusals = [
        authenticate(sign(claims(exp=1.0))),
        authenticate(sign(claims(aud="x"))),
        authenticate(sign(key=OTHER_RSA)),
        authenticate("x"),
        authenticate(""),
    ]
    assert len({(refusal.message, refusal.headers) for refusal in map(assert_refused, refusals)}) == 1


def test_the_log_has_the_reason_but_not_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "hubbub.security")
    token = sign(claims(exp=1.0))
    authenticate(token)
    (record,) = caplog.records
    assert record.getMessage() == "token_refused"
    assert vars(record)["reason"] == "expired"
    assert not any(part in str(vars(record)) for part in token.split("."))


def test_without_keys_the_caller_gets_503_with_retry_after() -> None:
    class NoKeys:
        generation = 0

        async def find(self, kid: str | None, algorithm: str) -> Never:
            raise KeysUnavailable("gone")

        async def find_replacement(self, algorithm: str) -> None:
            return None

    refusal = authenticate(sign(), tokens=BearerTokens(SETTINGS, NoKeys(), clock=Clock()))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 503
    assert refusal.headers == ((b"retry-after", b"30"),)
