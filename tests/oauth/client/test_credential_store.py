"""Where `hubbub login` stores tokens."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends import fail
from keyring.errors import PasswordDeleteError

from hubbub import ClientRegistration, CredentialKey, Credentials, FileCredentialStore, OAuthError, SettingsError
from hubbub.oauth import limits

KEY = CredentialKey("https://login.example", "https://notes.example/mcp")
TOKEN = "the-access-token-of-alice"


class MemoryKeyring(KeyringBackend):
    """A keyring of this process; those of desktops need a session that tests have not."""

    priority = 1

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.entries.pop((service, username), None) is None:
            raise PasswordDeleteError("no such entry")


@pytest.fixture
def memory() -> Iterator[MemoryKeyring]:
    before, found = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(found)
    yield found
    keyring.set_keyring(before)


def make(token: str = TOKEN, **more: object) -> Credentials:
    values = {
        "registration": ClientRegistration(client_id="c"),
        "token_endpoint": "https://login.example/token",
        **more,
    }
    return Credentials(issuer=KEY.issuer, access_token=token, **values)  # type: ignore[arg-type]


def at(folder: Path, kind: str = "") -> FileCredentialStore:
    return FileCredentialStore(folder, environ={"HUBBUB_CREDENTIALS": kind})


@pytest.mark.parametrize("kind", ["file", "keyring"])
@pytest.mark.usefixtures("memory")
async def test_credentials_are_stored_listed_and_deleted(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "hubbub"
    other, bobs = CredentialKey(KEY.issuer, "https://other.example"), CredentialKey(KEY.issuer, KEY.resource, "bob")
    for key in (KEY, other, bobs):
        await at(folder, kind).save(key, make(f"{TOKEN}-{key.resource}-{key.principal}", refresh_token="r"))
    store = at(folder, kind)
    assert await store.list() == sorted([KEY, other, bobs])
    assert await store.list(resource=KEY.resource) == [KEY, bobs]
    assert await store.list(resource=KEY.resource, principal="") == [KEY]
    found = await store.load(bobs)
    assert found is not None
    assert found.access_token.endswith("-bob")
    assert await store.delete(bobs)
    assert not await store.delete(bobs)
    assert await store.load(bobs) is None
    assert await store.load(KEY) is not None


async def test_an_unchanged_file_is_decrypted_once(tmp_path: Path, memory: MemoryKeyring) -> None:
    store, file = at(tmp_path, "keyring"), tmp_path / "credentials-keyring.sealed"
    await store.save(KEY, make())
    os.utime(file, (1, 1))
    assert await store.load(KEY) == make()
    entries, memory.entries = memory.entries, {}
    assert await store.load(KEY) == make()
    assert await store.list() == [KEY]
    memory.entries = entries
    await at(tmp_path, "keyring").save(KEY, make("another"))  # as another process
    found = await store.load(KEY)
    assert found is not None
    assert found.access_token == "another"
    await at(tmp_path, "keyring").delete(KEY)
    assert await store.load(KEY) is None


@pytest.mark.parametrize("kind", ["file", "keyring"])
async def test_files_are_encrypted_and_private(kind: str, tmp_path: Path, memory: MemoryKeyring) -> None:
    folder = tmp_path / "hubbub"
    await at(folder, kind).save(KEY, make())
    for file in (path for path in folder.rglob("*") if path.is_file()):
        assert file.stat().st_mode & 0o077 == 0, file
        assert TOKEN.encode() not in file.read_bytes()
        assert b"notes.example" not in file.read_bytes()
    assert folder.stat().st_mode & 0o077 == 0
    assert bool(memory.entries) is (kind == "keyring")
    assert TOKEN not in str(memory.entries)
    await at(folder, kind).delete(KEY)
    assert not memory.entries
    assert not list(folder.glob("credentials*.sealed"))


async def test_the_keyring_is_used_if_it_works(
    tmp_path: Path, memory: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await at(tmp_path).kind() is None
    await at(tmp_path).save(KEY, make())
    assert await at(tmp_path).kind() == "keyring"
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SettingsError, match=r"extra 'keyring'.*HUBBUB_CREDENTIALS=file"):
        await at(tmp_path).load(KEY)
    other = tmp_path / "other"
    await at(other).save(KEY, make())
    assert await at(other).kind() == "file"
    monkeypatch.undo()
    assert await at(other).kind() == "file"  # what is stored stays in use


async def test_an_unusable_keyring_is_found_before_something_is_stored(tmp_path: Path) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call]
    try:
        with pytest.raises(SettingsError, match=r"keyring cannot be used: .*details; or use an encrypted file"):
            await at(tmp_path, "keyring").check()
        await at(tmp_path, "file").check()
        await at(tmp_path).check()
    finally:
        keyring.set_keyring(before)
    assert list(tmp_path.iterdir()) == []


async def test_an_unknown_store_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"HUBBUB_CREDENTIALS must be keyring or file, not 'keyrng'.*'keyring'"):
        await at(tmp_path, "keyrng").load(KEY)


@pytest.mark.parametrize("damage", [b"", b"x", b"\xff" * 90, b"cut", b"flipped"])
async def test_a_damaged_file_is_an_error_and_is_not_replaced(damage: bytes, tmp_path: Path) -> None:
    store = at(tmp_path, "file")
    await store.save(KEY, make())
    file = tmp_path / "credentials.sealed"
    whole = file.read_bytes()
    content = {b"cut": whole[:-9], b"flipped": whole[:50] + bytes([whole[50] ^ 1]) + whole[51:]}.get(damage, damage)
    file.write_bytes(content)
    for work in (store.load(KEY), store.list(), store.save(KEY, make()), store.delete(KEY)):
        with pytest.raises(SettingsError, match=r"cannot be decrypted.*hubbub login URL") as raised:
            await work
        assert TOKEN not in raised.value.message
    assert file.read_bytes() == content
    file.write_bytes(whole)
    assert await store.load(KEY) == make()


async def test_a_replaced_key_is_an_error(tmp_path: Path, memory: MemoryKeyring) -> None:
    await at(tmp_path, "file").save(KEY, make())
    (tmp_path / "sealing.key").write_text("00" * 32)
    with pytest.raises(SettingsError, match="its key was replaced"):
        await at(tmp_path, "file").load(KEY)
    (tmp_path / "sealing.key").unlink()
    with pytest.raises(SettingsError, match=r"\.sealed is missing or damaged: .*sealing\.key cannot be") as raised:
        await at(tmp_path, "file").load(KEY)
    assert "sealing_key_file" not in raised.value.message
    await at(tmp_path, "keyring").save(KEY, make())
    memory.entries.clear()
    with pytest.raises(SettingsError, match="has no key for"):
        await at(tmp_path, "keyring").load(KEY)


async def test_the_number_of_logins_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STORED_CREDENTIALS", 2)
    store = at(tmp_path, "file")
    for resource in ("https://a", "https://b", "https://b"):
        await store.save(CredentialKey("https://i", resource), make())
    with pytest.raises(SettingsError, match=r"2 logins are stored, .* remove some with `hubbub logout`"):
        await store.save(CredentialKey("https://i", "https://c"), make())
    assert len(await store.list()) == 2


WRITER = """
import asyncio, sys
from pathlib import Path
from hubbub import ClientRegistration, CredentialKey, Credentials, FileCredentialStore
async def main(name):
    store = FileCredentialStore(Path(sys.argv[1]), environ={"HUBBUB_CREDENTIALS": "file"})
    for number in range(20):
        registration = ClientRegistration(client_id="c")
        credentials = Credentials(issuer="i", registration=registration, access_token="t", token_endpoint="e")
        await store.save(CredentialKey("i", f"{name}{number}"), credentials)
asyncio.run(main(sys.argv[2]))
"""


async def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "ab"]
    assert [process.wait() for process in running] == [0, 0]
    assert len(await at(tmp_path, "file").list()) == 40


HOLDER = """
import asyncio, sys
from pathlib import Path
from hubbub import CredentialKey, FileCredentialStore
async def main():
    key = CredentialKey("https://login.example", "https://notes.example/mcp")
    async with FileCredentialStore(Path(sys.argv[1])).lock(key):
        print("held", flush=True)
        sys.stdin.read()
asyncio.run(main())
"""


async def test_a_lock_is_held_by_one_process_and_released_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        async with at(tmp_path).lock(CredentialKey("https://login.example", "https://free.example")):
            pass
        with monkeypatch.context() as patch:
            patch.setattr(limits, "CREDENTIAL_LOCK_S", 0.01)
            with pytest.raises(OAuthError, match="Another process has been refreshing"):
                async with at(tmp_path).lock(KEY):
                    raise AssertionError("two processes held the lock")
        holder.kill()
        async with at(tmp_path).lock(KEY):
            pass


async def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="credentials cannot be stored in"):
        await at(tmp_path / "file" / "hubbub", "file").save(KEY, make())
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@given(st.binary(max_size=300))
def test_any_content_of_the_file_is_refused_with_advice(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "sealing.key").write_text("00" * 32)
    (folder / "credentials.sealed").write_bytes(data)
    with pytest.raises(SettingsError, match="cannot be decrypted"):
        asyncio.run(at(folder, "file").list())
