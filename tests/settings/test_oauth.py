"""The section `[oauth]`."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hubbub import SettingsError
from hubbub.settings.fields import list_settings
from hubbub.settings.file import read_settings_file
from hubbub.settings.file_keys import resolve_paths, split_harmless
from hubbub.settings.oauth import (
    IntrospectionSettings,
    IssuerSettings,
    OAuthSettings,
    ProviderSettings,
    read_oauth,
)
from hubbub.settings.read import known_variables
from hubbub.settings.sources import Sources

FULL = """
[oauth]
public_url = "https://hub.example.com"
scopes = ["mcp"]
required_scopes = ["mcp"]
step_up_scopes = ["mcp:write"]
dpop = "require"

[[oauth.issuers]]
issuer = "https://login.example.com"
introspection = { client_id = "hub", client_secret = { env = "INTROSPECTION_SECRET" } }

[oauth.provider]
issuer = "https://id.example.com"
client_id = "hub"
client_secret = { file = "secret.txt" }
scope_claims = ["groups"]
scope_map = { admins = ["hub:admin"] }
"""


def sources(tmp_path: Path, text: str, **environ: str) -> Sources:
    path = tmp_path / "hubbub.toml"
    path.write_text(text)
    return Sources(environ=environ, file=read_settings_file(str(path)))


def read(tmp_path: Path, text: str, **environ: str) -> OAuthSettings:
    settings = read_oauth(sources(tmp_path, text, **environ))
    assert settings is not None
    return settings


@pytest.mark.parametrize("struct", [OAuthSettings, IssuerSettings, IntrospectionSettings, ProviderSettings])
def test_every_setting_has_a_description_and_no_flag(struct: type[msgspec.Struct]) -> None:
    for setting in list_settings(struct):
        assert setting.description.endswith("."), setting.name
        assert setting.flag is None
        assert not setting.is_harmless


def test_the_whole_section_is_read(tmp_path: Path) -> None:
    settings = read(tmp_path, FULL)
    assert settings.dpop == "require"
    [issuer] = settings.issuers
    assert issuer.introspection is not None
    assert issuer.introspection.client_secret.env == "INTROSPECTION_SECRET"
    assert settings.provider is not None
    assert settings.provider.scope_map == {"admins": ("hub:admin",)}
    assert settings.has_front_door


def test_there_are_no_settings_without_the_section(tmp_path: Path) -> None:
    assert read_oauth(sources(tmp_path, "port = 3000")) is None
    assert read_oauth(Sources()) is None


def test_variables_can_set_the_public_url(tmp_path: Path) -> None:
    settings = read(tmp_path, "[oauth]\n", HUBBUB_OAUTH__PUBLIC_URL="https://hub.example.com")
    assert settings.public_url == "https://hub.example.com"
    assert read_oauth(Sources(environ={"HUBBUB_OAUTH__PUBLIC_URL": "https://a.example"})) is not None
    assert "HUBBUB_OAUTH__PROVIDER__CLIENT_ID" in known_variables(OAuthSettings, ("oauth",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[oauth]\npublic_uri = 'https://a.example'", "did you mean 'public_url'"),
        ("[oauth.provider]\nisuer = 'https://a.example'", "did you mean 'issuer'"),
        ("[[oauth.issuers]]\nisuer = 'https://a.example'", "did you mean 'issuer'"),
        ("[oauth]\npublic_url = 'http://hub.example.com'", "or an http URL of this machine, without user, query"),
        ("[oauth]\npublic_url = 'https://user:hunter2@hub.example.com'", "must be an https URL"),
        ("[oauth]\npublic_url = 'https://hub.example.com/?a=b'", "must be an https URL"),
        ("[oauth]\ndpop = 'sometimes'", "must be one of accept, require, off"),
        ("[oauth]\nscopes = ['offline_access']", "must not contain 'offline_access'"),
        ("[oauth]\nstep_up_scopes = ['a b']", "visible ASCII characters without spaces"),
        ("[[oauth.issuers]]\nissuer = 'https://a.example'", "public_url must be set"),
        ("[oauth]\nfront_door = true", "public_url must be set"),
        ("[oauth]\nissuers = 1", "array of tables"),
        ("[oauth.provider]\nissuer = 'https://a.example'", "client_id must be set"),
        (
            "[oauth]\npublic_url = 'https://h.example'\n"
            "[[oauth.issuers]]\nissuer = 'https://a.example'\n[[oauth.issuers]]\nissuer = 'https://a.example'",
            "occurs twice",
        ),
        (
            "[[oauth.issuers]]\nissuer = 'https://a.example'\n"
            "introspection = { client_id = 'hub', client_secret = 'hunter2' }",
            "the secret itself does not belong in this file",
        ),
    ],
)
def test_a_mistake_is_refused_with_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read(tmp_path, text)
    assert message in refusal.value.message
    assert "hunter2" not in refusal.value.message


def test_an_untrusted_file_can_set_none_of_it(tmp_path: Path) -> None:
    file = sources(tmp_path, FULL).file
    assert file is not None
    harmless, refused = split_harmless(file.tree)
    assert harmless == {}
    assert ("oauth", "public_url") in refused
    assert ("oauth", "issuers") in refused


def test_paths_in_the_users_own_file_are_relative_to_it(tmp_path: Path) -> None:
    text = FULL + (
        "[[oauth.issuers]]\nissuer = 'https://b.example'\n"
        "introspection = { client_id = 'hub', client_secret = { file = 'introspection.txt' } }\n"
    )
    file = sources(tmp_path, text).file
    assert file is not None
    tree: dict[str, Any] = resolve_paths(file).tree["oauth"]
    assert tree["provider"]["client_secret"]["file"] == str(tmp_path / "secret.txt")
    assert tree["issuers"][1]["introspection"]["client_secret"]["file"] == str(tmp_path / "introspection.txt")
