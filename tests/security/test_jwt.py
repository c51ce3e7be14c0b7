"""Valid bearer tokens: their principal, accepted variations, and how long they are cached."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from joserfc import jwk
from tests.security.tokens import (
    EC,
    EC384,
    ED,
    KEYS,
    NOW,
    RSA,
    SETTINGS,
    Clock,
    assert_accepted,
    assert_refused,
    authenticate,
    claims,
    sign,
)

from hubbub import Principal, bounds
from hubbub.protocol.http_headers import Headers
from hubbub.security.gate import KnownCaller
from hubbub.security.jwks import VerifyingKey
from hubbub.security.jwt import BearerTokens

# -- valid tokens ---------------------------------------------------------------


def test_a_valid_token_gives_the_caller_and_its_scopes() -> None:
    assert authenticate(sign()) == Principal("alice", frozenset({"read", "write"}))


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer   "])
def test_the_scheme_may_be_written_in_any_case(scheme: str) -> None:
    assert authenticate(sign(), scheme=scheme) == Principal("alice", frozenset({"read", "write"}))


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(RSA, "RS256"), (RSA, "RS512"), (RSA, "PS256"), (EC, "ES256"), (EC384, "ES384"), (ED, "Ed25519"), (ED, "EdDSA")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_allowed_algorithm_works_with_its_type_of_key(key: jwk.Key, algorithm: str) -> None:
    assert assert_accepted(sign(key=key, algorithm=algorithm)).name == "alice"


@pytest.mark.parametrize("changes", [{"aud": ["x", "mcp"]}, {"aud": "https://mcp.example.com"}, {"iat": None}])
def test_valid_variants_are_accepted(changes: dict[str, Any]) -> None:
    assert assert_accepted(sign(claims(**changes))).name == "alice"


@pytest.mark.parametrize(
    ("changes", "scopes"),
    [
        ({"scope": None}, set()),
        ({"scope": ["a", "b"]}, {"a", "b"}),
        ({"scope": None, "scp": "a b"}, {"a", "b"}),
        ({"scope": "a", "scp": ["b"]}, {"a", "b"}),
    ],
)
def test_scopes_come_from_scope_and_scp(changes: dict[str, Any], scopes: set[str]) -> None:
    assert assert_accepted(sign(claims(**changes))).scopes == scopes


@pytest.mark.parametrize("changes", [{"exp": NOW - 10}, {"nbf": NOW + 10}, {"iat": NOW + 10}])
def test_clocks_may_differ_by_the_leeway(changes: dict[str, float]) -> None:
    assert assert_accepted(sign(claims(**changes))).name == "alice"


def test_unknown_token_headers_are_ignored() -> None:
    header = {"cat": "x", "typ": "at+JWT", "jku": "https://evil.example/keys"}
    assert assert_accepted(sign(header=header)).name == "alice"


@pytest.mark.parametrize("sent", [None, b"", b"Basic YTpi", b"Bearer", b"Bearertoken", b"eyJ.a.b", b"Token x"])
def test_other_authorization_headers_are_left_to_other_authenticators(sent: bytes | None) -> None:
    tokens = BearerTokens(SETTINGS, KEYS, clock=Clock())
    headers = Headers([] if sent is None else [(b"authorization", sent)])
    assert asyncio.run(tokens(headers)) is None


def test_the_library_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, hubbub.security.jwt, hubbub.security.gate; assert 'joserfc' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- the cache of verified tokens ---------------------------------------------


class CountingKeys:
    """Counts key lookups."""

    generation = 0

    def __init__(self) -> None:
        self.lookups = 0

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        self.lookups += 1
        return await KEYS.find(kid, algorithm)

    async def find_replacement(self, algorithm: str) -> None:
        return None


def test_a_verified_token_is_cached_for_a_while() -> None:
    keys, clock = CountingKeys(), Clock()
    tokens = BearerTokens(SETTINGS, keys, clock=clock)
    token = sign(claims(exp=NOW + 3600))
    assert authenticate(token, tokens=tokens) is authenticate(token, tokens=tokens)
    assert keys.lookups == 1
    clock.now += bounds.VERIFIED_TOKEN_TTL_S
    assert assert_accepted(token, tokens=tokens).name == "alice"
    assert keys.lookups == 2


def test_a_cached_token_still_expires() -> None:
    keys, clock = CountingKeys(), Clock()
    tokens = BearerTokens(SETTINGS, keys, clock=clock)
    token = sign(claims(exp=NOW + 60))
    assert assert_accepted(token, tokens=tokens).name == "alice"
    clock.now = NOW + 60 + bounds.CLOCK_LEEWAY_S
    assert_refused(authenticate(token, tokens=tokens))
    clock.now = NOW
    assert assert_accepted(token, tokens=tokens).name == "alice"
    assert keys.lookups == 3


def test_the_cache_is_bounded_and_evicts_the_least_recently_used_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "VERIFIED_TOKENS", 2)
    keys = CountingKeys()
    tokens = BearerTokens(SETTINGS, keys, clock=Clock())
    one, two, three = (sign(claims(sub=name), key=ED, algorithm="Ed25519") for name in "123")
    for token in (one, two, one, three):
        authenticate(token, tokens=tokens)
    assert keys.lookups == 3
    authenticate(one, tokens=tokens)
    assert keys.lookups == 3
    authenticate(two, tokens=tokens)
    assert keys.lookups == 4
    authenticate(three, tokens=tokens)
    assert keys.lookups == 5


def test_a_refused_token_is_not_cached_and_evicts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "VERIFIED_TOKENS", 1)
    keys = CountingKeys()
    tokens = BearerTokens(SETTINGS, keys, clock=Clock())
    good, expired = sign(), sign(claims(exp=NOW - 3600))
    assert assert_accepted(good, tokens=tokens).name == "alice"
    for number in range(10):
        authenticate(f"garbage.{number}.x", tokens=tokens)
        assert_refused(authenticate(expired, tokens=tokens))
        assert keys.lookups == number + 2
    assert assert_accepted(good, tokens=tokens).name == "alice"
    assert keys.lookups == 11


def test_a_verified_token_is_known_until_it_expires() -> None:
    clock = Clock()
    tokens = BearerTokens(SETTINGS, KEYS, clock=clock)
    headers = Headers([(b"authorization", b"Bearer " + sign(claims(exp=NOW + 60)).encode())])
    assert tokens.find_known(headers) is None
    principal = asyncio.run(tokens(headers))
    assert isinstance(principal, Principal)
    assert tokens.find_known(headers) == KnownCaller(principal, NOW + 60)
    clock.now += 60
    assert tokens.find_known(headers) is None
