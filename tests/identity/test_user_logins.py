"""Users of a hub log in at a server behind it, each with an account of their own."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.http.in_process_server import wait_until
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import ProviderProcess
from tests.identity.providers import StartProvider
from tests.identity.user_hub import NOTES, URLS, connect, run_two_user_hubs, run_user_hub, text_of

from hubbub import (
    Client,
    CredentialKey,
    Credentials,
    FileCredentialStore,
    Hub,
    MemoryCredentialStore,
    OAuth,
    RemoteError,
    Server,
    ServerConfig,
    SettingsError,
    UpstreamConfig,
)
from hubbub.governance.tenants import Tenants
from hubbub.hub.config import CONNECT
from hubbub.hub.session_control import Logout, SessionControl
from hubbub.hub.upstream_logins import limits
from hubbub.oauth import limits as oauth_limits
from hubbub.oauth.client.sql_store import SqlCredentialStore
from hubbub.security.sealer import KEY_BYTES, Sealer
from hubbub.settings.governance import TenantSettings

MODERN, LEGACY, OLDER = "2026-07-28", "2025-11-25", "2025-06-18"


async def whoami(client: Client) -> Any:
    """Return the name by which the server knows the caller."""
    result = await client.call_tool("whoami")
    assert not result.is_error, result
    return json.loads(text_of(result))["name"]


@pytest.mark.requirement("I2")
@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_each_user_logs_in_once_and_is_known_to_the_server_with_a_separate_account(
    tmp_path: Path, site: ProtectedSite, version: str
) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        seen: list[Any] = []
        async with hub.person_client("ada", "alice", version, seen) as ada:
            assert await connect(ada) == [{"server": NOTES, "connected": True}]
            assert await whoami(ada) == "alice"
            assert await whoami(ada) == "alice"
        async with hub.person_client("beta", "bob", version, seen) as beta:
            assert await whoami(beta) == "bob"
            async with hub.person_client("phone", "alice", version, seen) as phone:
                names = await asyncio.gather(*(whoami(client) for client in (phone, beta) * 10))
            assert names == ["alice", "bob"] * 10
        assert len(seen) == 2


@pytest.mark.parametrize("version", [MODERN, LEGACY, OLDER, "2024-11-05"])
async def test_a_client_that_cannot_open_pages_gets_the_link_and_the_call_is_not_made(
    tmp_path: Path, site: ProtectedSite, version: str
) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("beta", "bob")
        async with hub.client("ada", version) as ada:
            refused = await ada.call_tool("whoami")
            assert refused.is_error
            assert f"open {hub.url}/oauth/connect/" in text_of(refused)
            assert "bob" not in str(refused.raw)
            url = text_of(refused).partition("open ")[2].partition(" ")[0]
            await asyncio.to_thread(hub.connect, "ada", "alice", url)
            assert await whoami(ada) == "alice"


async def test_the_call_of_a_person_who_declines_fails_and_is_not_made(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("beta", "bob")
        for version in (MODERN, LEGACY):
            async with hub.client(
                "ada", version, capabilities=URLS, elicitation=lambda request: {"action": "decline"}
            ) as ada:
                refused = await ada.call_tool("whoami")
                assert refused.is_error
                assert "declined" in text_of(refused)


async def test_a_login_that_takes_long_ends_the_call_with_the_link_and_is_announced(
    tmp_path: Path, site: ProtectedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOGIN_WAIT_S", 0.01)
    notes: list[tuple[str, Any]] = []
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("beta", "bob")
        async with hub.client(
            "ada",
            LEGACY,
            capabilities=URLS,
            elicitation=lambda request: {"action": "accept"},
            on_notification=lambda method, params: notes.append((method, params)),
        ) as ada:
            with pytest.raises(RemoteError) as raised:
                await ada.call_tool("whoami")
            assert raised.value.code == -32042
            (elicitation,) = raised.value.data["elicitations"]
            assert elicitation["mode"] == "url"
            await asyncio.to_thread(hub.connect, "ada", "alice", elicitation["url"])
            await wait_until(lambda: notes)
            assert notes == [("notifications/elicitation/complete", {"elicitationId": elicitation["elicitationId"]})]
            assert await whoami(ada) == "alice"


async def test_a_modern_call_is_asked_again_until_the_login_is_complete(
    tmp_path: Path, site: ProtectedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOGIN_WAIT_S", 0.01)
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("beta", "bob")
        asked: list[str] = []

        async def answer(request: Any) -> dict[str, str]:
            asked.append(request.url)
            if len(asked) == 2:
                await asyncio.to_thread(hub.connect, "ada", "alice", request.url)
            return {"action": "accept"}

        async with hub.client("ada", MODERN, capabilities=URLS, elicitation=answer) as ada:
            assert await whoami(ada) == "alice"
        assert len(asked) == 2


async def test_a_modern_call_gets_a_new_link_after_a_logout(
    tmp_path: Path, site: ProtectedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOGIN_WAIT_S", 0.01)
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("beta", "bob")
        asked: list[str] = []

        async def answer(request: Any) -> dict[str, str]:
            asked.append(request.url)
            if len(asked) == 1:
                await SessionControl(hub.gateway).log_out(Logout(tenant="acme", user="ada"))
            else:
                page = await asyncio.to_thread(hub.connect, "ada", "alice", request.url)
                assert page.status == 200, page.text
            return {"action": "accept"}

        async with hub.client("ada", MODERN, capabilities=URLS, elicitation=answer) as ada:
            assert await whoami(ada) == "alice"
        assert len(asked) == 2


async def test_before_the_first_login_the_hub_says_what_to_do(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub, hub.client("ada") as ada:
        names = [tool.name for tool in await ada.tools()]
        assert CONNECT in names
        assert "whoami" not in names
        status: Any = (await ada.call_tool("hub.status")).structured_content
        assert status["servers"][0]["phase"] == "down"
        assert "hub.connect" in status["problems"][0]
        assert await connect(ada, "list", None) == [{"server": NOTES, "connected": False}]
        await hub.log_in("ada", "alice")
        assert await whoami(ada) == "alice"
        assert "whoami" in [tool.name for tool in await ada.tools()]


async def test_a_user_who_disconnects_has_to_log_in_again_and_others_have_not(
    tmp_path: Path, site: ProtectedSite, oidc_provider: ProviderProcess
) -> None:
    # Without a key that the tokens are bound to, the test can try the refresh token itself.
    async with run_user_hub(tmp_path, site, dpop="off") as hub:
        await hub.log_in("ada", "alice")
        await hub.log_in("beta", "bob")
        async with hub.client("ada") as ada, hub.client("phone") as phone, hub.client("beta") as beta:
            assert [await whoami(client) for client in (ada, phone, beta)] == ["alice", "alice", "bob"]
            tokens = [await hub.store.load(key) for key in await hub.store.list(principal="acme/ada")]
            assert await connect(ada, "disconnect") == [{"server": NOTES, "connected": False, "ended": True}]
            assert await hub.store.list(principal="acme/ada") == []
            for client in (ada, phone):
                assert (await client.call_tool("whoami")).is_error
            assert await whoami(beta) == "bob"
            assert "whoami" in [tool.name for tool in await ada.tools()]
            upstream_logins = hub.gateway.upstream_logins
            assert upstream_logins is not None
            logins = upstream_logins.find(NOTES)
            assert logins is not None
            await wait_until(lambda: logins.definitions.chosen_key == "beta/ada")
        (ended,) = tokens
        assert ended is not None
        form = {
            "grant_type": "refresh_token",
            "refresh_token": str(ended.refresh_token),
            "client_id": ended.registration.client_id,
        }
        answer = oidc_provider.new_browser().send(oidc_provider.metadata["token_endpoint"], form)
        assert answer.status in (400, 401), answer.text


@pytest.mark.requirement("L2")
async def test_logging_a_user_out_of_the_hub_ends_the_logins_at_servers(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("ada", "alice")
        await hub.log_in("beta", "bob")
        async with hub.client("ada") as ada, hub.client("beta") as beta:
            assert [await whoami(ada), await whoami(beta)] == ["alice", "bob"]
            ended = await SessionControl(hub.gateway).log_out(Logout(tenant="acme", user="ada"))
            assert (ended.server_sessions, ended.server_logins) == (1, 1)
            assert (await ada.call_tool("whoami")).is_error
            assert await whoami(beta) == "bob"


async def test_logins_of_a_removed_tenant_are_not_used_and_then_deleted(tmp_path: Path, site: ProtectedSite) -> None:
    now = [time.time()]
    sealer = Sealer([os.urandom(KEY_BYTES)])
    store = SqlCredentialStore(f"sqlite:///{tmp_path / 'oauth.db'}", sealer, clock=lambda: now[0])
    async with run_user_hub(tmp_path, site, store=store) as hub:
        await hub.log_in("ada", "alice")
        await hub.log_in("beta", "bob")
        tenants, upstream_logins = hub.gateway.main_front.tenants, hub.gateway.upstream_logins
        assert isinstance(tenants, Tenants)
        assert upstream_logins is not None
        tenants.update([TenantSettings(name="beta")])
        await upstream_logins.retire_removed_tenants()
        logins = upstream_logins.find(NOTES)
        assert logins is not None
        await logins.definitions.headers("POST", site.url)
        assert logins.definitions.chosen_key == "beta/ada"
        now[0] += oauth_limits.UNUSABLE_CREDENTIALS_S + oauth_limits.CREDENTIAL_SWEEP_S
        (key,) = await store.list(principal="beta/ada")
        kept = await store.load(key)
        assert kept is not None
        await store.save(key, kept)
        assert await store.list() == [key]


async def test_callers_without_a_user_are_refused(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("ada", "alice")
        async with Client(hub.gateway.main_front) as anonymous:
            refused = await anonymous.call_tool("whoami")
            assert refused.is_error
            assert "this call is not authenticated" in text_of(refused)
            assert (await anonymous.call_tool(CONNECT)).is_error


class RecordingStore(MemoryCredentialStore):
    """Remembers the refresh tokens that were stored."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[str | None] = []

    async def save(self, key: CredentialKey, credentials: Credentials) -> None:
        self.saved.append(credentials.refresh_token)
        await super().save(key, credentials)


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("is_known", [True, False])
async def test_expired_tokens_are_refreshed_once_by_all_calls_and_processes(
    tmp_path: Path, site: ProtectedSite, *, is_known: bool
) -> None:
    """`is_known`: whether the hub knows when they expire, or finds out when the server refuses them."""
    store = RecordingStore()
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    async with run_user_hub(folders[0], site, store=store) as hub:
        await hub.log_in("ada", "alice")
    (key,) = await store.list()
    found = await store.load(key)
    assert found is not None
    ended_at = time.time() - 1 if is_known else None
    await store.save(key, msgspec.structs.replace(found, access_token="expired", expires_at=ended_at))
    store.saved.clear()
    async with (
        run_user_hub(folders[1], site, store=store) as second,
        run_user_hub(folders[2], site, store=store) as third,
        second.client("ada") as ada,
        second.client("phone") as phone,
        third.client("ada") as elsewhere,
    ):
        names = await asyncio.gather(*(whoami(client) for client in (ada, phone, elsewhere) * 8))
    assert set(names) == {"alice"}
    assert len(store.saved) == 1


async def test_a_login_outlives_the_hub_in_the_encrypted_store(tmp_path: Path, site: ProtectedSite) -> None:
    folder = tmp_path / "credentials"
    environ = {"HUBBUB_CREDENTIALS": "file"}
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    async with run_user_hub(tmp_path / "first", site, store=FileCredentialStore(folder, environ=environ)) as hub:
        await hub.log_in("ada", "alice")
    async with (
        run_user_hub(tmp_path / "second", site, store=FileCredentialStore(folder, environ=environ)) as hub,
        hub.client("ada") as ada,
        hub.client("beta") as beta,
    ):
        assert await whoami(ada) == "alice"
        assert (await beta.call_tool("whoami")).is_error


async def test_another_process_can_finish_a_login_and_the_waiting_call_continues(
    tmp_path: Path, site: ProtectedSite
) -> None:
    """A balancer sends browsers to the second hub."""
    async with run_two_user_hubs(tmp_path, site) as (first, second):
        first.gateway.main_front.base_url = second.url
        for version in (MODERN, LEGACY):
            elicitation = second.elicitation("ada", "alice", [])
            async with first.client("ada", version, capabilities=URLS, elicitation=elicitation) as ada:
                assert await connect(ada) == [{"server": NOTES, "connected": True}]
                assert await whoami(ada) == "alice"
                await connect(ada, "disconnect")


async def test_a_login_that_the_provider_has_ended_is_asked_for_again(tmp_path: Path, site: ProtectedSite) -> None:
    store = MemoryCredentialStore()
    (tmp_path / "second").mkdir()
    async with run_user_hub(tmp_path, site, store=store) as hub:
        await hub.log_in("ada", "alice")
        await hub.log_in("beta", "bob")
    (key,) = await store.list(principal="acme/ada")
    found = await store.load(key)
    assert found is not None
    registration = msgspec.structs.replace(found.registration, client_id="forgotten")
    ended = msgspec.structs.replace(found, access_token="ended", refresh_token="ended", registration=registration)
    await store.save(key, ended)
    async with run_user_hub(tmp_path / "second", site, store=store) as hub:
        seen: list[Any] = []
        async with hub.person_client("ada", "alice", MODERN, seen) as ada, hub.client("beta") as beta:
            assert await whoami(beta) == "bob"
            assert await whoami(ada) == "alice"
            assert len(seen) == 1


async def test_a_provider_that_is_down_fails_the_login_and_says_so(
    tmp_path: Path, start_oidc_provider: StartProvider
) -> None:
    provider = start_oidc_provider()
    with protect_notes(tmp_path, provider) as site:
        async with run_user_hub(tmp_path, site) as hub, hub.client("ada") as ada:
            (server,) = await connect(ada)
            provider.go_down()
            page = await asyncio.to_thread(hub.connect, "ada", "alice", server["url"])
            assert page.status == 502
            assert "tell the operator of this hub" in " ".join(page.text.split())
            provider.come_up()
            page = await asyncio.to_thread(hub.connect, "ada", "alice", server["url"])
            assert page.status == 200
            assert await whoami(ada) == "alice"


def test_per_user_needs_a_login_of_a_person() -> None:
    plain = ServerConfig(id="a", transport="http", url="http://127.0.0.1/mcp")
    machine = ServerConfig(
        id="a",
        transport="http",
        url="http://127.0.0.1/mcp",
        auth=OAuth(grant="client_credentials", client_id="hub", client_secret="secret"),
    )
    for remote in (plain, machine):
        with pytest.raises(SettingsError, match="per_user"):
            Hub([UpstreamConfig(id="a", remote=remote, per_user=True)])
    assert isinstance(Hub([Server("b")]).front(), Server)
