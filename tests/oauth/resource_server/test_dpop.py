"""Access tokens that are bound to a key of the client, over real sockets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.raw_http import Response
from tests.oauth.resource_server.sites import (
    AUDIENCE,
    METADATA_URL,
    PUBLIC_URL,
    ProtectedSite,
    make_whoami,
    parse_challenge,
    prove,
    run_protected,
)

from hubbub.oauth.resource_server.resource import format_challenge
from hubbub.security.jose import JwtSigningKey

KEY = JwtSigningKey.generate()


def bound_token(protected: ProtectedSite, **changes: Any) -> str:
    return protected.issuer.sign(**{"aud": AUDIENCE, "cnf": {"jkt": KEY.thumbprint}} | changes)


def assert_challenge(response: Response, scheme: str, error: str) -> dict[str, str]:
    assert response.status == 401
    found, parameters = parse_challenge(response)
    assert (found, parameters["error"]) == (scheme, error)
    assert parameters["resource_metadata"].startswith(f"{PUBLIC_URL}/.well-known/")
    return parameters


async def test_a_bound_token_works_with_a_new_proof_for_each_request() -> None:
    async with run_protected() as protected:
        token = bound_token(protected)
        for _ in range(3):
            response = await protected.call(authorization=f"DPoP {token}", dpop=prove(KEY, token))
            assert response.status == 200, response
        assert "/jwks" in protected.issuer.paths
        assert len(protected.issuer.paths) == 2


async def test_a_proof_cannot_be_replayed() -> None:
    async with run_protected() as protected:
        token = bound_token(protected)
        proof = prove(KEY, token)
        assert (await protected.call(authorization=f"DPoP {token}", dpop=proof)).status == 200
        response = await protected.call(authorization=f"DPoP {token}", dpop=proof)
        parameters = assert_challenge(response, "DPoP", "invalid_dpop_proof")
        assert "used before" in parameters["error_description"]
        assert "ES256" in parameters["algs"]


@pytest.mark.parametrize(
    "changes",
    [
        {"htm": "GET"},
        {"htu": "https://evil.example/mcp"},
        {"htu": f"{PUBLIC_URL}/mcp/docs"},
        {"iat": 0},
        {"ath": "AAAA"},
        {"ath": None},
    ],
)
async def test_a_proof_for_another_request_or_token_is_refused(changes: dict[str, Any]) -> None:
    async with run_protected() as protected:
        token = bound_token(protected)
        response = await protected.call(authorization=f"DPoP {token}", dpop=prove(KEY, token, **changes))
        assert_challenge(response, "DPoP", "invalid_dpop_proof")


async def test_a_proof_with_another_key_or_none_is_refused() -> None:
    async with run_protected() as protected:
        token = bound_token(protected)
        other = prove(JwtSigningKey.generate(), token)
        assert_challenge(await protected.call(authorization=f"DPoP {token}", dpop=other), "DPoP", "invalid_dpop_proof")
        assert_challenge(await protected.call(authorization=f"DPoP {token}"), "DPoP", "invalid_dpop_proof")


async def test_a_bound_token_is_not_accepted_as_a_bearer_token_also_after_it_was_verified() -> None:
    async with run_protected() as protected:
        token = bound_token(protected)
        for _ in range(2):
            response = await protected.call(authorization=f"Bearer {token}", dpop=prove(KEY, token))
            assert_challenge(response, "DPoP", "invalid_token")
            assert "send it as 'Authorization: DPoP <token>' with a proof in the header DPoP" in response.body.decode()
            assert (await protected.call(authorization=f"DPoP {token}", dpop=prove(KEY, token))).status == 200


async def test_a_token_without_a_key_is_not_accepted_with_the_scheme_dpop() -> None:
    async with run_protected() as protected:
        token = protected.issuer.sign(aud=AUDIENCE)
        response = await protected.call(authorization=f"DPoP {token}", dpop=prove(KEY, token))
        assert_challenge(response, "DPoP", "invalid_token")
        assert await protected.whoami(token) == "alice mcp"


async def test_bound_tokens_can_be_required() -> None:
    async with run_protected(dpop="require") as protected:
        response = await protected.call()
        scheme, parameters = parse_challenge(response)
        assert (response.status, scheme) == (401, "DPoP")
        assert parameters["resource_metadata"] == METADATA_URL
        document = (await protected.site.get("/.well-known/oauth-protected-resource")).json
        assert document["dpop_bound_access_tokens_required"] is True
        bearer = protected.issuer.sign(aud=AUDIENCE)
        for _ in range(2):
            assert_challenge(await protected.call(authorization=f"Bearer {bearer}"), "DPoP", "invalid_token")
        token = bound_token(protected)
        assert (await protected.call(authorization=f"DPoP {token}", dpop=prove(KEY, token))).status == 200


async def test_bound_tokens_can_be_switched_off() -> None:
    async with run_protected(dpop="off") as protected:
        token = bound_token(protected)
        for scheme in ("DPoP", "Bearer"):
            response = await protected.call(authorization=f"{scheme} {token}", dpop=prove(KEY, token))
            assert response.status == 401
        document = (await protected.site.get("/.well-known/oauth-protected-resource")).json
        assert "dpop_signing_alg_values_supported" not in document


async def test_a_proof_names_the_view() -> None:
    server = make_whoami()
    server.views = {"docs": make_whoami()}
    async with run_protected(server) as protected:
        token = bound_token(protected)
        authorization = f"DPoP {token}"
        wrong = await protected.call(path="/mcp/docs", authorization=authorization, dpop=prove(KEY, token))
        assert wrong.status == 401
        proof = prove(KEY, token, path="/mcp/docs")
        assert (await protected.call(path="/mcp/docs", authorization=authorization, dpop=proof)).status == 200


@given(st.sampled_from(["Bearer", "DPoP"]), st.dictionaries(st.sampled_from(["error", "scope"]), st.text()))
def test_a_challenge_is_always_one_valid_header(scheme: str, parameters: dict[str, str]) -> None:
    challenge = format_challenge(scheme, parameters)
    assert challenge.isascii()
    assert challenge.decode().isprintable()
    assert challenge.count(b'"') == 2 * sum(bool(value) for value in parameters.values())
