"""Tokens of a hub with tenants: how claims become a principal, and attacks on that."""

import asyncio
import hashlib
import hmac
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.security.tokens import (
    ISSUER,
    KEYS,
    NOW,
    OTHER_RSA,
    RSA,
    SETTINGS,
    Clock,
    assert_accepted,
    assert_refused,
    authenticate,
    claims,
    encode_segment,
    sign,
)

from hubbub import Principal
from hubbub.governance.tenants import Tenants
from hubbub.protocol.http_headers import Headers
from hubbub.security.gate import EdgeSettings, Gate
from hubbub.security.jwt import BearerTokens, JwtSettings
from hubbub.security.tenant_identity import TenantIdentity, is_user_name
from hubbub.security.token_claims import ClaimMapping
from hubbub.settings.governance import TenantSettings

TENANTS = (TenantSettings(name="acme"), TenantSettings(name="beta", claims=("7b1f", "beta.example")))


def tokens(tenants: Tenants | None = None, **mapping: Any) -> BearerTokens:
    settings = JwtSettings(keys="", issuer=SETTINGS.issuer, audience=SETTINGS.audience, claims=ClaimMapping(**mapping))
    identity = TenantIdentity(Tenants(TENANTS) if tenants is None else tenants, b"k" * 32)
    return BearerTokens(settings, KEYS, identity=identity, clock=Clock())


def accept(mapping: dict[str, Any] | None = None, **changes: object) -> Principal:
    return assert_accepted(sign(claims(**{"tenant": "acme"} | changes)), tokens=tokens(**mapping or {}))


def refuse(mapping: dict[str, Any] | None = None, **changes: object) -> None:
    token = sign(claims(**{"tenant": "acme"} | changes))
    assert_refused(authenticate(token, tokens=tokens(**mapping or {})))


# -- mapping -------------------------------------------------------------------


def test_claims_give_tenant_user_client_scopes_and_fingerprint() -> None:
    found = accept(azp="editor")
    assert (found.tenant, found.user, found.client) == ("acme", "alice", "editor")
    assert found.scopes == {"read", "write"}
    assert found.name == f"acme/alice#{found.credential}"


@pytest.mark.parametrize(
    ("mapping", "changes", "expected"),
    [
        ({"tenant": "tid"}, {"tid": "7b1f"}, ("beta", "alice")),
        ({"tenant": "hd"}, {"hd": "beta.example"}, ("beta", "alice")),
        ({"tenant": "org.name"}, {"org": {"name": "acme"}}, ("acme", "alice")),
        ({"tenant": "https://acme.example/tenant"}, {"https://acme.example/tenant": "acme"}, ("acme", "alice")),
        ({"user": "email"}, {"email": "a@b.example"}, ("acme", "a@b.example")),
        ({"user": "email"}, {"email": "a@b.example", "email_verified": True}, ("acme", "a@b.example")),
        ({"user": "person.login"}, {"person": {"login": "al"}}, ("acme", "al")),
    ],
)
def test_other_claims_can_be_chosen(
    mapping: dict[str, Any], changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    found = accept(mapping, **changes)
    assert (found.tenant, found.user) == expected


def test_the_issuer_can_be_the_tenant() -> None:
    tenants = Tenants([TenantSettings(name="acme", claims=(ISSUER,))])
    assert assert_accepted(sign(), tokens=tokens(tenants, tenant="iss")).tenant == "acme"


@pytest.mark.parametrize(
    ("names", "changes", "scopes"),
    [
        (("roles",), {"roles": ["admin", "hub:admin"]}, {"admin", "hub:admin"}),
        (("realm.roles", "scope"), {"realm": {"roles": ["x"]}}, {"x", "read", "write"}),
        (("roles",), {}, set()),
    ],
)
def test_scopes_can_come_from_other_claims(names: tuple[str, ...], changes: dict[str, Any], scopes: set[str]) -> None:
    assert accept({"scopes": names}, **changes).scopes == scopes
    settings = JwtSettings(
        keys="", issuer=SETTINGS.issuer, audience=SETTINGS.audience, claims=ClaimMapping(scopes=names)
    )
    without_tenants = BearerTokens(settings, KEYS, clock=Clock())
    assert assert_accepted(sign(claims(**changes)), tokens=without_tenants) == Principal("alice", frozenset(scopes))


@pytest.mark.parametrize("roles", [7, {"admin": True}, [["admin"]], ["a", 7], True])
def test_scopes_of_another_type_are_refused(roles: object) -> None:
    refuse({"scopes": ("roles",)}, roles=roles)


# -- the fingerprint -----------------------------------------------------------


def test_a_refreshed_token_of_the_same_login_is_the_same_principal() -> None:
    first = accept(sid="s1", azp="editor", jti="1")
    assert accept(sid="s1", azp="editor", jti="2", exp=NOW + 900, iat=NOW - 1, nbf=NOW - 9) == first


@pytest.mark.parametrize(
    "changes", [{"sid": "s2"}, {"sid": None}, {"azp": "shell"}, {"client_id": "editor2"}, {"sub": "bob"}], ids=str
)
def test_another_login_client_or_user_is_another_principal(changes: dict[str, Any]) -> None:
    first = accept(sid="s1", azp="editor")
    assert accept(**{"sid": "s1", "azp": "editor"} | changes).credential != first.credential


def test_parts_cannot_be_moved_between_claims() -> None:
    assert accept(sub="a", azp="b", sid="c").credential != accept(sub="a", azp="b c").credential
    assert accept(azp="x", sid=None).credential != accept(sid="x").credential


def test_one_person_in_two_tenants_is_two_principals() -> None:
    assert accept(tenant="acme").name != accept(tenant="7b1f").name


# -- attacks -------------------------------------------------------------------


@pytest.mark.parametrize(
    "tenant",
    [
        None, "", 7, 0, True, ["acme"], [], {"name": "acme"}, "gamma", "ACME", "acme ", " acme", "acme/alice", "acme#1",
        "acme\u0000", "acme\u200b", "\u0430cme", "ac\u2100me", "beta", "*", "../acme", "acme,beta",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_token_without_a_valid_tenant_is_refused(tenant: object) -> None:
    refuse(tenant=tenant)


@pytest.mark.parametrize("user", ["a/b", "a#b", "../beta/bob", "a\nb", "a\u202eb", "a\u200bb", " a", "a" * 257, "#"])
def test_a_user_that_could_look_like_another_principal_is_refused(user: str) -> None:
    refuse(sub=user)
    refuse({"user": "email"}, email=user)


@pytest.mark.parametrize("changes", [{}, {"email": 7}, {"email": ["a"]}, {"email": "a@b", "email_verified": False}])
def test_a_missing_or_unverified_user_is_refused(changes: dict[str, Any]) -> None:
    refuse({"user": "email"}, **changes)


@pytest.mark.parametrize("changes", [{"sid": 7}, {"sid": ["a"]}, {"azp": {}}, {"client_id": 1}, {"sid": ""}])
def test_a_client_or_login_of_another_type_is_refused(changes: dict[str, Any]) -> None:
    refuse(**changes)


@pytest.mark.parametrize(
    "text",
    [
        '{"tenant": "beta.example", %s, "tenant": "acme"}',
        '{%s, "tenant": "acme", "sub": "bob"}',
        '{%s, "tenant": "acme", "x": {"a": 1, "a": 2}}',
        '{%s, "tenant": "acme", "tena\\u006et": "beta.example"}',
    ],
)
def test_a_claim_that_occurs_twice_is_refused(text: str) -> None:
    payload = (text % json.dumps(claims())[1:-1]).encode()
    assert_refused(authenticate(sign(payload), tokens=tokens()))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example"}, {"aud": "another"}, {"exp": NOW - 3600}, {"nbf": NOW + 3600},
        {"iat": NOW + 3600}, {"exp": None}, {"sub": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_valid_tenant_does_not_replace_the_other_checks(changes: dict[str, Any]) -> None:
    refuse(**changes)


def test_unsigned_and_wrongly_signed_tokens_are_refused_whatever_tenant_they_name() -> None:
    payload = claims(tenant="acme")
    for algorithm in ("none", "None", "HS256"):
        header = {"alg": algorithm, "kid": "rsa"}
        signing = f"{encode_segment(header)}.{encode_segment(payload)}"
        public = RSA.as_pem(private=False)
        mac = encode_segment(hmac.new(public, signing.encode(), hashlib.sha256).digest())
        for signature in ("", mac):
            assert_refused(authenticate(f"{signing}.{signature}", tokens=tokens()))
    assert_refused(authenticate(sign(payload, key=OTHER_RSA, header={"kid": "rsa"}), tokens=tokens()))
    good = sign(payload).split(".")
    forged = encode_segment(claims(tenant="7b1f"))
    assert_refused(authenticate(f"{good[0]}.{forged}.{good[2]}", tokens=tokens()))


def test_critical_headers_are_refused() -> None:
    good = sign(claims(tenant="acme")).split(".")
    header = encode_segment({"alg": "RS256", "kid": "rsa", "crit": ["tenant"], "tenant": "acme"})
    assert_refused(authenticate(".".join([header, *good[1:]]), tokens=tokens()))


def test_the_reason_is_in_the_log_and_not_in_the_response(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "hubbub.security"):
        outcome = assert_refused(authenticate(sign(claims(tenant="gamma\n")), tokens=tokens()))
    (record,) = caplog.records
    assert record.__dict__["reason"] == "the claim 'tenant' means no tenant: 'gamma\\n'"
    assert "tenant" not in outcome.message


def test_a_removed_tenant_is_refused_although_the_token_was_verified_before() -> None:
    tenants = Tenants(TENANTS)
    authenticator, token = tokens(tenants), sign(claims(tenant="acme"))
    gate = Gate(EdgeSettings(), [authenticator], identity=TenantIdentity(tenants, b"k" * 32))
    name = assert_accepted(token, tokens=authenticator).name
    assert not gate.is_revoked(name)
    tenants.update([TENANTS[1]])
    assert_refused(authenticate(token, tokens=authenticator))
    assert gate.is_revoked(name)
    tenants.update([TenantSettings(name="beta", claims=("acme",))])
    assert assert_accepted(token, tokens=authenticator).tenant == "beta", "the claim means another tenant now"


def test_a_token_together_with_a_key_header_is_refused() -> None:
    gate = Gate(EdgeSettings(), [tokens()], identity=TenantIdentity(Tenants(TENANTS), b"k" * 32))
    token = sign(claims(tenant="acme")).encode()
    headers = Headers([(b"authorization", b"Bearer " + token), (b"x-api-key", b"hb_00000000_" + b"0" * 48)])
    outcome = asyncio.run(gate.authenticate(headers))
    assert getattr(outcome, "status", None) == 400


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(tenant=_json, user=_json, client=_json)
def test_any_claims_give_a_known_tenant_and_a_name_with_one_meaning_or_a_refusal(
    tenant: object, user: object, client: object
) -> None:
    token = sign(claims(tenant=tenant, email=user, azp=client))
    outcome = authenticate(token, tokens=tokens(user="email"))
    if isinstance(outcome, Principal):
        assert outcome.tenant in ("acme", "beta")
        assert is_user_name(outcome.user)
        before, _, credential = outcome.name.partition("#")
        assert before.split("/") == [outcome.tenant, outcome.user]
        assert credential == outcome.credential
    else:
        assert_refused(outcome)
