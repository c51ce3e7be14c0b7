"""Secrets of presets in the keyring and in files; more about files is tested with the command."""

import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from hubbub import Preset, SettingsError
from hubbub.install.join_secrets import create_secret, make_secret_variables

PRESET = Preset(summary="", secret="TIDES_SECRET", keyring="TIDES_KEYRING")


class MemoryKeyring(KeyringBackend):
    """A keyring of its own."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked("locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


@pytest.fixture
def memory() -> Iterator[MemoryKeyring]:
    before, memory = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(memory)
    yield memory
    keyring.set_keyring(before)


def test_a_secret_is_created_once(memory: MemoryKeyring) -> None:
    assert make_secret_variables(PRESET, "keyring") == {"TIDES_KEYRING": "hubbub/TIDES_SECRET"}
    assert create_secret(PRESET, "keyring")
    ((place, secret),) = memory.entries.items()
    assert (place, len(secret) >= 40) == (("hubbub", "TIDES_SECRET"), True)
    assert not create_secret(PRESET, "keyring")
    assert memory.entries == {place: secret}


def test_a_keyring_that_cannot_be_used_is_reported(memory: MemoryKeyring, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.is_locked = True
    with pytest.raises(SettingsError, match="cannot be used: locked; use --create-secret file"):
        create_secret(PRESET, "keyring")
    with pytest.raises(SettingsError, match="cannot read the keyring"):
        make_secret_variables(Preset(summary="", secret="A"), "keyring")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SettingsError, match="extra 'keyring'"):
        create_secret(PRESET, "keyring")


def test_an_empty_file_is_not_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    ((_, path),) = make_secret_variables(PRESET, "file").items()
    secret = Path(path)
    secret.parent.mkdir(parents=True)
    secret.touch()
    assert create_secret(PRESET, "file")
    assert len(secret.read_text(encoding="ascii")) > 40
    assert secret.stat().st_mode & 0o777 == 0o600
    assert not create_secret(PRESET, "file")
    assert [each.name for each in secret.parent.iterdir()] == [secret.name]


def test_a_folder_in_the_place_of_the_secret_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    ((_, path),) = make_secret_variables(PRESET, "file").items()
    Path(path).mkdir(parents=True)
    with pytest.raises(SettingsError, match="cannot be read or written: Is a directory"):
        create_secret(PRESET, "file")
