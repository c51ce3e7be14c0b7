"""The logins of users at one server."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.client.scripted_server import ScriptedRequest
from tests.oauth.client.protected_server import protected_server

from hubbub import (
    Client,
    ClientRegistration,
    CredentialKey,
    Credentials,
    Hub,
    MemoryCredentialStore,
    OAuth,
    RefusedRequest,
    Server,
    ServerConfig,
    UpstreamConfig,
)
from hubbub.governance.tenants import Tenants
from hubbub.hub.front import Front
from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.oauth import limits as oauth_limits
from hubbub.oauth.errors import UserLoginRequired

URL = "https://tickets.example/mcp"
ISSUER = "https://issuer.example"
CREDENTIALS = Credentials(
    issuer=ISSUER,
    registration=ClientRegistration(client_id="hub"),
    access_token="t",
    token_endpoint=f"{ISSUER}/token",
)


class CountingStore(MemoryCredentialStore):
    """A store that counts reads."""

    reads = 0

    async def load(self, key: CredentialKey) -> Credentials | None:
        self.reads += 1
        return await super().load(key)


async def test_a_login_in_use_is_read_from_the_store_once_at_each_check() -> None:
    now, store, user = [1000.0], CountingStore(), HubUser("acme", "ada")
    config = ServerConfig(id="tickets", transport="streamable_http", url=URL, auth=OAuth(store=store))
    logins = ServerLogins(config, clock=lambda: now[0])
    key = CredentialKey(ISSUER, logins.resource, user.key)
    await store.save(key, CREDENTIALS)
    authorizer, used = logins.authorizer(user.key), {"Authorization": "Bearer t"}
    assert await authorizer.headers("POST", URL) == used
    store.reads = 0
    for _ in range(3):
        now[0] += max(limits.LOGIN_CHECK_S, oauth_limits.CREDENTIAL_CHECK_S)
        assert authorizer.current_headers() is None
        assert await authorizer.headers("POST", URL) == used
        assert authorizer.current_headers() == used
    assert store.reads == 3
    await store.delete(key)
    now[0] += limits.LOGIN_CHECK_S
    assert await authorizer.headers("POST", URL) == {}


async def test_a_new_user_uses_the_newest_registration_that_is_not_forgotten() -> None:
    """The authorization server has forgotten `old` of ada, and `gone` of carl, of which the hub knows."""
    redirect_uri = "http://127.0.0.1:1/oauth/upstream/callback"
    async with protected_server() as server:
        store = MemoryCredentialStore()
        logins = ServerLogins(server.config(OAuth(store=store)))
        found = {
            "ada": ("old", 1, False),
            "bob": ("new", 2, False),
            "carl": ("gone", 3, True),
            "dora": ("gone", 3, False),
        }
        for name, (client_id, obtained_at, is_forgotten) in found.items():
            registration = ClientRegistration(
                client_id=client_id, source="dynamic", redirect_uris=(redirect_uri,), is_forgotten=is_forgotten
            )
            login = replace(CREDENTIALS, issuer=server.origin, registration=registration, obtained_at=obtained_at)
            await store.save(CredentialKey(server.origin, logins.resource, HubUser("acme", name).key), login)
        _, pending = await logins.begin(HubUser("acme", "eve"), redirect_uri)
    assert pending.registration.client_id == "new"


async def test_a_client_that_was_forgotten_is_not_used_for_the_next_user() -> None:
    redirect_uri = "http://127.0.0.1:1/oauth/upstream/callback"
    async with protected_server() as server:
        store, ada = MemoryCredentialStore(), HubUser("acme", "ada")
        logins = ServerLogins(server.config(OAuth(store=store)))
        url, pending = await logins.begin(ada, redirect_uri)
        await logins.finish(ada, pending, await server.log_in(url))
        server.revoke_tokens()

        async def forget(request: ScriptedRequest) -> None:
            await request.reply(401, {"error": "invalid_client"})

        server.handle["/token"] = forget
        authorizer = logins.authorizer(ada.key)
        sent = await authorizer.headers("POST", server.url)
        with pytest.raises(UserLoginRequired):
            await authorizer.handle_refusal(RefusedRequest("POST", server.url, 401, 0, server.challenge, "", sent, 0))
        _, pending = await logins.begin(HubUser("acme", "bob"), redirect_uri)
        await logins.close()
    assert pending.registration.client_id == "client-2"


class MarkingStore(MemoryCredentialStore):
    """A store that announces when credentials were refused."""

    def __init__(self) -> None:
        super().__init__()
        self.marked: asyncio.Queue[CredentialKey] = asyncio.Queue()

    async def mark_unusable(self, key: CredentialKey) -> None:
        self.marked.put_nowait(key)


async def test_logins_of_removed_tenants_are_found_if_a_reload_adds_the_first_server_with_logins() -> None:
    store = MarkingStore()
    key = CredentialKey(ISSUER, URL, HubUser("gone", "ada").key)
    await store.save(key, CREDENTIALS)
    remote = ServerConfig(id="tickets", transport="streamable_http", url=URL, auth=OAuth(store=store))
    front = Hub([Server("local")]).front()
    assert isinstance(front, Front)
    async with Client(front):
        front.tenants = Tenants([])
        added = UpstreamConfig(id="tickets", remote=remote, per_user=True)
        await front.hub.apply(replace(front.hub.config, upstreams=(*front.hub.config.upstreams, added)))
        assert await store.marked.get() == key
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "upstream logins"]
