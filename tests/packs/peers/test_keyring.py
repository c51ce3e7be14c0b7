"""Sources of the join token secret: flags, variables, files, the system's keyring."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from hubbub import Secret, SettingsError
from hubbub.packs.peers.session_security import join_token_secrets
from hubbub.packs.peers.settings import PeersSettings
from hubbub.settings import collect_sources, read_settings

SETTINGS_SECTION = ("packs", "peers")


class FakeKeyring(KeyringBackend):
    """A keyring with one secret."""

    priority = 1.0
    is_locked = False
    secret = "from the keyring"

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked("the keyring is locked")
        return self.secret if (service, username) == ("hubbub", "join") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


@pytest.fixture
def fake_keyring() -> Iterator[FakeKeyring]:
    before, fake_keyring = keyring.get_keyring(), FakeKeyring()  # type: ignore[no-untyped-call]
    keyring.set_keyring(fake_keyring)
    yield fake_keyring
    keyring.set_keyring(before)


def read(**environ: str) -> PeersSettings:
    return read_settings(PeersSettings, collect_sources({}, environ), SETTINGS_SECTION)


def test_without_settings_there_are_no_secrets() -> None:
    assert join_token_secrets(PeersSettings()) == ()


def test_the_secret_comes_from_a_variable_or_from_a_file(tmp_path: Path) -> None:
    assert join_token_secrets(read(VDON_MCP_JOIN_TOKEN_SECRET="sek")) == ("sek",)
    (tmp_path / "secret").write_text("from a file\n")
    settings = read(VDON_MCP_JOIN_TOKEN_SECRET_FILE=str(tmp_path / "secret"), VDON_MCP_ENFORCE_JOIN_TOKEN="true")
    assert join_token_secrets(settings) == ("from a file",)
    flags = {"--join-token-secret": "from a flag", "--enforce-join-token": "true"}
    settings = read_settings(
        PeersSettings, collect_sources(flags, {"VDON_MCP_JOIN_TOKEN_SECRET": "sek"}), SETTINGS_SECTION
    )
    assert (join_token_secrets(settings), settings.enforce_join_token) == (("from a flag",), True)


def test_old_secrets_are_still_accepted() -> None:
    settings = PeersSettings(join_token_secret=Secret("new"), join_token_old_secrets=(Secret("old"), Secret("older")))
    assert join_token_secrets(settings) == ("new", "old", "older")
    assert "old" not in repr(settings).replace("_old_", "")


def test_the_secret_comes_from_the_keyring(fake_keyring: FakeKeyring) -> None:
    settings = read(VDON_MCP_JOIN_TOKEN_KEYRING="hubbub/join", VDON_MCP_ENFORCE_JOIN_TOKEN="true")
    assert join_token_secrets(settings) == ("from the keyring",)


def test_a_missing_or_locked_keyring_entry_is_a_settings_error(fake_keyring: FakeKeyring) -> None:
    with pytest.raises(SettingsError, match=r"has no secret 'hubbub/other'; add it with `keyring set hubbub other`"):
        join_token_secrets(PeersSettings(join_token_keyring="hubbub/other"))
    fake_keyring.is_locked = True
    with pytest.raises(SettingsError, match="cannot be read: the keyring is locked"):
        join_token_secrets(PeersSettings(join_token_keyring="hubbub/join"))


def test_a_missing_keyring_library_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SettingsError, match="extra 'keyring'"):
        join_token_secrets(PeersSettings(join_token_keyring="hubbub/join"))


@pytest.mark.parametrize("variable", ["VDON_MCP_ENFORCE_JOIN_TOKEN", "HUBBUB_PEERS_ENFORCE_JOIN_TOKEN"])
def test_enforce_join_token_without_a_secret_is_refused(variable: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} needs a secret .*VDON_MCP_JOIN_TOKEN_SECRET_FILE"):
        read(**{variable: "true"})


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_blank_secret_counts_as_missing(blank: str, fake_keyring: FakeKeyring) -> None:
    with pytest.raises(SettingsError, match="VDON_MCP_ENFORCE_JOIN_TOKEN needs a secret"):
        read(VDON_MCP_ENFORCE_JOIN_TOKEN="true", VDON_MCP_JOIN_TOKEN_SECRET=blank)
    old = (Secret(blank),)
    assert read(VDON_MCP_JOIN_TOKEN_SECRET=blank).join_token_secret is None
    with pytest.raises(SettingsError, match=r"^--join-token-secret is empty: set a secret, or leave it out$"):
        read_settings(PeersSettings, collect_sources({"--join-token-secret": blank}, {}), SETTINGS_SECTION)
    assert join_token_secrets(PeersSettings(join_token_secret=Secret("sek"), join_token_old_secrets=old)) == ("sek",)
    fake_keyring.secret = blank
    with pytest.raises(SettingsError, match="has no secret"):
        join_token_secrets(PeersSettings(join_token_keyring="hubbub/join"))


def test_an_allow_list_without_a_valid_stream_id_is_refused() -> None:
    with pytest.raises(SettingsError, match="VDON_MCP_ALLOW_PEER_STREAM_IDS contains no valid stream id"):
        read(VDON_MCP_ALLOW_PEER_STREAM_IDS="é, --")


def test_all_variables_of_the_contract_are_read() -> None:
    settings = read(
        VDON_MCP_JOIN_TOKEN_SECRET="sek",
        VDON_MCP_ENFORCE_JOIN_TOKEN="true",
        VDON_MCP_ALLOW_PEER_STREAM_IDS="ann, bob",
        VDON_MCP_REQUIRE_SESSION_MAC="1",
    )
    assert settings.join_token_secret == Secret("sek")
    assert (settings.enforce_join_token, settings.require_session_mac) == (True, True)
    assert settings.allow_peer_stream_ids == ("ann", "bob")
