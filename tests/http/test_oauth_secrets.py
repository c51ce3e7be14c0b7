"""The secrets of `[oauth]` are read at the start: otherwise the first login would fail."""

from pathlib import Path

import pytest
from tests.http.in_process_server import run_server
from tests.http.keyring import Keyring

from hubbub import Server, SettingsError
from hubbub.settings.governance import SecretSource
from hubbub.settings.oauth import (
    ClientSettings,
    IntrospectionSettings,
    IssuerSettings,
    OAuthSettings,
    ProviderSettings,
)

URL = "https://hub.example.com"
ISSUER = "https://id.example.com"


def with_provider(source: SecretSource) -> OAuthSettings:
    return OAuthSettings(
        public_url=URL, provider=ProviderSettings(issuer=ISSUER, client_id="hub", client_secret=source)
    )


async def start(folder: Path, oauth: OAuthSettings) -> None:
    server = Server("one")
    server.oauth = oauth
    ring = Keyring(folder / "keys.toml")
    ring.add("ada")
    given = {} if oauth.provider is not None else {"key_file": str(ring.path)}
    async with run_server(server, allowed_hosts=("hub.example.com",), **given):
        pass


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (SecretSource(env="UNSET_SECRET"), "(env) cannot be read: the environment variable UNSET_SECRET is not set"),
        (SecretSource(env="SHORT_SECRET"), "(env) cannot be read: it is shorter than"),
        (SecretSource(file="/nowhere/secret"), "(file) cannot be read: /nowhere/secret is missing"),
        (SecretSource(command=("/nowhere/program",)), "(command) cannot be read: the program"),
    ],
)
async def test_a_server_whose_provider_secret_cannot_be_read_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: SecretSource, problem: str
) -> None:
    monkeypatch.setenv("SHORT_SECRET", "abc")
    monkeypatch.delenv("UNSET_SECRET", raising=False)
    with pytest.raises(SettingsError) as caught:
        await start(tmp_path, with_provider(source))
    assert f"oauth.provider.client_secret {problem}" in caught.value.message
    assert "abc" not in caught.value.message


async def test_the_secrets_of_clients_and_of_introspection_are_read_too(tmp_path: Path) -> None:
    source = SecretSource(file="/nowhere/secret")
    client = ClientSettings(client_id="a", name="A", redirect_uris=("https://a.example/",), client_secret=source)
    with pytest.raises(SettingsError, match=r"oauth.clients\[0\].client_secret \(file\)"):
        await start(tmp_path, OAuthSettings(public_url=URL, front_door=True, clients=(client,)))
    issuer = IssuerSettings(issuer=ISSUER, introspection=IntrospectionSettings(client_id="hub", client_secret=source))
    with pytest.raises(SettingsError, match=r"oauth.issuers\[0\].introspection.client_secret \(file\)"):
        await start(tmp_path, OAuthSettings(public_url=URL, issuers=(issuer,)))


async def test_a_server_starts_with_a_secret_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a long enough secret")
    await start(tmp_path, with_provider(SecretSource(file=str(tmp_path / "secret.txt"))))
