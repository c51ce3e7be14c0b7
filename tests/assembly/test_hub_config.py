"""The config of a hub, built from files, flags and variables."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hubbub import HubSettings, SettingsError, ToolSettings
from hubbub.assembly.assemble import needs_hub
from hubbub.assembly.hub import load_upstream
from hubbub.assembly.hub_config import hub_config
from hubbub.assembly.pack_discovery import choose_packs, find_packs
from hubbub.assembly.settings_checks import check_sources
from hubbub.hub.config import HubConfig
from hubbub.security.sealer import Sealer
from hubbub.settings import ServeSettings, Sources
from hubbub.settings.file import SettingsFile


def sources(text: str, **environ: str) -> Sources:
    return Sources(environ=environ, file=SettingsFile("hubbub.toml", text, tomllib.loads(text)))


def config(text: str, environ: dict[str, str] | None = None, **settings: object) -> HubConfig:
    given = sources(text, **(environ or {}))
    check_sources(given)
    return hub_config(ServeSettings(**settings), given)  # type: ignore[arg-type]


TWO = """
[servers.files]
command = "mcp-files"
args = ["--root", "."]
env = { KEY = "opensesame" }
max_calls = 3
sessions = "own"
include = ["read_*"]

[servers.files.tools.read_all]
name = "read_everything"
hidden = false

[servers.far]
url = "https://example.com/mcp"
max_response_bytes = 5000
prefix = "never"
"""


def test_servers_keep_the_order_of_the_file() -> None:
    files, far = config(TWO).upstreams
    assert files.remote is not None
    assert far.remote is not None
    assert (files.id, files.remote.command, files.remote.args) == ("files", "mcp-files", ("--root", "."))
    assert (files.max_calls, files.sessions, files.include) == (3, "own", ("read_*",))
    assert files.tools == {"read_all": ToolSettings(name="read_everything")}
    assert files.origin == "hubbub.toml line 2: servers.files"
    assert (far.remote.url, far.remote.max_response_bytes, far.prefix) == ("https://example.com/mcp", 5000, "never")


def test_secrets_do_not_show_in_a_config() -> None:
    assert "opensesame" not in repr(config(TWO))


def test_two_configs_of_the_same_file_are_equal() -> None:
    assert config(TWO) == config(TWO)
    assert config(TWO) != config(TWO.replace("max_calls = 3", "max_calls = 4"))
    assert config(TWO) != config(TWO.replace('"opensesame"', '"other"'))


def test_an_mcp_json_comes_after_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        json.dumps({"mcpServers": {"git": {"command": "mcp-git"}, "off": {"command": "x", "disabled": True}}})
    )
    assert [upstream.id for upstream in config(TWO, mcp_json=str(path)).upstreams] == ["files", "far", "git"]


def test_packs_and_target_of_the_command_line_are_last() -> None:
    named = config(TWO, target="shop.tools:server", packs=("demo",)).upstreams
    assert [upstream.id for upstream in named] == ["files", "far", "tools", "demo"]
    assert named[-2].target == "shop.tools:server"
    everything = [upstream.id for upstream in config("[views.all]").upstreams]
    assert everything == [pack.name for pack in choose_packs((), find_packs())]
    assert "demo" in everything


def test_a_variable_precedes_the_file() -> None:
    environ = {"HUBBUB_HUB__SEARCH": "only", "HUBBUB_SERVERS__FAR__PREFIX": "always"}
    found = config(TWO + '[hub]\nsearch = "off"', environ)
    assert found.hub.search == "only"
    assert found.upstreams[1].prefix == "always"


def test_unknown_variables_of_a_hub_cause_a_warning() -> None:
    warning = check_sources(sources("", HUBBUB_HUB__SERACH="only"))
    assert "HUBBUB_HUB__SERACH (did you mean HUBBUB_HUB__SEARCH?)" in warning


FRONT_DOOR = "[oauth]\npublic_url = 'https://hub.example.com'\nfront_door = true"


@pytest.mark.parametrize(
    ("text", "settings", "needed"),
    [
        ("", {}, False),
        ("[hub]\nsearch = 'on'", {}, False),
        (TWO, {}, True),
        (TWO, {"alone": True}, False),
        ("[servers.a]\ncommand = 'x'\nenabled = false", {}, False),
        ("[views.v]\n", {}, True),
        ("", {"mcp_json": "x"}, True),
        (FRONT_DOOR, {}, True),
        (FRONT_DOOR, {"transport": "stdio"}, False),
        (FRONT_DOOR, {"alone": True}, False),
        (FRONT_DOOR.replace("true", "false"), {}, False),
    ],
)
def test_a_hub_is_built_only_if_its_settings_need_one(text: str, settings: dict[str, object], needed: bool) -> None:
    assert needs_hub(ServeSettings(**settings), sources(text)) is needed  # type: ignore[arg-type]


def test_a_front_door_that_variables_configure_needs_a_hub() -> None:
    variables = {"HUBBUB_OAUTH__PUBLIC_URL": "https://hub.example.com", "HUBBUB_OAUTH__FRONT_DOOR": "yes"}
    assert needs_hub(ServeSettings(), sources("", **variables))


def test_an_mcp_json_together_with_alone_is_refused() -> None:
    with pytest.raises(SettingsError, match="HUBBUB_ALONE"):
        config("", mcp_json="mcp.json", alone=True)


@pytest.mark.parametrize(
    ("url", "settings", "is_left_out"),
    [
        ("http://127.0.0.1:3000/mcp", {}, True),
        ("http://localhost:3000/mcp/view", {}, True),
        ("http://localhost:3000/mcp", {"host": "0.0.0.0", "insecure": True}, True),
        ("http://localhost:3001/mcp", {}, False),
        ("http://localhost:3000/mcp", {"port": 3001}, False),
        ("http://example.com:3000/mcp", {}, False),
        ("http://localhost:3000/mcp", {"transport": "stdio"}, False),
    ],
)
def test_the_hub_is_not_one_of_its_own_servers(url: str, settings: dict[str, Any], is_left_out: bool) -> None:
    found = config(f'[servers.me]\nurl = "{url}"\n[servers.other]\ncommand = "x"', **settings)
    assert [upstream.id for upstream in found.upstreams] == (["other"] if is_left_out else ["me", "other"])


def test_an_unknown_secret_is_reported_once_with_the_line_of_its_server() -> None:
    text = """
[servers.b]
url = "https://b.example/mcp"
[servers.b.oauth]
grant = "client_credentials"
issuer = "https://id.example"
client_id = "a"
client_secret = "${secret:nope}"
"""
    with pytest.raises(SettingsError) as caught:
        config(text)
    expected = "hubbub.toml line 2: servers.b: oauth.client_secret refers to the secret 'nope', which is not configured"
    assert caught.value.message.startswith(expected)


def test_a_missing_program_is_reported_with_the_line_of_its_server() -> None:
    [upstream] = config('[servers.b]\ntarget = "nosuch.py"\n').upstreams
    with pytest.raises(SettingsError, match=r"^hubbub\.toml line 1: servers\.b: file 'nosuch.py' not found in "):
        load_upstream(upstream, HubSettings(), Sealer())
