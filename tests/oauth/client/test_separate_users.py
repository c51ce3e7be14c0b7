"""Users of several hubs that store credentials in the same file."""

import tomllib
from pathlib import Path

import pytest

from hubbub import (
    Client,
    ClientRegistration,
    CredentialKey,
    Credentials,
    CredentialStore,
    FileCredentialStore,
    Hub,
    OAuth,
    ServerConfig,
    SettingsError,
    UpstreamConfig,
)
from hubbub.assembly.upstream_login_store import choose_store
from hubbub.oauth.client.sql_store import SqlCredentialStore
from hubbub.security.sealer import KEY_BYTES, Sealer
from hubbub.settings import ServeSettings, Sources
from hubbub.settings.file import SettingsFile

ADA = CredentialKey("https://issuer.example", "https://tickets.example/mcp", "/key%3Aada")
HUB = CredentialKey("https://issuer.example", "https://tickets.example/mcp")


def credentials(token: str) -> Credentials:
    return Credentials(
        issuer=ADA.issuer,
        registration=ClientRegistration(client_id="hub"),
        access_token=token,
        token_endpoint="https://issuer.example/token",
    )


def store_of(text: str, path: str) -> CredentialStore:
    config = ServerConfig(id="tickets", transport="streamable_http", url=ADA.resource, auth=OAuth())
    chosen = choose_store(
        config, ServeSettings(), Sources(file=SettingsFile(path, text, tomllib.loads(text)), config=path)
    )
    assert isinstance(chosen.auth, OAuth)
    return chosen.auth.credential_store


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (
            ("[oauth]\npublic_url = 'http://localhost:3501'", "hub.toml"),
            ("[oauth]\npublic_url = 'http://localhost:3502'", "hub.toml"),
        ),
        (("", "a.toml"), ("", "b.toml")),
    ],
)
async def test_users_of_another_hub_have_separate_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: tuple[str, str], two: tuple[str, str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HUBBUB_CREDENTIALS", "file")
    first, second = store_of(*one), store_of(*two)
    await FileCredentialStore().save(HUB, credentials("of the hub"))
    await first.save(ADA, credentials("of ada"))
    async with first.lock(ADA):
        assert await first.load(ADA) == credentials("of ada")
    assert await second.load(ADA) is None
    assert await second.list() == [HUB]
    assert await second.list(principal=ADA.principal) == []
    assert list(await first.list(resource=ADA.resource)) == [HUB, ADA]
    assert await second.load(HUB) == credentials("of the hub")
    assert not await second.delete(ADA)
    assert await first.delete(ADA)
    assert await FileCredentialStore().list() == [HUB]


@pytest.mark.parametrize(
    ("one", "two"), [("public_url = 'http://localhost:3501'", "public_url = 'http://localhost:3502'"), ("", "")]
)
async def test_a_database_of_users_belongs_to_one_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, two: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    oauth = f"[oauth]\ndatabase = 'sqlite:///{tmp_path}/logins.db'\n"
    stores = store_of(oauth + one, "a.toml"), store_of(oauth + two, "b.toml")
    for store in stores:
        assert isinstance(store, SqlCredentialStore)
    try:
        await stores[0].save(ADA, credentials("of ada"))
        with pytest.raises(SettingsError, match=r"at .*(3501|a\.toml), not to .*(3502|b\.toml)"):
            await stores[1].list()
    finally:
        for store in stores:
            await store.close()  # type: ignore[attr-defined]


async def test_a_hub_does_not_start_with_the_database_of_another_hub(tmp_path: Path) -> None:
    async def refuse() -> None:
        raise SettingsError("the database belongs to another server")

    store = SqlCredentialStore(f"sqlite:///{tmp_path}/logins.db", Sealer([bytes(KEY_BYTES)]), check_owner=refuse)
    remote = ServerConfig(
        id="tickets", transport="streamable_http", url="http://127.0.0.1:9/mcp", auth=OAuth(store=store)
    )
    hub = Hub([UpstreamConfig(id="tickets", remote=remote, per_user=True)])
    with pytest.raises(SettingsError, match="belongs to another server"):
        async with Client(hub.front()):
            pass
