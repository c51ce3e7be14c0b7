"""What the other tests rely on: the providers log people in and issue tokens."""

import base64
import json
from typing import Any
from urllib.error import URLError

import pytest
from tests.identity.provider_process import REDIRECT_URI, ProviderProcess
from tests.identity.providers import StartProvider

RESOURCE = "https://mcp.example/mcp"


def claims_of(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def test_a_person_logs_in_and_gets_a_token_for_the_resource(provider: ProviderProcess) -> None:
    issued = provider.user_token("alice", RESOURCE, "openid mcp:tools")
    claims = claims_of(issued["access_token"])
    assert (claims["iss"], claims["sub"], claims["aud"]) == (provider.issuer, "alice", RESOURCE)
    assert (claims["tenant"], claims["scope"].split()[-1]) == ("acme", "mcp:tools")
    assert issued["refresh_token"]
    assert claims_of(issued["id_token"])["iss"] == provider.issuer


def test_a_client_gets_a_token_of_its_own(provider: ProviderProcess) -> None:
    claims = claims_of(provider.client_token(RESOURCE)["access_token"])
    assert (claims["sub"], claims["aud"], claims["scope"]) == (claims["client_id"], RESOURCE, "mcp:tools")


def test_a_stranger_is_not_logged_in(provider: ProviderProcess) -> None:
    with pytest.raises(AssertionError):
        provider.user_token("mallory", RESOURCE)


def test_a_token_can_be_opaque(provider: ProviderProcess) -> None:
    issued = provider.client_token(RESOURCE, access_token_format="opaque")
    assert "." not in issued["access_token"]


def test_keys_are_replaced(start_oidc_provider: StartProvider, start_authlib_provider: StartProvider) -> None:
    for start in (start_oidc_provider, start_authlib_provider):
        started = start()
        first = started.fetch_json(started.metadata["jwks_uri"])
        started.rotate_keys()
        second = started.fetch_json(started.metadata["jwks_uri"])
        assert {key["kid"] for key in first["keys"]}.isdisjoint(key["kid"] for key in second["keys"])


def test_a_provider_goes_down_and_comes_up(
    start_oidc_provider: StartProvider, start_authlib_provider: StartProvider
) -> None:
    for start in (start_oidc_provider, start_authlib_provider):
        started = start()
        started.go_down()
        with pytest.raises(URLError):
            started.fetch_json(started.metadata["jwks_uri"])
        started.come_up()
        assert started.register(REDIRECT_URI)["client_id"]


def test_a_provider_with_a_certificate_of_the_test_authority(tls_oidc_provider: ProviderProcess) -> None:
    assert tls_oidc_provider.issuer.startswith("https://")
    assert tls_oidc_provider.user_token("bob", RESOURCE)["access_token"]
