"""Credentials in SQLite and PostgreSQL."""

import asyncio
import os
import sqlite3
from pathlib import Path

import msgspec
import pytest

from hubbub import ClientRegistration, CredentialKey, Credentials, OAuthError, SettingsError
from hubbub.oauth import limits
from hubbub.oauth.client.sql_store import SqlCredentialStore
from hubbub.security.sealer import KEY_BYTES, Sealer

KEY = CredentialKey("https://login.example", "https://notes.example/mcp", "acme/ada")
OTHER = CredentialKey("https://login.example", "https://notes.example/mcp", "beta/ada")
TOKEN = "the-access-token-of-ada"
SEALER = Sealer([os.urandom(KEY_BYTES)])


def make(token: str = TOKEN) -> Credentials:
    registration = ClientRegistration(client_id="hub")
    return Credentials(
        issuer=KEY.issuer, registration=registration, access_token=token, token_endpoint="https://login.example/token"
    )


async def test_credentials_are_kept_for_each_user_and_found_by_another_process(database: str) -> None:
    first, second = SqlCredentialStore(database, SEALER), SqlCredentialStore(database, SEALER)
    try:
        assert await first.load(KEY) is None
        await first.save(KEY, make("old"))
        await first.save(KEY, make())
        await first.save(OTHER, make("other"))
        assert await second.load(KEY) == make()
        assert await second.list(resource=KEY.resource) == [KEY, OTHER]
        assert await second.list(principal="beta/ada") == [OTHER]
        assert await second.list(resource="https://elsewhere.example/mcp") == []
        assert await second.delete(KEY)
        assert not await second.delete(KEY)
        assert await first.load(KEY) is None
        assert await first.load(OTHER) == make("other")
    finally:
        await first.close()
        await second.close()


async def test_a_closed_store_is_opened_again(database: str) -> None:
    store = SqlCredentialStore(database, SEALER)
    await store.save(KEY, make())
    await store.close()
    assert await store.load(KEY) == make()
    await store.close()


async def test_one_process_at_a_time_refreshes(database: str) -> None:
    first, second = SqlCredentialStore(database, SEALER), SqlCredentialStore(database, SEALER)
    order: list[str] = []

    async def refresh(store: SqlCredentialStore, name: str) -> None:
        async with store.lock(KEY):
            order.append(name)
            await asyncio.sleep(0)
            await store.save(KEY, make(name))
            order.append(name)

    try:
        await asyncio.gather(*(refresh(store, f"{number}") for number, store in enumerate((first, second) * 3)))
        assert order[::2] == order[1::2]
        async with first.lock(KEY), second.lock(OTHER):
            pass
    finally:
        await first.close()
        await second.close()


async def test_a_lock_of_a_process_that_ended_is_given_to_another(database: str) -> None:
    now = [1_000_000.0]
    ended, store = (
        SqlCredentialStore(database, SEALER, clock=lambda: now[0]),
        SqlCredentialStore(database, SEALER, clock=lambda: now[0]),
    )
    try:
        lock = ended.lock(KEY)
        await lock.__aenter__()
        now[0] += limits.CREDENTIAL_LOCK_S + 2
        async with store.lock(KEY):
            await lock.__aexit__(None, None, None)  # must not release the lock of the other
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0), store.lock(KEY):
                    pass
    finally:
        await ended.close()
        await store.close()


async def test_rows_are_sealed_for_their_key_and_their_installation(tmp_path: Path) -> None:
    path = tmp_path / "oauth.db"
    store = SqlCredentialStore(f"sqlite:///{path}", SEALER)
    await store.save(KEY, make())
    await store.save(OTHER, make("other"))
    await store.close()
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT principal, sealed FROM oauth_credentials").fetchall()
        assert TOKEN not in str(rows)
        stolen = dict(rows)["beta/ada"]
        connection.execute("UPDATE oauth_credentials SET sealed = ? WHERE principal = 'acme/ada'", (stolen,))
    connection.close()
    for sealer, key in ((SEALER, KEY), (Sealer([os.urandom(KEY_BYTES)]), OTHER)):
        other = SqlCredentialStore(f"sqlite:///{path}", sealer)
        with pytest.raises(SettingsError, match="sealing key"):
            await other.load(key)
        await other.close()


async def test_the_first_claim_on_a_name_wins_at_every_process(database: str) -> None:
    now = [1_000_000.0]
    stores = [SqlCredentialStore(database, SEALER, clock=lambda: now[0]) for _ in range(2)]
    try:
        assert await stores[0].find_claim("done link") is None
        values = [f"{number}" for number in range(8)]
        won = await asyncio.gather(
            *(store.claim("done link", value, now[0] + 60) for value, store in zip(values, stores * 4, strict=True))
        )
        assert len(set(won)) == 1
        assert await stores[1].find_claim("done link") == won[0]
        now[0] += 61
        assert await stores[1].find_claim("done link") is None
        assert await stores[1].claim("done link", "later", now[0] + 60) == "later"
        await stores[0].replace_claim("done link", "latest", now[0] + 60)
        assert await stores[1].find_claim("done link") == "latest"
    finally:
        for store in stores:
            await store.close()


async def test_logins_that_cannot_be_used_are_deleted_after_a_while(database: str) -> None:
    now = [1_000_000.0]
    store = SqlCredentialStore(database, SEALER, clock=lambda: now[0])
    refused, ended, renewed, used = (
        CredentialKey(KEY.issuer, KEY.resource, f"acme/{name}") for name in ("refused", "ended", "renewed", "used")
    )
    expiring = msgspec.structs.replace(make(), expires_at=now[0] + 60)
    try:
        for key in (refused, renewed):
            await store.save(key, make())
            await store.mark_unusable(key)
        await store.save(renewed, make("new"))
        await store.save(ended, expiring)
        await store.save(used, msgspec.structs.replace(expiring, refresh_token="refresh"))
        now[0] += limits.UNUSABLE_CREDENTIALS_S - 1
        await store.save(KEY, make())
        assert await store.list() == sorted([KEY, refused, ended, renewed, used])
        now[0] += limits.CREDENTIAL_SWEEP_S + 61
        await store.save(KEY, make())
        assert await store.list() == sorted([KEY, renewed, used])
    finally:
        await store.close()


async def test_the_logins_of_one_server_are_limited(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SQL_CREDENTIALS", 1)
    store = SqlCredentialStore(database, SEALER)
    try:
        await store.save(KEY, make())
        await store.save(KEY, make("new"))
        with pytest.raises(OAuthError, match="1 logins are stored for https://notes"):
            await store.save(OTHER, make())
        await store.save(CredentialKey(KEY.issuer, "https://elsewhere.example/mcp", "acme/ada"), make())
    finally:
        await store.close()
