"""DPoP proofs (RFC 9449): made for one request, with the key of the client, accepted once."""

import hashlib
import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk

from hubbub import bounds
from hubbub.oauth import limits
from hubbub.oauth.dpop_proofs import PROOF_ALGORITHMS, DpopProofs, InvalidProof
from hubbub.security.jose import JwtSigningKey

NOW = 1_900_000_000.0
URL = "https://hub.example.com/mcp"
KEY = JwtSigningKey.generate()
TOKEN = b"an.access.token"


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def hash_of(token: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(token).digest()).rstrip(b"=").decode()


def prove(
    key: JwtSigningKey = KEY, *, header: dict[str, Any] | None = None, drop: str = "", **changes: object
) -> bytes:
    claims = {"htm": "POST", "htu": URL, "iat": int(NOW), "jti": "one"} | changes
    fields = {"typ": "dpop+jwt", "jwk": key.public_jwk()} | (header or {})
    claims.pop(drop, None)
    fields.pop(drop, None)
    return key.sign(claims, header=fields).encode()


def check(proof: bytes | None, proofs: DpopProofs | None = None, token: bytes | None = None, url: str = URL) -> str:
    return (proofs or DpopProofs(clock=Clock())).check(proof, method="POST", url=url, token=token)


def test_a_proof_gives_the_thumbprint_of_its_key() -> None:
    assert check(prove()) == KEY.thumbprint


@pytest.mark.parametrize("algorithm", PROOF_ALGORITHMS)
def test_a_proof_may_use_each_algorithm_that_is_advertised(algorithm: str) -> None:
    key: Any
    if algorithm[:2] in ("RS", "PS"):
        key = jwk.RSAKey.generate_key(4096 if algorithm == "RS256" else 2048, private=True)
    elif algorithm.startswith("ES"):
        curve: Any = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
        key = jwk.ECKey.generate_key(curve, private=True)
    else:
        key = jwk.OKPKey.generate_key("Ed448" if algorithm == "Ed448" else "Ed25519", private=True)
    signing = JwtSigningKey.read(key.as_pem(private=True), algorithm)
    assert check(prove(signing)) == signing.thumbprint


def test_keys_that_are_slow_to_verify_with_are_refused() -> None:
    numbers = rsa.RSAPublicNumbers(2**2047 + 1, 2**2048 - 1)
    slow = jwk.RSAKey.import_key(numbers.public_key()).as_dict(private=False)
    with pytest.raises(InvalidProof, match="jwk is not a public RSA"):
        check(prove(header={"jwk": slow}))


def test_a_proof_for_a_token_has_its_hash() -> None:
    assert check(prove(ath=hash_of(TOKEN)), token=TOKEN) == KEY.thumbprint
    for wrong in ({}, {"ath": hash_of(b"other")}, {"ath": 1}):
        with pytest.raises(InvalidProof, match="ath"):
            check(prove(**wrong), token=TOKEN)


@pytest.mark.parametrize(
    "htu",
    [URL, f"{URL}?a=b", f"{URL}#part", "https://HUB.example.com/mcp", "HTTPS://hub.example.com:443/mcp"],
)
def test_urls_are_compared_without_query_fragment_and_default_port(htu: str) -> None:
    check(prove(htu=htu))


@pytest.mark.parametrize(
    "htu",
    [
        "https://hub.example.com/mcp/",
        "https://hub.example.com/mcp/view",
        "https://hub.example.com:8443/mcp",
        "http://hub.example.com/mcp",
        "https://evil.example/mcp",
        "https://hub.example.com@evil.example/mcp",
        "https://user@hub.example.com/mcp",
        "https://hub.example.com:99999/mcp",
        "/mcp",
        "",
        None,
        7,
        ["https://hub.example.com/mcp"],
    ],
)
def test_a_proof_for_another_url_is_refused(htu: object) -> None:
    with pytest.raises(InvalidProof, match="htu"):
        check(prove(htu=htu))


@pytest.mark.parametrize("htm", ["GET", "post", "", None, 1])
def test_a_proof_for_another_method_is_refused(htm: object) -> None:
    with pytest.raises(InvalidProof, match="htm"):
        check(prove(htm=htm))


@pytest.mark.parametrize("iat", [NOW - limits.PROOF_AGE_S - 1, NOW + bounds.CLOCK_LEEWAY_S + 1, 0, 10**400, -(10**400)])
def test_a_proof_of_another_time_is_refused(iat: float) -> None:
    with pytest.raises(InvalidProof, match="iat"):
        check(prove(iat=iat))


@pytest.mark.parametrize("iat", [None, "1900000000", True, [], float("nan"), float("inf")])
def test_a_proof_without_a_time_is_refused(iat: object) -> None:
    payload = json.dumps({"htm": "POST", "htu": URL, "jti": "one", "iat": iat}).encode()
    with pytest.raises(InvalidProof):
        check(sign_bytes(payload))


def sign_bytes(payload: bytes) -> bytes:
    from joserfc import jwk, jws

    key = jwk.ECKey.import_key(KEY.to_pem())
    header = {"alg": "ES256", "typ": "dpop+jwt", "jwk": KEY.public_jwk()}
    registry = jws.JWSRegistry(algorithms=["ES256"], strict_check_header=False)
    return jws.serialize_compact(header, payload, key, registry=registry).encode()


@pytest.mark.parametrize("iat", [NOW - limits.PROOF_AGE_S, NOW + bounds.CLOCK_LEEWAY_S])
def test_clocks_may_differ_a_little(iat: float) -> None:
    check(prove(iat=iat))


@pytest.mark.parametrize("jti", [None, "", 7, "x" * 257])
def test_a_proof_needs_an_id(jti: object) -> None:
    with pytest.raises(InvalidProof, match="jti"):
        check(prove(jti=jti))


def test_a_proof_is_accepted_once() -> None:
    proofs = DpopProofs(clock=Clock())
    check(prove(), proofs)
    with pytest.raises(InvalidProof, match="used before"):
        check(prove(), proofs)
    check(prove(jti="two"), proofs)
    check(prove(JwtSigningKey.generate()), proofs)  # another client may use the same id


def test_a_proof_stays_used_as_long_as_it_could_be_accepted() -> None:
    clock = Clock()
    proofs = DpopProofs(clock=clock)
    late = prove(iat=int(NOW + bounds.CLOCK_LEEWAY_S))
    check(late, proofs)
    clock.now = NOW + bounds.CLOCK_LEEWAY_S + limits.PROOF_AGE_S
    check(prove(iat=int(clock.now), jti="two"), proofs)
    with pytest.raises(InvalidProof, match="used before"):
        check(late, proofs)
    clock.now += 1
    with pytest.raises(InvalidProof, match="iat"):
        check(late, proofs)


def test_the_oldest_proofs_of_a_key_with_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACCEPTED_PROOFS", 3)
    proofs = DpopProofs(clock=Clock())
    used = [prove(iat=int(NOW) + second, jti=str(second)) for second in range(3)]
    for proof in used:
        check(proof, proofs)
    for proof in used:
        with pytest.raises(InvalidProof, match=r"too old|used before"):
            check(proof, proofs)
    with pytest.raises(InvalidProof, match="too old"):
        check(prove(jti="new"), proofs)
    check(prove(jti="new", iat=int(NOW) + 1), proofs)


def test_a_key_with_many_proofs_displaces_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACCEPTED_PROOFS", 16)
    proofs = DpopProofs(clock=Clock())
    mine, attacker = prove(iat=int(NOW) - 10), JwtSigningKey.generate()
    check(mine, proofs)
    for number in range(40):
        check(prove(attacker, iat=NOW + bounds.CLOCK_LEEWAY_S - 1 + number / 100, jti=str(number)), proofs)
    with pytest.raises(InvalidProof, match="used before"):
        check(mine, proofs)
    check(prove(jti="two", iat=int(NOW) - 10), proofs)
    check(prove(JwtSigningKey.generate(), iat=int(NOW) - 10), proofs)


def test_a_replay_is_refused_although_too_many_keys_displaced_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACCEPTED_PROOFS", 4)
    proofs = DpopProofs(clock=Clock())
    mine = prove()
    check(mine, proofs)
    for _ in range(4):
        check(prove(JwtSigningKey.generate(), iat=int(NOW) + 1), proofs)
    with pytest.raises(InvalidProof, match="too old"):
        check(mine, proofs)
    check(prove(jti="two", iat=int(NOW) + 2), proofs)


def test_a_proof_with_another_key_than_expected_is_not_remembered() -> None:
    proofs, other = DpopProofs(clock=Clock()), JwtSigningKey.generate()
    proof = prove(other)
    with pytest.raises(InvalidProof, match="not signed with the key"):
        proofs.check(proof, method="POST", url=URL, key_thumbprint=KEY.thumbprint)
    assert proofs.check(proof, method="POST", url=URL, key_thumbprint=other.thumbprint) == other.thumbprint


def test_keys_whose_proofs_have_expired_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACCEPTED_PROOFS", 4)
    clock = Clock()
    proofs = DpopProofs(clock=clock)
    for _ in range(4):
        check(prove(JwtSigningKey.generate()), proofs)
    clock.now += limits.PROOF_AGE_S + bounds.CLOCK_LEEWAY_S + 1
    for number in range(3):  # more than a key may have while the others take room
        check(prove(iat=clock.now - limits.PROOF_AGE_S + number, jti=str(number)), proofs)
    check(prove(iat=clock.now - limits.PROOF_AGE_S + 1, jti="new"), proofs)


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "JWT"},
        {"typ": "at+jwt"},
        {"jwk": {"kty": "oct", "k": "c2VjcmV0"}},
        {"jwk": {"kty": "EC"}},
        {"crit": ["b64"], "b64": True},
        {"jwk": JwtSigningKey.generate().public_jwk()},
        {"jwk": KEY.public_jwk() | {"d": "AAAA"}},
        {"jwk": KEY.public_jwk() | {"use": "enc"}},
    ],
)
def test_a_wrong_header_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(InvalidProof):
        check(prove(header=header))


@pytest.mark.parametrize("missing", ["typ", "jwk"])
def test_a_missing_header_member_is_refused(missing: str) -> None:
    with pytest.raises(InvalidProof):
        check(prove(drop=missing))


@pytest.mark.parametrize("jwk", [None, "key", [], 1])
def test_a_key_that_is_not_an_object_is_refused(jwk: object) -> None:
    head, body, signature = prove().split(b".")
    head = urlsafe_b64encode(json.dumps({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}).encode()).rstrip(b"=")
    with pytest.raises(InvalidProof):
        check(b".".join((head, body, signature)))


def test_a_proof_signed_with_a_shared_secret_or_not_at_all_is_refused() -> None:
    body = urlsafe_b64encode(json.dumps({"htm": "POST", "htu": URL, "iat": NOW, "jti": "1"}).encode()).rstrip(b"=")
    for algorithm in ("none", "HS256"):
        header = {"typ": "dpop+jwt", "alg": algorithm, "jwk": KEY.public_jwk()}
        head = urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=")
        for signature in (b"", b"AAAA"):
            with pytest.raises(InvalidProof):
                check(b".".join((head, body, signature)))


def test_a_claim_that_occurs_twice_is_refused() -> None:
    payload = b'{"htm":"POST","htu":"%s","iat":1900000000,"jti":"1","htm":"POST"}' % URL.encode()
    with pytest.raises(InvalidProof, match="twice"):
        check(sign_bytes(payload))


@pytest.mark.parametrize("proof", [None, b"", b"x" * 9000, prove() + b", " + prove(jti="two")])
def test_a_missing_large_or_repeated_proof_is_refused(proof: bytes | None) -> None:
    with pytest.raises(InvalidProof):
        check(proof)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_without_another_error(proof: bytes) -> None:
    with pytest.raises(InvalidProof):
        check(proof)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=True) | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MEMBERS = st.sampled_from(["htm", "htu", "iat", "jti", "ath"])


@given(st.dictionaries(MEMBERS, JSON, min_size=1), st.binary(max_size=3))
def test_arbitrary_claims_of_a_signed_proof_are_refused_without_another_error(
    changes: dict[str, Any], salt: bytes
) -> None:
    proof = sign_bytes(json.dumps({"htm": "POST", "htu": URL, "iat": NOW, "jti": "one"} | changes).encode())
    try:
        assert check(proof, token=TOKEN) == KEY.thumbprint
    except InvalidProof:
        return
    raise AssertionError("the hash of the token is not among these claims")


@given(st.dictionaries(st.sampled_from(["kty", "crv", "x", "y", "n", "e", "alg", "use", "kid"]), JSON))
def test_arbitrary_keys_in_the_header_are_refused_without_another_error(members: dict[str, Any]) -> None:
    with pytest.raises(InvalidProof):
        check(prove(header={"jwk": members}))
