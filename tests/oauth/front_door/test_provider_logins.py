"""What happens to the logins of apps when a person is removed or changed at the identity provider."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.identity.provider_process import PEOPLE, ProviderProcess
from tests.identity.providers import StartProvider
from tests.identity.scripted_browser import Page
from tests.oauth.front_door import faulty_provider
from tests.oauth.front_door.door_site import WEB_REDIRECT_URI, App, Door, open_door, query
from tests.oauth.front_door.faulty_provider import FaultyProvider
from tests.oauth.front_door.test_grants import error, is_accepted
from tests.oauth.front_door.test_provider import CLAIMS, SCOPE_MAP, configure, tokens_of
from tests.ports import free_port

from hubbub.oauth.front_door.config import ProviderConfig
from hubbub.oauth.front_door.tables import SCHEMA
from hubbub.pack.store import open_database, read_url, text

LIMITS = "hubbub.oauth.front_door.limits"


@pytest.fixture
def asks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is asked at each refresh: its clock is not that of the front door."""
    monkeypatch.setattr(f"{LIMITS}.PROVIDER_CHECK_S", 0)


async def refresh(app: App, tokens: dict[str, Any]) -> dict[str, Any]:
    page = await app.refresh(tokens["refresh_token"])
    assert page.status == 200, page.text
    refreshed: dict[str, Any] = json.loads(page.text)
    return refreshed


# -- a real provider ---------------------------------------------------------------


@pytest.mark.usefixtures("asks_always")
async def test_a_person_who_is_removed_at_the_provider_loses_access(
    start_oidc_provider: StartProvider, tmp_path: Path, database: str
) -> None:
    provider = start_oidc_provider()
    async with open_door(tmp_path, database=database, **configure(provider, free_port())) as door:
        alice, bob = await door.app(), await door.app()
        tokens, others = await tokens_of(alice, "alice"), await tokens_of(bob, "bob")
        for _ in range(3):  # the provider's own refresh tokens are replaced at each use
            tokens = await refresh(alice, tokens)
        assert await is_accepted(door, tokens)
        await asyncio.to_thread(provider.set_person, "alice", None)
        assert error(await alice.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert not await is_accepted(door, tokens)
        assert [grant.user for grant in await door.front_door.list_grants()] == ["bob@globex.example"]
        assert await refresh(bob, others)


@pytest.mark.usefixtures("asks_always")
async def test_a_person_who_leaves_a_group_loses_its_scopes(start_oidc_provider: StartProvider, tmp_path: Path) -> None:
    provider = start_oidc_provider()
    async with open_door(tmp_path, **configure(provider, free_port())) as door:
        app = await door.app()
        tokens = await tokens_of(app, "alice", scope="notes:read notes:write")
        assert tokens["scope"] == "notes:read notes:write"
        await asyncio.to_thread(provider.set_person, "alice", PEOPLE["alice"] | {"groups": []})
        tokens = await refresh(app, tokens)
        assert tokens["scope"] == "notes:read"
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert verified.principal.scopes == {"notes:read"}
        # A scope that was lost returns with the next login, not by itself.
        await asyncio.to_thread(provider.set_person, "alice", PEOPLE["alice"])
        assert (await refresh(app, tokens))["scope"] == "notes:read"


@pytest.mark.usefixtures("asks_always")
@pytest.mark.parametrize("changes", [{"tenant": "beta"}, {"tenant": "unknown"}, {"email": "ada@acme.example"}])
async def test_a_person_with_another_tenant_or_name_logs_in_again(
    start_oidc_provider: StartProvider, tmp_path: Path, changes: dict[str, str]
) -> None:
    provider = start_oidc_provider()
    async with open_door(tmp_path, tenants=True, **configure(provider, free_port())) as door:
        app = await door.app()
        tokens = await refresh(app, await tokens_of(app, "alice"))
        await asyncio.to_thread(provider.set_person, "alice", PEOPLE["alice"] | changes)
        assert error(await app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert not await is_accepted(door, tokens)


@pytest.mark.usefixtures("asks_always")
async def test_a_provider_that_is_down_is_waited_for_within_a_bound(
    start_oidc_provider: StartProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = start_oidc_provider()
    async with open_door(tmp_path, **configure(provider, free_port())) as door:
        app = await door.app()
        tokens = await tokens_of(app, "alice")
        await asyncio.to_thread(provider.go_down)
        tokens = await refresh(app, tokens)
        door.clock.added_s += 86_401
        page = await app.refresh(tokens["refresh_token"])
        assert error(page) == (503, "temporarily_unavailable")
        assert provider.host_and_port not in page.text
        door.clock.added_s = 0
        await asyncio.to_thread(provider.come_up)
        assert await refresh(app, tokens)


async def test_a_login_that_the_provider_cannot_be_asked_about_ends_after_a_day(
    oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    port = free_port()
    client = oidc_provider.register(f"http://127.0.0.1:{port}/oauth/callback", grant_types=["authorization_code"])
    config = ProviderConfig(
        issuer=oidc_provider.issuer, client_id=client["client_id"], scopes=("openid", "email"), claims=CLAIMS
    )
    async with open_door(tmp_path, port=port, provider=config, secret=client["client_secret"]) as door:
        app = await door.app()
        tokens = await tokens_of(app, "alice")
        door.clock.added_s += 86_000
        tokens = await refresh(app, tokens)
        door.clock.added_s += 401
        assert error(await app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        await door.front_door.sweep()
        assert await door.front_door.list_grants() == []


async def test_offline_access_is_requested_only_of_providers_that_list_it(
    oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    scopes = ("openid", "offline_access")
    config = ProviderConfig(issuer=oidc_provider.issuer, client_id="hub", scopes=scopes)
    async with open_door(tmp_path, provider=config) as door:
        app = await door.app()
        assert query((await app.send(app.url())).headers["Location"])["scope"] == "openid offline_access"
    with faulty_provider.serve() as provider:
        config = ProviderConfig(issuer=provider.issuer, client_id="hub", scopes=scopes)
        async with open_door(tmp_path, provider=config, database=f"sqlite:///{tmp_path / 'other.db'}") as door:
            app = await door.app()
            assert query((await app.send(app.url())).headers["Location"])["scope"] == "openid"


# -- a provider with faults --------------------------------------------------------------


@contextmanager
def serve_provider() -> Iterator[tuple[FaultyProvider, ProviderConfig]]:
    """A provider that issues refresh tokens, and ID tokens that do not expire before the clock of the tests."""
    with faulty_provider.serve() as provider:
        provider.claims |= {"exp": 2**33, "groups": ["engineering"]}
        provider.token_response["refresh_token"] = "the provider's refresh token"
        yield provider, ProviderConfig(issuer=provider.issuer, client_id="hub", claims=CLAIMS, scope_map=SCOPE_MAP)


async def begin_login(provider: FaultyProvider, door: Door) -> tuple[App, Page]:
    """Log in; return the consent page."""
    provider.claims |= {"email": "alice@acme.example"}
    app = await door.app(redirect_uri=WEB_REDIRECT_URI)
    location = (await app.send(app.url())).headers["Location"]
    provider.claims["nonce"] = query(location)["nonce"]
    callback = f"{door.url}/oauth/callback?code=x&state={query(location)['state']}&iss={provider.issuer}"
    return app, await app.send((await app.send(callback)).headers["Location"])


async def log_in(provider: FaultyProvider, door: Door) -> tuple[App, dict[str, Any]]:
    app, consent = await begin_login(provider, door)
    allowed = await app.submit(consent, {}, button=("decision", "allow"))
    return app, json.loads((await app.redeem(allowed.query["code"])).text)


async def test_the_provider_is_asked_once_an_hour(tmp_path: Path) -> None:
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, provider=config) as door:
            app, tokens = await log_in(provider, door)
            asked = []
            for added_s in (0, 1800, 1801, 0, 3601):
                door.clock.added_s += added_s
                tokens = await refresh(app, tokens)
                asked.append(provider.redeemed)
            assert asked == [1, 1, 2, 2, 3]


FAULTS: dict[str, tuple[Callable[[FaultyProvider], object], int]] = {
    "refused": (lambda provider: provider.token_response.update(error="invalid_grant"), 400),
    "another subject": (lambda provider: provider.claims.update(sub="mallory"), 400),
    "another issuer": (lambda provider: provider.claims.update(iss="https://other.example"), 400),
    "another key": (lambda provider: provider.sign_with_another_key(), 400),
    "expired": (lambda provider: provider.claims.update(exp=1), 400),
    "no name": (lambda provider: provider.claims.update(email=None), 400),
    "wrong secret": (lambda provider: provider.token_response.update(error="invalid_client"), 200),
    "server error": (lambda provider: provider.token_response.update(error="server_error"), 200),
    "not JSON": (lambda provider: provider.break_token_response(), 200),
    "no ID token": (lambda provider: provider.answer_without_id_token({"sub": "alice"}), 200),
    "userinfo of another subject": (lambda provider: provider.answer_without_id_token({"sub": "mallory"}), 400),
    "userinfo of another name": (
        lambda provider: provider.answer_without_id_token({"sub": "alice", "email": "x"}),
        400,
    ),
}


@pytest.mark.usefixtures("asks_always")
@pytest.mark.parametrize("fault", FAULTS)
async def test_only_what_says_that_the_login_ended_ends_it(tmp_path: Path, fault: str) -> None:
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, provider=config) as door:
            app, tokens = await log_in(provider, door)
            tokens = await refresh(app, tokens)
            break_provider, status = FAULTS[fault]
            break_provider(provider)
            page = await app.refresh(tokens["refresh_token"])
            assert (page.status, await is_accepted(door, tokens)) == (status, status == 200)


@pytest.mark.usefixtures("asks_always")
async def test_a_provider_that_hangs_delays_a_refresh_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{LIMITS}.PROVIDER_CHECK_TIMEOUT_S", 0.2)
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, provider=config) as door:
            app, tokens = await log_in(provider, door)
            provider.hangs = True
            assert await refresh(app, tokens)


@pytest.mark.usefixtures("asks_always")
async def test_a_used_token_and_another_client_do_not_reach_the_provider(tmp_path: Path) -> None:
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, provider=config) as door:
            app, tokens = await log_in(provider, door)
            await refresh(app, tokens)
            other = await door.app()
            asked = provider.redeemed
            assert (await other.refresh(tokens["refresh_token"])).status == 400
            door.clock.added_s += 62
            assert (await app.refresh(tokens["refresh_token"])).status == 400
            assert provider.redeemed == asked


@pytest.mark.usefixtures("asks_always")
async def test_one_login_keeps_one_grant(tmp_path: Path) -> None:
    """A person who sends the consent form twice gets no grant that the provider is not asked about."""
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, provider=config) as door:
            app, consent = await begin_login(provider, door)
            allowed = await app.submit(consent, {}, button=("decision", "allow"))
            tokens = json.loads((await app.redeem(allowed.query["code"])).text)
            assert (await app.submit(consent, {}, button=("decision", "allow"))).status == 400
            assert (await app.refresh(tokens["refresh_token"])).status == 200
            assert len(await door.front_door.list_grants()) == 1


async def count_provider_logins(url: str) -> int:
    database = await open_database(read_url(url), SCHEMA)
    try:
        query = text("SELECT count(*) FROM oauth_provider_logins")
        return int(await database.read(lambda connection: connection.execute(query).scalar()) or 0)
    finally:
        await database.close()


async def test_the_refresh_token_of_the_provider_is_stored_sealed(tmp_path: Path) -> None:
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, provider=config) as door:
            await log_in(provider, door)
    assert await count_provider_logins(f"sqlite:///{tmp_path / 'oauth.db'}") == 1
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("oauth.db*"))
    assert b"alice@acme.example" in stored
    assert b"refresh token" not in stored


async def test_the_refresh_token_of_the_provider_is_deleted_with_the_grant(tmp_path: Path, database: str) -> None:
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, database=database, provider=config) as door:
            app, tokens = await log_in(provider, door)
            assert await count_provider_logins(database) == 1
            await door.send("/oauth/revoke", {"token": tokens["refresh_token"], "client_id": app.client_id})
            assert await count_provider_logins(database) == 0
            await begin_login(provider, door)
            assert await count_provider_logins(database) == 1
            await door.front_door.revoke(user="alice@acme.example")
            assert await count_provider_logins(database) == 0
