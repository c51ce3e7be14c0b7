"""The logins of users at one server."""

import asyncio

from msgspec.structs import replace

from hubbub import (
    Client,
    ClientRegistration,
    CredentialKey,
    Credentials,
    Hub,
    MemoryCredentialStore,
    OAuth,
    Server,
    ServerConfig,
    UpstreamConfig,
)
from hubbub.governance.tenants import Tenants
from hubbub.hub.front import Front
from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.oauth import limits as oauth_limits

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
