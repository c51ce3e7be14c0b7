"""A tool of a server behind a hub needs more scopes than its user's login has: the user logs in for these, once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import ProviderProcess
from tests.identity.user_hub import UserHub, connect, run_user_hub, text_of
from tests.oauth.client.protected_server import REDIRECT_URI, protected_server

from hubbub import Client, HttpError, MemoryCredentialStore
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.oauth.errors import UserLoginRequired

MODERN, LEGACY = "2026-07-28", "2025-11-25"


@pytest.fixture(scope="module")
def site(oidc_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    """The notes; clients may ask for the right to write when they need it."""
    folder = tmp_path_factory.mktemp("notes")
    with protect_notes(folder, oidc_provider, oauth={"step_up_scopes": ["notes:write"]}) as found:
        yield found


async def write(client: Client) -> str:
    return text_of(await client.call_tool("write_note", {"text": "milk"}))


async def only_login(hub: UserHub) -> Any:
    (key,) = await hub.store.list()
    found = await hub.store.load(key)
    assert found is not None
    return found


@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_a_user_logs_in_once_for_the_scopes_that_a_tool_needs(
    tmp_path: Path, site: ProtectedSite, version: str
) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("ada", "alice")
        first = await only_login(hub)
        seen: list[Any] = []
        async with hub.person_client("ada", "alice", version, seen) as ada:
            assert await write(ada) == "written: milk"
            assert await write(ada) == "written: milk"
        assert len(seen) == 1
        second = await only_login(hub)
        assert set(second.scopes) == {*first.scopes, "notes:write"}
        assert second.registration.client_id == first.registration.client_id


@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_the_first_login_is_followed_by_one_for_more_scopes(
    tmp_path: Path, site: ProtectedSite, version: str
) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("beta", "bob")
        seen: list[Any] = []
        async with hub.person_client("ada", "alice", version, seen) as ada:
            assert await write(ada) == "written: milk"
        assert len(seen) == 2


async def test_a_user_who_declines_more_scopes_can_use_the_other_tools(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("ada", "alice")
        async with hub.client("ada", LEGACY) as ada:
            assert "open http" in await write(ada)
            assert text_of(await ada.call_tool("read_notes")) == "the notes"
            assert (await connect(ada, "list"))[0]["connected"]
            (server,) = await connect(ada)
            page = await asyncio.to_thread(hub.connect, "ada", "alice", server["url"])
            assert page.status == 200, page.text
            assert await write(ada) == "written: milk"


async def test_a_link_for_more_scopes_works_at_another_process(tmp_path: Path, site: ProtectedSite) -> None:
    """The second hub did not see the refusal; it gets the scopes from the link."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    async with run_user_hub(folders[0], site) as first:
        await first.log_in("ada", "alice")
        async with run_user_hub(folders[1], site, store=first.store) as second:
            second.gateway.use_sealer(first.gateway.sealer)
            first.gateway.main_front.base_url = second.url
            elicitation = second.elicitation("ada", "alice", [])
            async with first.client(
                "ada", MODERN, capabilities={"elicitation": {"url": {}}}, elicitation=elicitation
            ) as ada:
                assert await write(ada) == "written: milk"


async def test_a_user_who_does_not_get_the_scopes_is_not_asked_again() -> None:
    """The server refuses scopes that its authorization server does not grant."""
    user = HubUser("acme", "ada")
    async with protected_server() as server:
        server.needed_scopes["tools/list"] = "admin"
        server.token_fields["scope"] = "basic"
        logins = ServerLogins(server.config(server.oauth(scope="basic", store=MemoryCredentialStore())))

        async def log_in() -> None:
            url, pending = await logins.begin(user, REDIRECT_URI, logins.missing_scopes(user))
            await logins.finish(user, pending, await server.log_in(url))

        await log_in()
        async with server.client(logins.authorizer(user.key)) as client:
            with pytest.raises(UserLoginRequired):
                await client.tools()
            assert logins.missing_scopes(user) == ("admin",)
            await log_in()
            for granted in server.scopes_of.values():
                granted.discard("admin")
            # The second registration is for the scopes that the first one lacks.
            for requests in (server.authorizations, server.registrations):
                assert [each["scope"] for each in requests] == ["basic", "basic admin"]
            with pytest.raises(HttpError, match="403"):
                await client.tools()
            assert logins.missing_scopes(user) == ()
            await log_in()
            assert len(server.registrations) == 2
