"""Servers of clients as sections of a settings file."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.install.conftest import MakeMachine

from hubbub import SettingsError
from hubbub.install.clients import CLIENTS, Client, find_client
from hubbub.install.entries import ServerEntry
from hubbub.install.entry_conversion import EntryReader
from hubbub.install.hubbub_entry import make_serve_command
from hubbub.install.import_plan import ImportPlan, apply_import, plan_import
from hubbub.install.machine import Machine
from hubbub.install.registration import apply_install, plan_install
from hubbub.install.secret_values import StoredSecrets
from hubbub.settings.trust import read_folder_file
from hubbub.settings.variables import read_variables, variables_path

TOKEN = "ghp_abcdefghijklmnop1234"


@pytest.fixture(autouse=True)
def private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "config" / "hubbub" / "hubbub.toml"


def write_servers(client: Client, machine: Machine, servers: dict[str, Any], text: str | None = None) -> None:
    path = client.path(machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    key = client.key[0]
    path.write_text(json.dumps({key: servers}) if text is None else text, encoding="utf-8")


def convert(client: str, entry: Any, **environ: str) -> dict[str, Any]:
    reader = EntryReader(find_client(client), StoredSecrets({}, environ), Path("/home/ann"))
    return reader.convert("server", entry)


def plan(machine: Machine, target: Path, *names: str) -> ImportPlan:
    return plan_import([find_client(name) for name in names], machine, target, is_strict=True)


def read_servers(path: Path) -> dict[str, Any]:
    servers: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["servers"]
    return servers


def test_a_server_is_copied_with_a_reference_instead_of_its_secret(machine: Machine, target: Path) -> None:
    entry = {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_TOKEN": TOKEN, "LOG": "debug"}}
    write_servers(find_client("cursor"), machine, {"github": entry})
    planned = plan(machine, target, "cursor")
    assert not target.exists()
    apply_import(planned)
    env = {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "debug"}
    assert read_servers(target) == {"github": {"command": "npx", "args": ["-y", "server-github"], "env": env}}
    assert TOKEN not in target.read_text(encoding="utf-8")
    assert read_variables() == {"GITHUB_TOKEN": TOKEN}
    assert variables_path().stat().st_mode & 0o777 == 0o600


def test_importing_again_adds_nothing_even_if_variables_are_set_meanwhile(
    make_machine: MakeMachine, target: Path
) -> None:
    servers = {
        "github": {"command": "npx", "env": {"GITHUB_TOKEN": TOKEN}},
        "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:REMOTE}"}},
    }
    write_servers(find_client("cursor"), make_machine(), servers)
    apply_import(plan(make_machine(), target, "cursor"))
    before = target.read_bytes()
    again = plan(make_machine(REMOTE="x"), target, "cursor")
    assert (again.added, len(again.present), again.after) == ((), 2, before.decode())


def test_comments_and_other_settings_stay(machine: Machine, target: Path) -> None:
    target.parent.mkdir(parents=True)
    text = "# mine\nport = 4000  # a port\n\n[servers.old]\ncommand = 'old'\n# the end\n"
    target.write_text(text, encoding="utf-8")
    write_servers(find_client("cursor"), machine, {"new": {"command": "new"}})
    apply_import(plan(machine, target, "cursor"))
    assert target.read_text(encoding="utf-8").startswith(text)
    assert read_servers(target) == {"old": {"command": "old"}, "new": {"command": "new"}}


def test_names_that_collide_get_the_name_of_the_client(machine: Machine, target: Path) -> None:
    write_servers(
        find_client("cursor"), machine, {"files": {"command": "a"}, "hub": {"command": "h"}, "a b": {"command": "c"}}
    )
    write_servers(find_client("gemini"), machine, {"files": {"command": "b"}})
    write_servers(find_client("windsurf"), machine, {"files": {"command": "b"}})
    planned = plan(machine, target, "cursor", "gemini", "windsurf")
    apply_import(planned)
    assert {name: section["command"] for name, section in read_servers(target).items()} == {
        "files": "a",
        "hub-cursor": "h",
        "a-b": "c",
        "files-gemini": "b",
    }
    assert [line.split(":")[0] for line in planned.present] == ["files-gemini"]


def test_two_secrets_of_one_name_are_stored_under_two(machine: Machine, target: Path) -> None:
    servers = {name: {"command": name, "env": {"API_KEY": f"value-of-{name}"}} for name in ("one", "two")}
    write_servers(find_client("cursor"), machine, servers)
    apply_import(plan(machine, target, "cursor"))
    assert [section["env"]["API_KEY"] for section in read_servers(target).values()] == ["${API_KEY}", "${TWO_API_KEY}"]
    assert read_variables() == {"API_KEY": "value-of-one", "TWO_API_KEY": "value-of-two"}


def test_a_variable_of_the_environment_with_another_value_is_not_used(make_machine: MakeMachine, target: Path) -> None:
    """The environment takes precedence over stored variables, so the server would get that value."""
    machine = make_machine(API_KEY="of something else")
    write_servers(find_client("cursor"), machine, {"one": {"command": "x", "env": {"API_KEY": "mine"}}})
    apply_import(plan(machine, target, "cursor"))
    assert read_variables() == {"ONE_API_KEY": "mine"}


def test_claude_codes_servers_for_the_current_folder_are_read_too(machine: Machine, target: Path) -> None:
    projects = {
        str(machine.folder): {"mcpServers": {"local": {"command": "b"}}},
        "/elsewhere": {"mcpServers": {"other": {"command": "c"}}},
    }
    text = json.dumps({"mcpServers": {"user": {"command": "a"}}, "projects": projects})
    write_servers(find_client("claude-code"), machine, {}, text=text)
    apply_import(plan(machine, target, "claude-code"))
    assert set(read_servers(target)) == {"user", "local"}


def test_own_entries_are_left_out(machine: Machine, target: Path) -> None:
    client = find_client("cursor")
    servers = {
        "a": {"command": "/opt/venv/bin/hubbub", "args": ["serve"]},
        "b": {"command": "python3", "args": ["-m", "hubbub", "serve"]},
        "c": {"command": "uvx", "args": ["hubbub[peers]@0.1.0", "serve"]},
        "d": {"command": "vdo-mcp-server"},
    }
    write_servers(client, machine, servers)
    remote = ServerEntry(name="registered", url="https://hub.example/mcp")
    apply_install(plan_install(client, machine, remote))
    planned = plan(machine, target, "cursor")
    assert planned.added == ()
    assert planned.left_out == tuple(f"Cursor: {name!r} is Hubbub itself" for name in (*"abcd", "registered"))


def test_a_program_of_the_user_that_hubbub_serves_is_imported(machine: Machine, target: Path) -> None:
    client = find_client("cursor")
    command = make_serve_command([], ["/home/ann/weather.py:server"])
    client.path(machine).parent.mkdir(parents=True)
    apply_install(plan_install(client, machine, ServerEntry(name="weather", command=command)))
    apply_import(plan(machine, target, "cursor"))
    assert read_servers(target)["weather"] == {"command": command[0], "args": list(command[1:])}


@pytest.mark.parametrize(
    ("client", "entry", "reason"),
    [
        ("cursor", {"args": ["x"]}, "has neither a command nor a URL"),
        ("cursor", "text", "is not an object"),
        ("cursor", {"url": "ftp://example.com"}, "is invalid: `url` must start with https:// or http://"),
        ("cursor", {"url": "https://u:p@example.com"}, "is invalid: `url` must not contain a user or a password"),
        ("cursor", {"url": ["https://example.com"]}, "has a value of `url` that is not text"),
        ("cursor", {"url": "http://["}, "is invalid"),
        ("cursor", {"command": "x", "args": "-y"}, "has args that are not a list"),
        ("cursor", {"command": "x", "env": {"A": ["b"]}}, "has a value of `env.A` that is not text"),
        ("cursor", {"command": "x", "env": ["A=b"]}, "has env, but not as an object"),
        ("cursor", {"type": ["stdio"], "command": "x"}, "has the unknown type \"['stdio']\""),
        ("vscode", {"command": "x", "args": ["${workspaceFolder}"]}, "uses ${workspaceFolder}, which only VS Code"),
        (
            "opencode",
            {"command": ["x"], "environment": {"A": "{file:~/.key}"}},
            "uses {file:~/.key}, which only opencode",
        ),
        ("goose", {"type": "builtin", "name": "developer"}, "is built into Goose"),
        ("cursor", {"command": "x", "args": ["a\0b"]}, "has a value of `args` with a NUL character"),
        ("cursor", {"command": "x", "args": ["a"] * 1001}, "has more than 1000 arguments, variables and headers"),
        (
            "zed",
            {"command": {"path": "x", "args": ["a"] * 1001}},
            "has more than 1000 arguments, variables and headers",
        ),
        ("zed", {"command": {"args": ["a"]}}, "has neither a command nor a URL"),
        ("cursor", {"command": "x", "args": ["\ud800"]}, "is invalid: it contains a lone surrogate"),
    ],
)
def test_an_entry_that_a_hub_cannot_serve_is_named(client: str, entry: Any, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        convert(client, entry)
    assert caught.value.message.startswith(reason)


def test_the_secrets_of_entries_that_are_left_out_are_not_stored(machine: Machine, target: Path) -> None:
    servers = {"bad": {"url": "ftp://x.example", "headers": {"Authorization": TOKEN}}, "good": {"command": "x"}}
    write_servers(find_client("cursor"), machine, servers)
    planned = plan(machine, target, "cursor")
    assert (planned.variables, len(planned.added), len(planned.left_out)) == ({}, 1, 1)


@pytest.mark.parametrize(
    ("client", "entry", "section"),
    [
        ("claude-code", {"type": "http", "url": "https://e.example/mcp"}, {"url": "https://e.example/mcp"}),
        (
            "claude-code",
            {"type": "sse", "url": "https://e.example/sse", "headers": {"X-Key": "${K:-none}"}},
            {"url": "https://e.example/sse", "transport": "sse", "headers": {"X-Key": "${K:-none}"}},
        ),
        (
            "codex",
            {"command": "x", "env_vars": ["TOKEN"], "tool_timeout_sec": 90, "enabled": False, "cwd": "/srv"},
            {"command": "x", "env": {"TOKEN": "${TOKEN:-}"}, "cwd": "/srv", "timeout_s": 90, "enabled": False},
        ),
        (
            "codex",
            {"url": "https://e.example", "bearer_token_env_var": "T", "env_http_headers": {"X-Org": "ORG"}},
            {"url": "https://e.example", "headers": {"X-Org": "${ORG:-}", "Authorization": "Bearer ${T:-}"}},
        ),
        (
            "vscode",
            {"type": "http", "url": "https://e.example", "headers": {"Authorization": "Bearer ${input:my-token}"}},
            {"url": "https://e.example", "headers": {"Authorization": "Bearer ${MY_TOKEN:-}"}},
        ),
        ("cursor", {"command": "${userHome}/bin/x"}, {"command": "/home/ann/bin/x"}),
        ("windsurf", {"serverUrl": "https://e.example"}, {"url": "https://e.example"}),
        ("gemini", {"url": "http://127.0.0.1:1/sse"}, {"url": "http://127.0.0.1:1/sse", "transport": "sse"}),
        (
            "gemini",
            {"httpUrl": "https://e.example", "headers": {"Authorization": "Bearer $T"}},
            {"url": "https://e.example", "headers": {"Authorization": "Bearer ${T:-}"}},
        ),
        (
            "opencode",
            {"type": "local", "command": ["x", "-y"], "environment": {"A": "{env:B}"}, "enabled": True},
            {"command": "x", "args": ["-y"], "env": {"A": "${B:-}"}},
        ),
        ("zed", {"source": "custom", "command": "x", "args": [], "env": {}}, {"command": "x"}),
        (
            "zed",
            {"source": "custom", "command": {"path": "x", "args": ["-y"], "env": {"A": "b"}}, "settings": {}},
            {"command": "x", "args": ["-y"], "env": {"A": "b"}},
        ),
        (
            "goose",
            {"type": "stdio", "cmd": "x", "args": [1, True], "envs": {"A": 1}, "env_keys": ["K"], "enabled": False},
            {"command": "x", "args": ["1", "true"], "env": {"A": "1", "K": "${K:-}"}, "enabled": False},
        ),
        ("goose", {"type": "streamable_http", "uri": "https://e.example"}, {"url": "https://e.example"}),
        (
            "cline",
            {"url": "https://e.example", "disabled": True},
            {"url": "https://e.example", "transport": "sse", "enabled": False},
        ),
        (
            "cursor",
            {"url": "https://e.example", "headers": {"Accept": "text/event-stream", "User-Agent": "me"}},
            {"url": "https://e.example", "headers": {"User-Agent": "me"}},
        ),
        ("cline", {"type": "streamableHttp", "url": "https://e.example"}, {"url": "https://e.example"}),
        ("lmstudio", {"url": "ws://127.0.0.1:1"}, {"url": "ws://127.0.0.1:1"}),
    ],
)  # fmt: skip
def test_the_forms_of_all_clients_are_read(client: str, entry: Any, section: dict[str, Any]) -> None:
    assert convert(client, entry) == section


@pytest.mark.parametrize(
    ("entry", "secrets"),
    [
        ({"command": "x", "env": {"DB_PASSWORD": "hunter"}}, {"DB_PASSWORD": "hunter"}),
        ({"command": "x", "env": {"DSN": "postgres://u:pw@db/x"}}, {"DSN": "postgres://u:pw@db/x"}),
        ({"command": "x", "env": {"PLAIN": TOKEN}}, {"PLAIN": TOKEN}),
        ({"command": "x", "env": {"AUTH_MODE": "oauth", "KEY_FILE": "/k", "USE_TOKEN": "true", "MAX_TOKENS": "9"}}, {}),
        ({"command": "x", "args": ["--api-key", "abc", "--verbose"]}, {"SERVER_API_KEY": "abc"}),
        ({"command": "x", "args": ["--token=abc", "-y", "pkg@1.2.3-20250101"]}, {"SERVER_TOKEN": "abc"}),
        ({"command": "x", "args": ["-H", "Authorization: Bearer abcdefgh12"]}, {"SERVER_AUTHORIZATION": "abcdefgh12"}),
        ({"command": "x", "args": ["postgres://u:pw@db/x"]}, {"SERVER_ARGUMENT": "postgres://u:pw@db/x"}),
        ({"url": "https://e.example/mcp?api_key=zz&v=1"}, {"SERVER_API_KEY": "zz"}),
        ({"url": "https://e.example/s/a1b2c3d4e5f6g7h8i9/mcp"}, {"SERVER_URL_TOKEN": "a1b2c3d4e5f6g7h8i9"}),
        ({"url": "https://e.example", "headers": {"Authorization": "Bearer abc"}}, {"SERVER_AUTHORIZATION": "abc"}),
        ({"command": "x", "env": {"JIRA_PAT": "abcd", "SIM_PIN": "1234"}}, {"JIRA_PAT": "abcd", "SIM_PIN": "1234"}),
        ({"command": "x", "args": ["--header", "Authorization:Bearer tok"]}, {"SERVER_AUTHORIZATION": "tok"}),
        ({"command": "x", "args": ["-e", "MY_AUTH=abc", "A=b"]}, {"SERVER_MY_AUTH": "abc"}),
        ({"command": "x", "args": ["--env=API_KEY=abc"]}, {"SERVER_API_KEY": "abc"}),
        ({"command": "x", "env": {"DSN": "postgres://u:hunter@db/${DB}"}}, {"DSN": "postgres://u:hunter@db/"}),
        ({"command": "x", "args": ["postgres://u:hunter@${H}/x"]}, {"SERVER_ARGUMENT": "postgres://u:hunter@"}),
        ({"command": "x", "env": {"DSN": "postgres://${U}:${PW}@db/x", "API_KEY": "ApiKey ${K}"}}, {}),
        ({"url": "https://e.example", "headers": {"Authorization": "Bearer ab-${X}"}}, {"SERVER_AUTHORIZATION": "ab-"}),
        ({"url": "https://e.example?key=ab-${X}"}, {"SERVER_KEY": "ab-"}),
        ({"command": "x", "env": {"A": "${API_KEY:-hunter}", "B": "${LEVEL:-debug}"}}, {"API_KEY": "hunter"}),
    ],
)  # fmt: skip
def test_secrets_are_found_wherever_clients_write_them(entry: Any, secrets: dict[str, str]) -> None:
    stored = StoredSecrets({}, {})
    section = EntryReader(find_client("claude-desktop"), stored, Path("/home/ann")).convert("server", entry)
    assert stored.added == secrets
    for name, value in secrets.items():
        assert f"${{{name}}}" in str(section)
        assert value not in str(section).replace(name, "")


def test_a_thousand_secrets_of_one_name_are_stored() -> None:
    stored = StoredSecrets({}, {})
    assert len({stored.refer("server", "token", str(number)) for number in range(1100)}) == 1100


TEXTS = st.text(max_size=8) | st.sampled_from(
    ["${A}", "${env:A}", "$A", "{env:A}", "http://[", "https://e.example/?key=1"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["type", "command", "cmd", "args", "env", "envs", "env_vars", "url", "httpUrl", "headers", "cwd", "enabled",
     "bearer_token_env_var", "env_http_headers", "tool_timeout_sec"]
)  # fmt: skip


@given(st.sampled_from(CLIENTS), st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_entry_is_converted_or_refused(client: Client, entry: dict[str, Any]) -> None:
    reader = EntryReader(client, StoredSecrets({}, {}), Path("/home/ann"))
    try:
        section = reader.convert("server", entry)
    except SettingsError:
        return
    assert ("command" in section) != ("url" in section)


def test_a_broken_file_is_named_and_others_are_read(machine: Machine, target: Path) -> None:
    write_servers(find_client("cursor"), machine, {}, text='{"mcpServers": {')
    write_servers(find_client("gemini"), machine, {"x": {"command": "x"}})
    clients = [find_client("cursor"), find_client("gemini")]
    planned = plan_import(clients, machine, target, is_strict=False)
    assert len(planned.added) == 1
    (line,) = planned.unreadable
    assert "mcp.json: line 1, column" in line
    with pytest.raises(SettingsError, match="line 1, column"):
        plan_import(clients, machine, target, is_strict=True)
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"mcpServers": [1]}', "mcp.json: `mcpServers` is not an object"),
        (json.dumps({"mcpServers": {f"s{number}": {"command": "x"} for number in range(201)}}), "has 201 servers"),
    ],
)
def test_a_file_whose_servers_cannot_be_read_is_refused(
    machine: Machine, target: Path, text: str, problem: str
) -> None:
    write_servers(find_client("cursor"), machine, {}, text=text)
    with pytest.raises(SettingsError, match=problem):
        plan(machine, target, "cursor")


@pytest.mark.parametrize("text", ["servers = 3\n", "[[servers]]\nname = 'x'\n"])
def test_settings_whose_servers_are_not_a_table_stay(machine: Machine, target: Path, text: str) -> None:
    target.parent.mkdir(parents=True)
    target.write_text(text, encoding="utf-8")
    write_servers(find_client("cursor"), machine, {"x": {"command": "x"}})
    with pytest.raises(SettingsError, match=r"hubbub\.toml: `servers` is not a table"):
        plan(machine, target, "cursor")


def test_a_settings_file_that_cannot_be_parsed_stays(machine: Machine, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_text("port = \n", encoding="utf-8")
    write_servers(find_client("cursor"), machine, {"x": {"command": "x"}})
    with pytest.raises(SettingsError, match=r"hubbub\.toml: line 1"):
        plan(machine, target, "cursor")
    assert target.read_text(encoding="utf-8") == "port = \n"


def test_a_file_that_changes_meanwhile_is_not_overwritten(machine: Machine, target: Path) -> None:
    write_servers(find_client("cursor"), machine, {"x": {"command": "x"}})
    planned = plan(machine, target, "cursor")
    target.parent.mkdir(parents=True)
    target.write_text("port = 1\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="changed by another program"):
        apply_import(planned)
    assert target.read_text(encoding="utf-8") == "port = 1\n"


def test_the_file_of_a_folder_is_trusted_afterwards(machine: Machine, tmp_path: Path) -> None:
    target = tmp_path / "project" / "hubbub.toml"
    write_servers(find_client("cursor"), machine, {"x": {"command": "x"}})
    apply_import(plan(machine, target, "cursor"))
    assert read_folder_file(str(target)).is_trusted
    write_servers(find_client("cursor"), machine, {"y": {"command": "y"}})
    apply_import(plan(machine, target, "cursor"))
    assert read_folder_file(str(target)).is_trusted
    assert set(read_servers(target)) == {"x", "y"}


def test_a_file_with_settings_that_were_not_reviewed_is_refused(machine: Machine, tmp_path: Path) -> None:
    target = tmp_path / "project" / "hubbub.toml"
    target.parent.mkdir()
    target.write_text('[servers.evil]\ncommand = "evil"\n', encoding="utf-8")
    write_servers(find_client("cursor"), machine, {"x": {"command": "x"}})
    with pytest.raises(SettingsError, match=r"is not trusted; review it, run `hubbub trust"):
        plan(machine, target, "cursor")
    assert not read_folder_file(str(target)).is_trusted


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_stored_variables_that_others_can_read_are_refused(machine: Machine, target: Path) -> None:
    write_servers(find_client("cursor"), machine, {"x": {"command": "x", "env": {"API_KEY": "k"}}})
    apply_import(plan(machine, target, "cursor"))
    variables_path().chmod(0o644)
    with pytest.raises(SettingsError, match="other users can read"):
        read_variables()
    variables_path().chmod(0o600)
    variables_path().write_text("[]")
    with pytest.raises(SettingsError, match="must be a JSON object"):
        read_variables()
