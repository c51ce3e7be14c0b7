import asyncio
import base64
import hashlib
import hmac
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk, jws

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.model import Principal
from hubbub.protocol.refusal import Refusal
from hubbub.security.jwks import FixedKeys, KeysUnavailable
from hubbub.security.jwt import BearerTokens, JwtSettings, open_tokens, read_key_file, read_key_set

NOW = 1_900_000_000.0
ISSUER = "https://issuer.example"
SETTINGS = JwtSettings(keys="", issuer=ISSUER, audience=("https://mcp.example.com", "mcp"))

RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})
OTHER_RSA = jwk.RSAKey.generate_key(2048, {"kid": "other"})
EC = jwk.ECKey.generate_key("P-256", {"kid": "ec"})
EC384 = jwk.ECKey.generate_key("P-384", {"kid": "ec384"})
ED = jwk.OKPKey.generate_key("Ed25519", {"kid": "ed"})
EVERY_ALGORITHM = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "Ed25519", "EdDSA"]


def key_set(*keys, **changes):
    return json.dumps({"keys": [key.as_dict(private=False) | changes for key in keys]}).encode()


KEYS = FixedKeys(read_key_set(key_set(RSA, EC, EC384, ED)))


class Clock:
    now = NOW

    def __call__(self):
        return self.now


def claims(**changes):
    whole = {"iss": ISSUER, "aud": "mcp", "sub": "alice", "exp": NOW + 600, "iat": NOW - 5, "scope": "read write"}
    return {name: value for name, value in (whole | changes).items() if value is not None}


def sign(payload=None, key=RSA, header=None, algorithm="RS256"):
    whole = {"alg": algorithm, "kid": key.kid, "typ": "JWT"} | (header or {})
    whole = {name: value for name, value in whole.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=EVERY_ALGORITHM, strict_check_header=False)
    body = payload if isinstance(payload, bytes) else json.dumps(claims() if payload is None else payload)
    return jws.serialize_compact(whole, body, key, registry=registry)


def encoded(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def ask(token, *, tokens=None, scheme="Bearer "):
    tokens = tokens or BearerTokens(SETTINGS, KEYS, clock=Clock())
    sent = token if isinstance(token, bytes) else token.encode("latin-1")
    return asyncio.run(tokens(Headers([(b"authorization", scheme.encode() + sent)])))


def assert_refused(outcome):
    assert isinstance(outcome, Refusal), outcome
    assert outcome.status == 401
    ((name, challenge),) = outcome.headers
    assert name == b"www-authenticate"
    assert challenge.startswith(b"Bearer ")
    assert b'error="invalid_token"' in challenge
    return outcome


# -- good tokens ---------------------------------------------------------------


def test_a_good_token_names_its_caller_and_scopes():
    assert ask(sign()) == Principal("alice", frozenset({"read", "write"}))


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer   "])
def test_the_scheme_may_be_written_in_any_case(scheme):
    assert ask(sign(), scheme=scheme) == Principal("alice", frozenset({"read", "write"}))


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(RSA, "RS256"), (RSA, "RS512"), (RSA, "PS256"), (EC, "ES256"), (EC384, "ES384"), (ED, "Ed25519"), (ED, "EdDSA")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_allowed_algorithm_works_with_its_type_of_key(key, algorithm):
    assert ask(sign(key=key, algorithm=algorithm)).name == "alice"


@pytest.mark.parametrize("changes", [{"aud": ["x", "mcp"]}, {"aud": "https://mcp.example.com"}, {"iat": None}])
def test_lawful_variants_are_accepted(changes):
    assert ask(sign(claims(**changes))).name == "alice"


@pytest.mark.parametrize(
    ("changes", "scopes"),
    [
        ({"scope": None}, set()),
        ({"scope": ["a", "b"]}, {"a", "b"}),
        ({"scope": None, "scp": "a b"}, {"a", "b"}),
        ({"scope": "a", "scp": ["b"]}, {"a", "b"}),
    ],
)
def test_scopes_come_from_scope_and_scp(changes, scopes):
    assert ask(sign(claims(**changes))).scopes == scopes


@pytest.mark.parametrize("changes", [{"exp": NOW - 10}, {"nbf": NOW + 10}, {"iat": NOW + 10}])
def test_clocks_may_differ_a_little(changes):
    assert ask(sign(claims(**changes))).name == "alice"


def test_headers_that_mean_nothing_to_us_are_ignored():
    header = {"cat": "x", "typ": "at+JWT", "jku": "https://evil.example/keys"}
    assert ask(sign(header=header)).name == "alice"


# -- wrong tokens --------------------------------------------------------------


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
def test_a_token_with_wrong_claims_is_refused(changes):
    assert_refused(ask(sign(claims(**changes))))


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b"not json", b'{"exp": NaN}', b"\xff", b"[" * 5000])
def test_a_token_without_claims_is_refused(payload):
    assert_refused(ask(sign(payload)))


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
def test_a_token_with_a_header_we_do_not_follow_is_refused(header):
    if "crit" in header or "b64" in header:
        token = _signed_by_hand({"alg": "RS256", "kid": "rsa"} | header)
    else:
        token = sign(header=header)
    assert_refused(ask(token))


def _signed_by_hand(header, payload=None):
    """A token whose header the library itself would not write."""
    signing = f"{encoded(header)}.{encoded(claims() if payload is None else payload)}"
    signature = jws.JWSRegistry.algorithms["RS256"].sign(signing.encode(), RSA)
    return f"{signing}.{encoded(signature)}"


def test_the_hand_signs_as_the_library_does():
    assert ask(_signed_by_hand({"alg": "RS256", "kid": "rsa"})).name == "alice"


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
def test_a_header_of_wrong_types_is_refused(header):
    assert_refused(ask(_signed_by_hand(header)))


def test_a_token_by_another_key_is_refused():
    assert_refused(ask(sign(key=OTHER_RSA)))
    assert_refused(ask(sign(key=OTHER_RSA, header={"kid": "rsa"})))
    assert_refused(ask(sign(key=OTHER_RSA, header={"kid": "rsa", "jwk": OTHER_RSA.as_dict(private=False)})))


def test_a_token_without_a_key_id_is_refused_where_several_keys_fit():
    one = BearerTokens(SETTINGS, FixedKeys(read_key_set(key_set(RSA, EC))), clock=Clock())
    two = BearerTokens(SETTINGS, FixedKeys(read_key_set(key_set(RSA, OTHER_RSA))), clock=Clock())
    token = sign(header={"kid": None})
    assert ask(token, tokens=one).name == "alice"
    assert_refused(ask(token, tokens=two))


def test_two_keys_of_one_name_verify_nothing():
    keys = FixedKeys(read_key_set(key_set(RSA, OTHER_RSA, kid="rsa")))
    assert_refused(ask(sign(), tokens=BearerTokens(SETTINGS, keys, clock=Clock())))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "nOnE"])
@pytest.mark.parametrize("signature", ["", encoded(b"x")])
def test_an_unsigned_token_is_refused(algorithm, signature):
    assert_refused(ask(f"{encoded({'alg': algorithm, 'kid': 'rsa'})}.{encoded(claims())}.{signature}"))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("secret", [RSA.as_pem(private=False), RSA.as_der(private=False), key_set(RSA), b""])
def test_a_public_key_is_no_shared_secret(algorithm, secret):
    signing = f"{encoded({'alg': algorithm, 'kid': 'rsa', 'typ': 'JWT'})}.{encoded(claims())}"
    made = hmac.new(secret, signing.encode(), hashlib.new("sha" + algorithm[2:]).name).digest()
    assert_refused(ask(f"{signing}.{encoded(made)}"))


def test_an_algorithm_that_the_key_is_not_for_is_refused():
    keys = FixedKeys(read_key_set(key_set(RSA, alg="RS256")))
    tokens = BearerTokens(SETTINGS, keys, clock=Clock())
    assert ask(sign(), tokens=tokens).name == "alice"
    assert_refused(ask(sign(algorithm="PS256"), tokens=tokens))
    assert_refused(ask(sign(key=EC, algorithm="ES256", header={"kid": "rsa"}), tokens=tokens))


def test_a_token_that_was_changed_is_refused():
    token = sign()
    head, body, signature = token.split(".")
    assert_refused(ask(f"{head}.{encoded(claims(sub='root'))}.{signature}"))
    assert_refused(ask(f"{head}.{body}.{signature[:-2]}"))
    assert_refused(ask(f"{head}.{body}."))
    assert_refused(ask(f"{head}.{body}"))
    assert_refused(ask(f"{token}."))
    assert_refused(ask(f"{token}.{signature}"))
    assert_refused(ask(f".{body}.{signature}"))
    assert_refused(ask(f"{head}..{signature}"))
    assert_refused(ask(f"{token}="))
    assert_refused(ask(f"{token} x"))


@pytest.mark.parametrize("token", ["", ".", "..", "...", "a.b.c", "null", "ü.ü.ü", "\x00", "eyJ", '{"payload":""}'])
def test_garbage_is_refused(token):
    assert_refused(ask(token))


@given(st.binary(max_size=200))
def test_no_bytes_are_a_token(sent):
    assert_refused(ask(sent))


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_no_changed_byte_goes_unnoticed(position, byte):
    token = bytearray(sign(key=ED, algorithm="Ed25519").encode())
    changed = token[:]
    changed[position % len(token)] = byte
    outcome = ask(bytes(changed))
    if changed == token:
        assert outcome.name == "alice"
    elif changed.strip(b" ") != token:
        assert_refused(outcome)


def test_a_huge_token_is_refused_unread():
    assert_refused(ask(sign(claims(scope="x" * bounds.CREDENTIAL_BYTES))))
    assert_refused(ask("a" * 10_000_000))


def test_every_refusal_says_the_same():
    refusals = [ask(sign(claims(exp=1.0))), ask(sign(claims(aud="x"))), ask(sign(key=OTHER_RSA)), ask("x"), ask("")]
    assert len({(refusal.message, refusal.headers) for refusal in map(assert_refused, refusals)}) == 1


def test_the_log_says_why_but_not_what(caplog):
    caplog.set_level("INFO", "hubbub.security")
    token = sign(claims(exp=1.0))
    ask(token)
    (record,) = caplog.records
    assert record.getMessage() == "token_refused"
    assert record.reason == "expired"
    assert not any(part in str(vars(record)) for part in token.split("."))


def test_without_keys_the_caller_is_asked_to_come_again():
    class NoKeys:
        async def find(self, kid, algorithm):
            raise KeysUnavailable("gone")

    refusal = ask(sign(), tokens=BearerTokens(SETTINGS, NoKeys(), clock=Clock()))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 503
    assert refusal.headers == ((b"retry-after", b"30"),)


def test_keys_are_fetched_from_an_address():
    async def fetch(url):
        assert url == "https://issuer.example/jwks"
        return key_set(RSA)

    tokens = open_tokens(JwtSettings(keys="https://issuer.example/jwks", issuer=ISSUER, audience=("mcp",)), fetch)
    tokens._clock = Clock()
    assert ask(sign(), tokens=tokens).name == "alice"


@pytest.mark.parametrize("sent", [None, b"", b"Basic YTpi", b"Bearer", b"Bearertoken", b"eyJ.a.b", b"Token x"])
def test_what_is_no_bearer_token_is_left_to_others(sent):
    tokens = BearerTokens(SETTINGS, KEYS, clock=Clock())
    headers = Headers([] if sent is None else [(b"authorization", sent)])
    assert asyncio.run(tokens(headers)) is None


# -- the memory of verified tokens ---------------------------------------------


class CountingKeys:
    """Counts how often a key was needed."""

    def __init__(self):
        self.asked = 0

    async def find(self, kid, algorithm):
        self.asked += 1
        return await KEYS.find(kid, algorithm)


def test_a_token_is_verified_once_in_a_while():
    keys, clock = CountingKeys(), Clock()
    tokens = BearerTokens(SETTINGS, keys, clock=clock)
    token = sign(claims(exp=NOW + 3600))
    assert ask(token, tokens=tokens) is ask(token, tokens=tokens)
    assert keys.asked == 1
    clock.now += bounds.VERIFIED_TOKEN_S
    assert ask(token, tokens=tokens).name == "alice"
    assert keys.asked == 2


def test_a_verified_token_still_expires():
    clock = Clock()
    tokens = BearerTokens(SETTINGS, KEYS, clock=clock)
    token = sign(claims(exp=NOW + 60))
    assert ask(token, tokens=tokens).name == "alice"
    clock.now = NOW + 60 + bounds.CLOCK_LEEWAY_S
    assert_refused(ask(token, tokens=tokens))
    assert not tokens._verified


def test_the_memory_is_bounded_and_forgets_who_came_longest_ago(monkeypatch):
    monkeypatch.setattr(bounds, "VERIFIED_TOKENS", 2)
    keys = CountingKeys()
    tokens = BearerTokens(SETTINGS, keys, clock=Clock())
    one, two, three = (sign(claims(sub=name), key=ED, algorithm="Ed25519") for name in "123")
    for token in (one, two, one, three):
        ask(token, tokens=tokens)
    assert keys.asked == 3
    ask(one, tokens=tokens)
    assert keys.asked == 3
    ask(two, tokens=tokens)
    assert keys.asked == 4
    assert len(tokens._verified) == 2


def test_a_refused_token_is_not_kept():
    tokens = BearerTokens(SETTINGS, KEYS, clock=Clock())
    for number in range(10):
        ask(f"garbage.{number}.x", tokens=tokens)
    assert not tokens._verified


# -- keys ----------------------------------------------------------------------


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


async def _no_fetch(url):
    raise AssertionError(f"nothing should be fetched from {url}")


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


def test_keys_are_not_fetched_in_the_clear():
    with pytest.raises(SettingsError, match="https"):
        open_tokens(JwtSettings(keys="http://issuer.example/jwks", issuer="i", audience=("a",)), _no_fetch)


@pytest.mark.parametrize("wrong", [{"issuer": ""}, {"audience": ()}, {"audience": ("a", "")}])
def test_issuer_and_audience_are_needed(wrong):
    with pytest.raises(SettingsError, match="audience"):
        BearerTokens(JwtSettings(**({"keys": "", "issuer": "i", "audience": ("a",)} | wrong)), KEYS)


def test_the_library_is_not_loaded_before_it_is_needed():
    code = "import sys, hubbub.security.jwt, hubbub.security.gate; assert 'joserfc' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
