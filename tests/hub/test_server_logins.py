"""The logins of users at one server."""

from hubbub import ClientRegistration, CredentialKey, Credentials, MemoryCredentialStore, OAuth, ServerConfig
from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.oauth import limits as oauth_limits

URL = "https://tickets.example/mcp"
ISSUER = "https://issuer.example"


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
    registration = ClientRegistration(client_id="hub")
    await store.save(
        key, Credentials(issuer=ISSUER, registration=registration, access_token="t", token_endpoint=f"{ISSUER}/token")
    )
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
