"""The tables, and what happens if the store cannot be used."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.oauth.front_door.door_site import Clock, open_door
from tests.oauth.front_door.test_provider_logins import begin_login, log_in, serve_provider

from hubbub import SettingsError, StoreFailed
from hubbub.oauth.front_door import owner
from hubbub.oauth.front_door.signing_keys import SigningKeys
from hubbub.oauth.front_door.tables import SCHEMA, metadata
from hubbub.pack.store import Database, open_database, read_url, text
from hubbub.security.sealer import KEY_BYTES, Sealer
from hubbub.server.http.front_door import database_file
from hubbub.store.migrate import differences


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = await open_database(read_url(url), SCHEMA)
    try:
        yield database
    finally:
        await database.close()


async def test_the_migrations_make_the_tables_that_are_declared(database: str) -> None:
    async with opened(database) as store:
        assert await store.read(lambda c: differences(c, metadata, SCHEMA.version_table)) == []


async def test_a_database_belongs_to_one_server(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        async with open_door(tmp_path, database=database, issuer=door.url):
            pass  # another process of the same server
        with pytest.raises(SettingsError, match=f"belongs to the server at {door.url}, not to http://other.example"):
            async with open_door(tmp_path, database=database, issuer="http://other.example"):
                pass


async def test_the_migrations_make_the_table_of_the_owner(database: str) -> None:
    opened_database = await open_database(read_url(database), owner.SCHEMA)
    try:
        assert await opened_database.read(lambda c: differences(c, owner.metadata, owner.SCHEMA.version_table)) == []
    finally:
        await opened_database.close()


def test_servers_of_one_person_have_databases_of_their_own() -> None:
    names = [database_file(f"http://localhost:{port}") for port in (3501, 3502)]
    assert len(set(names)) == 2
    assert names[0].startswith("oauth-localhost-3501-")
    assert database_file("http://localhost:3501/") == names[0]
    assert len({database_file("https://a.example/x"), database_file("https://a.example/y")}) == 2


async def test_nothing_that_could_be_used_is_stored(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        code = (await app.authorize()).query["code"]
        tokens = json.loads((await app.redeem(code)).text)
        unused = (await app.authorize()).query["code"]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("oauth.db*"))
    secrets = [code, unused, tokens["access_token"], *tokens["refresh_token"].split("."), door.keys["ada"]]
    assert not [secret for secret in secrets if secret.encode() in stored]
    assert b"PRIVATE KEY" not in stored
    assert (tmp_path / "oauth.db").stat().st_mode & 0o077 == 0


async def test_a_store_that_fails_refuses_logins_without_details(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        tokens = await app.tokens()
        async with opened(f"sqlite:///{tmp_path / 'oauth.db'}") as other:
            await other.write(lambda connection: connection.execute(text("DROP TABLE oauth_clients")))
        page = await app.open()
        assert (page.status, "oauth" in page.text.partition("<main>")[2]) == (503, False)
        page = await app.refresh(tokens["refresh_token"])
        assert (page.status, json.loads(page.text)["error"]) == (503, "temporarily_unavailable")
        # Tokens that were issued are accepted all the same.
        await door.front_door.tokens.verify(tokens["access_token"].encode())


async def test_a_database_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreFailed):
        async with open_door(tmp_path, database=f"sqlite:///{tmp_path / 'folder'}"):
            pass
    with pytest.raises(SettingsError, match="invalid database URL"):
        async with open_door(tmp_path, database="mysql://host/name"):
            pass


async def count_rows(database: str) -> dict[str, int]:
    queries = {name: text(f"SELECT count(*) FROM {name}") for name in metadata.tables if "keys" not in name}
    async with opened(database) as store:
        return await store.read(lambda c: {name: c.execute(query).scalar() or 0 for name, query in queries.items()})


async def test_expired_rows_are_deleted(tmp_path: Path, database: str) -> None:
    with serve_provider() as (provider, config):
        async with open_door(tmp_path, database=database, provider=config) as door:
            await log_in(provider, door)
            await door.front_door.revoke(user="alice@acme.example")
            await log_in(provider, door)
            app, consent = await begin_login(provider, door)
            await app.submit(consent, {}, button=("decision", "allow"))
            before = await count_rows(database)
            door.clock.added_s += 400 * 86_400
            await door.front_door.sweep()
            after = await count_rows(database)
        assert min(before.values()) > 0, before
        assert set(after.values()) == {0}, after


async def test_many_tokens_with_unknown_keys_read_the_store_once(database: str) -> None:
    async with opened(database) as store:
        clock, uses = Clock(), 0

        def use_store() -> Database:
            nonlocal uses
            uses += 1
            return store

        keys = SigningKeys(use_store, Sealer([bytes(KEY_BYTES)]), clock)
        await keys.load()
        clock.added_s += 5
        found = await asyncio.gather(*(keys.find(f"unknown {number}", "ES256") for number in range(20)))
        assert (set(found), uses) == ({None}, 2)
