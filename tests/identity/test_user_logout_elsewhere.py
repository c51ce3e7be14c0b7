"""Two processes of one hub share a database: a logout or login at one of them takes effect at the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.client.scripted_server import ScriptedRequest
from tests.oauth.client.protected_server import REDIRECT_URI, ProtectedServer, protected_server

from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.oauth import limits as oauth_limits
from hubbub.oauth.client.sql_store import SqlCredentialStore
from hubbub.oauth.errors import UserLoginRequired
from hubbub.security.sealer import KEY_BYTES, Sealer

ADA, BOB = HubUser("acme", "ada"), HubUser("acme", "bob")


class Installation:
    """Two processes, and the time."""

    def __init__(self, server: ProtectedServer, database: Path) -> None:
        self.server = server
        self.now = 1_800_000_000.0
        self.stores = [
            SqlCredentialStore(f"sqlite:///{database}", Sealer([bytes(KEY_BYTES)]), clock=lambda: self.now)
            for _ in range(2)
        ]
        self.first, self.second = (
            ServerLogins(server.config(server.oauth(store=store)), clock=lambda: self.now) for store in self.stores
        )

    async def log_in(self, logins: ServerLogins, user: HubUser = ADA) -> None:
        url, pending = await logins.begin(user, REDIRECT_URI)
        await logins.finish(user, pending, await self.server.log_in(url))

    def wait_for_check(self) -> None:
        """Let the time pass after which the store is asked again."""
        self.now += limits.LOGIN_CHECK_S


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Installation]:
    async with protected_server() as server:
        found = Installation(server, folder / "oauth.db")
        yield found
        for store in found.stores:
            await store.close()


async def test_a_logout_ends_the_use_of_a_login_at_other_processes(tmp_path: Path) -> None:
    async with running(tmp_path) as at:
        at.server.metadata["revocation_endpoint"] = None  # the server goes on accepting the token
        await at.log_in(at.first)
        async with at.server.client(at.second.authorizer(ADA.key)) as session:
            assert await at.second.is_connected(ADA)
            await session.tools()
            assert await at.first.disconnect(ADA)
            at.wait_for_check()
            assert not at.second.was_checked(ADA.key)
            assert not await at.second.is_connected(ADA)
            with pytest.raises(UserLoginRequired):
                await session.tools()


async def test_an_open_session_notices_a_logout_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as at:
        at.server.metadata["revocation_endpoint"] = None
        await at.log_in(at.first)
        async with at.server.client(at.second.definitions) as lists:
            await lists.tools()
            assert at.second.definitions.chosen_key == ADA.key
            async with at.server.client(at.second.authorizer(ADA.key)) as session:
                await session.tools()
                await at.first.disconnect(ADA)
                at.wait_for_check()
                for client in (session, lists):
                    with pytest.raises(UserLoginRequired):
                        await client.tools()
            assert at.second.definitions.chosen_key is None


async def test_another_login_replaces_the_credentials_at_other_processes(tmp_path: Path) -> None:
    async with running(tmp_path) as at:
        await at.log_in(at.first)
        async with at.server.client(at.second.authorizer(ADA.key)) as session:
            await session.tools()
            await at.first.disconnect(ADA)
            at.now += 1
            await at.log_in(at.first)
            at.wait_for_check()
            await session.tools()
            (key,) = await at.stores[0].list()
            stored = await at.stores[0].load(key)
            assert stored is not None
            sent = at.server.calls("tools/list")[-1].headers["authorization"]
            assert sent == f"Bearer {stored.access_token}"


async def test_the_store_is_not_asked_for_each_request(tmp_path: Path) -> None:
    async with running(tmp_path) as at:
        await at.log_in(at.first)
        authorizer = at.first.authorizer(ADA.key)
        await authorizer.headers("POST", at.server.url)
        for store in at.stores:
            await store.close()
        (tmp_path / "oauth.db").unlink()
        assert at.first.was_checked(ADA.key)
        assert authorizer.current_headers()


async def test_a_login_that_the_server_refuses_is_deleted_after_a_while(tmp_path: Path) -> None:
    async with running(tmp_path) as at:
        await at.log_in(at.first)
        (key,) = await at.stores[0].list()
        async with at.server.client(at.first.authorizer(ADA.key)) as session:
            await session.tools()
            at.server.revoke_tokens()
            at.server.handle["/token"] = refuse
            with pytest.raises(UserLoginRequired):
                await session.tools()
        assert await at.stores[0].list() == [key]
        at.now += oauth_limits.UNUSABLE_CREDENTIALS_S + oauth_limits.CREDENTIAL_SWEEP_S
        del at.server.handle["/token"]
        await at.log_in(at.second, BOB)
        assert [each.principal for each in await at.stores[0].list()] == [BOB.key]


async def refuse(request: ScriptedRequest) -> None:
    await request.reply(400, {"error": "invalid_grant"})
