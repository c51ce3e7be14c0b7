"""`hubbub serve` accepts access tokens of real authorization servers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import ProviderProcess
from tests.identity.providers import StartProvider

from hubbub import Server, bounds
from hubbub.settings.oauth import IssuerSettings, OAuthSettings

PUBLIC_URL = "https://notes.example"
RESOURCE = f"{PUBLIC_URL}/mcp"
SCOPE = "mcp:tools notes:read"


@pytest.fixture(scope="module")
def site(
    oidc_provider: ProviderProcess, authlib_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProtectedSite]:
    """A server that accepts tokens of both providers, and finds their keys by discovery."""
    with protect_notes(tmp_path_factory.mktemp("site"), oidc_provider, authlib_provider) as started:
        yield started


@asynccontextmanager
async def run_in_process(provider: ProviderProcess) -> AsyncIterator[Site]:
    """A server in this process, whose bounds can be changed."""
    server = Server("notes")
    server.oauth = OAuthSettings(public_url=PUBLIC_URL, issuers=(IssuerSettings(issuer=provider.issuer),))
    async with run_server(server) as running:
        yield running.site


async def ping(site: Site, issued: dict[str, Any]) -> int:
    """Return the status of a request with a token."""
    headers = {"Authorization": f"Bearer {issued['access_token']}"}
    return (await site.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)).status


def user_token(provider: ProviderProcess, site: ProtectedSite, person: str = "alice", scope: str = SCOPE) -> str:
    return str(provider.user_token(person, site.url, scope)["access_token"])


async def test_a_person_is_known_by_the_token_of_each_provider(provider: ProviderProcess, site: ProtectedSite) -> None:
    found = await site.whoami(user_token(provider, site))
    assert "alice" in found["name"]
    assert set(SCOPE.split()) <= set(found["scopes"])


async def test_the_same_subject_of_two_providers_is_two_callers(
    oidc_provider: ProviderProcess, authlib_provider: ProviderProcess, site: ProtectedSite
) -> None:
    names = [(await site.whoami(user_token(each, site)))["name"] for each in (oidc_provider, authlib_provider)]
    assert names == [f"{each.issuer}#alice" for each in (oidc_provider, authlib_provider)]


async def test_a_program_is_known_by_its_own_token(provider: ProviderProcess, site: ProtectedSite) -> None:
    token = provider.client_token(site.url)
    assert (await site.whoami(token["access_token"]))["scopes"] == ["mcp:tools"]


async def test_tools_are_listed_by_the_scopes_of_the_token(provider: ProviderProcess, site: ProtectedSite) -> None:
    listed = {}
    for scope in ("mcp:tools", "notes:read", "notes:read notes:write"):
        response = await site.request(user_token(provider, site, scope=scope))
        listed[scope] = {tool["name"] for tool in response.json["result"]["tools"]}
    assert listed == {
        "mcp:tools": {"whoami"},
        "notes:read": {"whoami", "read_notes"},
        "notes:read notes:write": {"whoami", "read_notes", "write_note"},
    }


async def test_a_401_names_the_metadata(site: ProtectedSite) -> None:
    response = await site.process.site.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {})
    assert response.status == 401
    challenge = response.header("WWW-Authenticate") or ""
    assert f'resource_metadata="{site.process.url}/.well-known/oauth-protected-resource' in challenge


async def test_a_token_for_another_server_is_refused(provider: ProviderProcess, site: ProtectedSite) -> None:
    token = provider.user_token("alice", "https://other.example/mcp", SCOPE)["access_token"]
    response = await site.request(token)
    assert response.status == 401
    assert 'error="invalid_token"' in (response.header("WWW-Authenticate") or "")
    assert token not in site.log


async def test_an_id_token_is_not_an_access_token(provider: ProviderProcess, site: ProtectedSite) -> None:
    issued = provider.user_token("alice", site.url, "openid mcp:tools")
    assert (await site.request(issued["id_token"])).status == 401


async def test_opaque_tokens_are_introspected(provider: ProviderProcess, tmp_path: Path) -> None:
    asker = provider.register(client_name="The server")
    with protect_notes(tmp_path, provider, introspection_client=asker) as started:
        issued = provider.user_token("bob", started.url, SCOPE, access_token_format="opaque")
        found = await started.whoami(issued["access_token"])
        assert "bob" in found["name"]
        assert set(SCOPE.split()) <= set(found["scopes"])
        elsewhere = provider.user_token("bob", "https://other.example/mcp", SCOPE, access_token_format="opaque")
        assert (await started.request(elsewhere["access_token"])).status == 401
        assert (await started.request("nothing-that-was-issued")).status == 401


async def test_keys_that_the_provider_has_replaced_are_fetched_again(
    start_oidc_provider: StartProvider, start_authlib_provider: StartProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise callers could make the server ask its providers as often as they like.
    monkeypatch.setattr(bounds, "PUBLIC_KEY_FETCH_INTERVAL_S", 0)
    for start in (start_oidc_provider, start_authlib_provider):
        provider = start()
        async with run_in_process(provider) as site:
            assert await ping(site, provider.user_token("alice", RESOURCE)) == 200
            provider.rotate_keys()
            assert await ping(site, provider.user_token("alice", RESOURCE)) == 200


async def test_a_provider_that_was_down_is_asked_again(
    start_oidc_provider: StartProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PUBLIC_KEY_FETCH_INTERVAL_S", 0)
    provider = start_oidc_provider()
    issued = provider.user_token("alice", RESOURCE)
    async with run_in_process(provider) as site:
        provider.go_down()
        assert await ping(site, issued) == 503
        provider.come_up()
        assert await ping(site, issued) == 200


async def test_known_tokens_are_accepted_while_the_provider_is_down(
    start_oidc_provider: StartProvider, tmp_path: Path
) -> None:
    provider = start_oidc_provider()
    with protect_notes(tmp_path, provider) as started:
        known, other = user_token(provider, started), user_token(provider, started, "bob")
        assert (await started.request(known)).status == 200
        provider.go_down()
        assert (await started.request(known)).status == 200
        assert (await started.request(other)).status == 200, "its key is known"


async def test_a_provider_over_https_is_verified_with_its_authority(
    tls_oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    with protect_notes(tmp_path, tls_oidc_provider) as started:
        token = tls_oidc_provider.user_token("alice", started.url, SCOPE)["access_token"]
        assert (await started.request(token)).status == 200


async def test_a_provider_with_an_unknown_certificate_is_refused(
    tls_oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    with protect_notes(tmp_path, tls_oidc_provider, trusts_authority=False) as started:
        token = tls_oidc_provider.user_token("alice", started.url, SCOPE)["access_token"]
        assert (await started.request(token)).status in (401, 503)
        assert token not in started.log
