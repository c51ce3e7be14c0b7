"""`hubbub serve` accepts access tokens of real authorization servers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import ProviderProcess
from tests.identity.providers import StartProvider

SCOPE = "mcp:tools notes:read"


@pytest.fixture(scope="module")
def site(
    oidc_provider: ProviderProcess, authlib_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProtectedSite]:
    """A server that accepts tokens of both providers, and finds their keys by discovery."""
    with protect_notes(tmp_path_factory.mktemp("site"), oidc_provider, authlib_provider) as started:
        yield started


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
    assert names[0] != names[1]


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


async def test_a_request_without_a_token_is_told_where_to_get_one(site: ProtectedSite) -> None:
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
    start_oidc_provider: StartProvider, start_authlib_provider: StartProvider, tmp_path: Path
) -> None:
    providers = [start_oidc_provider(), start_authlib_provider()]
    with protect_notes(tmp_path, *providers) as started:
        for provider in providers:
            assert (await started.request(user_token(provider, started))).status == 200
            await asyncio.to_thread(provider.rotate_keys)
            assert (await started.request(user_token(provider, started))).status == 200


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


async def test_a_provider_that_was_down_at_the_start_is_found_when_it_is_up(
    start_oidc_provider: StartProvider, tmp_path: Path
) -> None:
    provider = start_oidc_provider()
    with protect_notes(tmp_path, provider) as started:
        token = user_token(provider, started)
        provider.go_down()
        refused = await started.request(token)
        assert refused.status in (401, 503)
        provider.come_up()
        # It is not asked again at every request, so that a provider that is down is not flooded.
        while (await started.request(token)).status != 200:
            await asyncio.sleep(0)


async def test_a_provider_over_https_is_verified_with_its_authority(
    tls_oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    with protect_notes(tmp_path, tls_oidc_provider) as started:
        token = tls_oidc_provider.user_token("alice", started.url, SCOPE)["access_token"]
        assert (await started.request(token)).status == 200


async def test_a_provider_with_an_unknown_certificate_is_not_believed(
    tls_oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    with protect_notes(tmp_path, tls_oidc_provider, trusts_authority=False) as started:
        token = tls_oidc_provider.user_token("alice", started.url, SCOPE)["access_token"]
        assert (await started.request(token)).status in (401, 503)
        assert token not in started.log
