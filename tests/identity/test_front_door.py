"""Logging in at a hub that delegates the login to a real identity provider, with the official clients and ours."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp.client.auth import OAuthFlowError
from tests.http.keyring import Keyring
from tests.identity.hub_site import open_hub, open_hub_with_keys
from tests.identity.official_clients import (
    Browse,
    LoginStarted,
    MemoryStorage,
    TypeScriptClient,
    connect_python_client,
    start_login,
)
from tests.identity.protected_site import ProtectedSite
from tests.identity.provider_process import ProviderProcess
from tests.identity.providers import JUDGES, StartProvider
from tests.identity.scripted_browser import Page, ScriptedBrowser

from hubbub import AuthorizationFailed, Client, MemoryCredentialStore, OAuth, ServerConfig

EVERYTHING = {"whoami", "read_notes", "write_note"}
LISTS = {"alice": EVERYTHING, "bob": EVERYTHING - {"write_note"}}
"""What the policy of the hub shows to the tenants of these people."""
REDIRECT_URI = "http://127.0.0.1/callback"


@pytest.fixture(scope="module")
def oidc_hub(oidc_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    """A hub whose users log in at `oidc-provider`."""
    with open_hub(tmp_path_factory.mktemp("hub"), oidc_provider) as site:
        yield site


@pytest.fixture(scope="module")
def authlib_hub(authlib_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    """A hub whose users log in at authlib's authorization server."""
    with open_hub(tmp_path_factory.mktemp("hub"), authlib_provider) as site:
        yield site


@pytest.fixture(params=["oidc_provider", "authlib_provider"])
def pair(request: pytest.FixtureRequest) -> tuple[ProviderProcess, ProtectedSite]:
    """Each provider in turn, with the hub that delegates to it."""
    hub = {"oidc_provider": "oidc_hub", "authlib_provider": "authlib_hub"}[request.param]
    return request.getfixturevalue(request.param), request.getfixturevalue(hub)


def browse(provider: ProviderProcess, person: str, on_page: Callable[[Page], None] | None = None) -> Browse:
    """The browser of a person, who agrees to everything."""
    browser = provider.new_browser()

    def go(url: str) -> None:
        page = browser.log_in(url, person, on_page=on_page)
        assert "close this window" in page.text, (page.status, page.text)

    return go


def own_tools(names: Any) -> set[str]:
    return {name for name in names if not name.startswith("hub.")}


# -- the official clients -------------------------------------------------------------------


@pytest.mark.parametrize("person", list(LISTS))
async def test_the_python_client_logs_in_and_sees_what_the_policy_allows(
    pair: tuple[ProviderProcess, ProtectedSite], person: str
) -> None:
    provider, hub = pair
    async with connect_python_client(hub.url, browse(provider, person)) as client:
        listed = (await client.list_tools()).tools
        assert own_tools(tool.name for tool in listed) == LISTS[person]
        found = (await client.call_tool("whoami", {})).structured_content
        assert found is not None
        assert found["user"] == person


@pytest.mark.parametrize("person", list(LISTS))
def test_the_typescript_client_logs_in_and_sees_what_the_policy_allows(
    pair: tuple[ProviderProcess, ProtectedSite], node: str, person: str
) -> None:
    provider, hub = pair
    with closing(TypeScriptClient(node, JUDGES, hub.url, browse(provider, person))) as client:
        assert own_tools(client.list_tools()) == LISTS[person]
        assert client.call_tool("whoami")["structuredContent"]["user"] == person
        written = client.call_tool("write_note", text="milk")
        assert ("content" in written) == ("write_note" in LISTS[person])


async def test_the_consent_page_names_the_client_and_the_account(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, hub = pair
    pages: list[Page] = []
    async with connect_python_client(hub.url, browse(provider, "alice", pages.append)):
        pass
    (consent,) = [page for page in pages if page.url.startswith(hub.process.url)]
    for shown in ("Notes assistant", "alice", "acme", "127.0.0.1", "notes:write"):
        assert shown in consent.text
    assert "form-action" in consent.headers["Content-Security-Policy"]


async def test_a_client_that_logged_out_has_no_access(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, hub = pair
    storage = MemoryStorage()
    async with connect_python_client(hub.url, browse(provider, "alice"), storage=storage) as client:
        await client.call_tool("whoami", {})
    assert storage.tokens is not None
    assert storage.client is not None
    token = storage.tokens.access_token
    assert (await hub.request(token)).status == 200
    form = {"token": storage.tokens.refresh_token or "", "client_id": str(storage.client.client_id)}
    page = await asyncio.to_thread(ScriptedBrowser().send, f"{hub.process.url}/oauth/revoke", form)
    assert page.status == 200
    assert (await hub.request(token)).status == 401
    with pytest.raises(BaseExceptionGroup) as caught:
        async with connect_python_client(hub.url, start_login, storage=storage):
            pass
    assert caught.group_contains(LoginStarted)


async def test_a_user_whom_the_operator_logs_out_has_no_access(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, hub = pair
    storages = {person: MemoryStorage() for person in LISTS}
    for person, storage in storages.items():
        async with connect_python_client(hub.url, browse(provider, person), storage=storage) as client:
            await client.call_tool("whoami", {})
    listed = await asyncio.to_thread(hub.list_sessions, "globex", "bob")
    assert "Notes assistant" in listed.partition("CLIENT")[2]
    assert "alice" not in listed
    printed = await asyncio.to_thread(hub.log_out, "globex", "bob")
    assert "ended" in printed
    assert "Notes assistant" not in await asyncio.to_thread(hub.list_sessions, "globex", "bob")
    alice, bob = (storages[person].tokens for person in LISTS)
    assert alice is not None
    assert bob is not None
    assert (await hub.request(alice.access_token)).status == 200
    assert (await hub.request(bob.access_token)).status == 401
    with pytest.raises(BaseExceptionGroup) as caught:  # the refresh token is of no use either
        async with connect_python_client(hub.url, start_login, storage=storages["bob"]):
            pass
    assert caught.group_contains(LoginStarted)


# -- our client -----------------------------------------------------------------------------


def redirect(provider: ProviderProcess, person: str) -> Any:
    browser = provider.new_browser()

    async def go(url: str) -> str:
        return (await asyncio.to_thread(browser.log_in, url, person, stop_at=REDIRECT_URI)).url

    return go


async def test_our_client_logs_in_with_a_bound_token(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, hub = pair
    store = MemoryCredentialStore()
    oauth = OAuth(redirect_handler=redirect(provider, "bob"), store=store)
    async with Client(ServerConfig(id="hub", transport="streamable_http", url=hub.url, auth=oauth)) as client:
        assert own_tools(tool.name for tool in (await client.list_tools()).tools) == LISTS["bob"]
    (key,) = await store.list()
    kept = await store.load(key)
    assert kept is not None
    assert (kept.issuer, kept.token_type) == (hub.process.url, "DPoP")


async def test_the_person_can_refuse(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, hub = pair
    browser = provider.new_browser()

    async def refuse(url: str) -> str:
        def answer() -> str:
            page = browser.visit(url)
            while not page.url.startswith(f"{hub.process.url}/oauth/consent"):
                page = browser.submit_as(page, "alice")
            return browser.submit(page, {}, button=("decision", "deny"), stop_at=REDIRECT_URI).url

        return await asyncio.to_thread(answer)

    oauth = OAuth(redirect_handler=refuse)
    with pytest.raises(AuthorizationFailed, match="access_denied"):
        async with Client(ServerConfig(id="hub", transport="streamable_http", url=hub.url, auth=oauth)):
            pass


# -- what goes wrong ------------------------------------------------------------------------


async def test_a_person_without_a_tenant_of_the_hub_sees_the_reason(
    pair: tuple[ProviderProcess, ProtectedSite],
) -> None:
    provider, hub = pair
    seen: list[Page] = []

    def go(url: str) -> None:
        seen.append(provider.new_browser().log_in(url, "carol"))
        raise OAuthFlowError("the person gave up")

    with pytest.raises(BaseExceptionGroup):
        async with connect_python_client(hub.url, go):
            pass
    assert "tenant" in seen[0].text
    assert "close this page" in seen[0].text


async def test_an_app_learns_that_the_provider_is_down(start_oidc_provider: StartProvider, tmp_path: Path) -> None:
    provider = start_oidc_provider()
    seen: list[Page] = []

    def go(url: str) -> None:
        seen.append(provider.new_browser().log_in(url, "alice"))
        raise OAuthFlowError("the person gave up")

    with open_hub(tmp_path, provider) as hub:
        provider.go_down()
        with pytest.raises(BaseExceptionGroup):
            async with connect_python_client(hub.url, go):
                pass
        assert "error=" in seen[0].url
        assert "Traceback" not in hub.log
        provider.come_up()
        async with connect_python_client(hub.url, browse(provider, "alice")) as client:
            assert (await client.list_tools()).tools


async def test_a_provider_over_https(tls_oidc_provider: ProviderProcess, tmp_path: Path) -> None:
    with open_hub(tmp_path, tls_oidc_provider) as hub:
        async with connect_python_client(hub.url, browse(tls_oidc_provider, "bob")) as client:
            assert own_tools(tool.name for tool in (await client.list_tools()).tools) == LISTS["bob"]


async def test_tokens_of_another_issuer_are_accepted_beside_the_front_door(
    oidc_provider: ProviderProcess, authlib_provider: ProviderProcess, tmp_path: Path
) -> None:
    with open_hub(tmp_path, oidc_provider, issuer=authlib_provider) as hub:
        issued = await asyncio.to_thread(authlib_provider.user_token, "bob", hub.url, "notes:read")
        assert (await hub.whoami(issued["access_token"]))["user"] == "bob"
        async with connect_python_client(hub.url, browse(oidc_provider, "alice")) as client:
            assert own_tools(tool.name for tool in (await client.list_tools()).tools) == LISTS["alice"]


# -- without a provider -----------------------------------------------------------------------


async def test_people_log_in_with_their_api_keys(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    keys = {
        "alice": ring.add("alice", tenant="acme", user="alice", scopes=("notes:read", "notes:write")),
        "bob": ring.add("bob", tenant="globex", user="bob", scopes=("notes:read", "notes:write")),
    }
    with open_hub_with_keys(tmp_path, ring.path) as hub:
        for person, headers in keys.items():
            key = next(iter(headers.values()))
            async with connect_python_client(hub.url, browse_with_key(key)) as client:
                assert own_tools(tool.name for tool in (await client.list_tools()).tools) == LISTS[person]
            assert key not in hub.log


def browse_with_key(key: str) -> Browse:
    """The browser of a person who has an API key."""
    browser = ScriptedBrowser()

    def go(url: str) -> None:
        page = browser.submit(browser.visit(url), {"key": key})
        page = browser.submit(page, {}, button=("decision", "allow"))
        assert "close this window" in page.text, (page.status, page.text)

    return go
