"""The table of clients: paths on each operating system, detection, and the form of entries."""

from pathlib import Path

import pytest
from tests.install.conftest import MakeMachine

from hubbub import SettingsError
from hubbub.install.clients import CLIENTS, detect_clients, find_client
from hubbub.install.entries import ServerEntry, format_entry, read_entries
from hubbub.install.machine import System

CLINE = "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
SUPPORT = "Library/Application Support"
PATHS: dict[str, tuple[str, str, str]] = {  # Linux, macOS, Windows
    "claude-code": (".claude.json", ".claude.json", ".claude.json"),
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        f"{SUPPORT}/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "codex": (".codex/config.toml", ".codex/config.toml", ".codex/config.toml"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": (
        ".config/Code/User/mcp.json",
        f"{SUPPORT}/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "gemini": (".gemini/settings.json",) * 3,
    "opencode": (".config/opencode/opencode.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    "goose": (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
    ),
    "cline": (f".config/Code/{CLINE}", f"{SUPPORT}/Code/{CLINE}", f"AppData/Roaming/Code/{CLINE}"),
    "lmstudio": (".lmstudio/mcp.json",) * 3,
}
SYSTEMS: tuple[System, ...] = ("linux", "macos", "windows")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_file_of_a_client_is_where_it_reads_it(client: object, system: System, make_machine: MakeMachine) -> None:
    machine = make_machine(system)
    (client,) = [each for each in CLIENTS if each is client]
    expected = machine.home / PATHS[client.name][SYSTEMS.index(system)]
    assert client.path(machine) == expected


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_client_is_detected_by_its_folder(system: System, make_machine: MakeMachine) -> None:
    machine = make_machine(system)
    assert detect_clients(machine) == []
    for client in CLIENTS:
        folder = machine.home / PATHS[client.name][SYSTEMS.index(system)]
        folder = machine.home / ".claude" if client.name == "claude-code" else folder.parent
        folder.mkdir(parents=True, exist_ok=True)
        assert client in detect_clients(machine)
    assert detect_clients(machine) == list(CLIENTS)


def test_variables_move_files(make_machine: MakeMachine) -> None:
    machine = make_machine("linux", XDG_CONFIG_HOME="/xdg", CODEX_HOME="/codex", CLAUDE_CONFIG_DIR="relative")
    assert str(find_client("codex").path(machine)) == "/codex/config.toml"
    assert str(find_client("zed").path(machine)) == "/xdg/zed/settings.json"
    assert find_client("claude-code").path(machine) == machine.home / ".claude.json"
    assert str(find_client("vscode").path(make_machine("windows", APPDATA="/r"))) == "/r/Code/User/mcp.json"


def test_a_variable_counts_even_if_only_the_usual_file_exists(make_machine: MakeMachine, tmp_path: Path) -> None:
    machine = make_machine("linux", CLAUDE_CONFIG_DIR=str(tmp_path / "elsewhere"))
    machine.home.mkdir(parents=True, exist_ok=True)
    (machine.home / ".claude.json").write_text("{}")
    assert find_client("claude-code").path(machine) == tmp_path / "elsewhere/.claude.json"


def test_an_existing_file_goes_before_a_folder(make_machine: MakeMachine) -> None:
    machine = make_machine()
    folder = machine.home / ".config/opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").touch()
    assert find_client("opencode").path(machine) == folder / "opencode.jsonc"
    (machine.home / ".cache/lm-studio").mkdir(parents=True)
    assert find_client("lmstudio").path(machine) == machine.home / ".cache/lm-studio/mcp.json"


def test_claude_desktop_of_the_store_has_a_folder_of_its_own(make_machine: MakeMachine) -> None:
    machine = make_machine("windows")
    store = machine.home / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude"
    store.mkdir(parents=True)
    assert find_client("claude-desktop").path(machine) == store / "claude_desktop_config.json"


def test_project_files_are_in_the_working_folder(make_machine: MakeMachine) -> None:
    machine = make_machine()
    paths = {
        client.name: client.path(machine, "project").relative_to(machine.folder).as_posix()
        for client in CLIENTS
        if client.project
    }
    assert paths == {
        "claude-code": ".mcp.json",
        "codex": ".codex/config.toml",
        "cursor": ".cursor/mcp.json",
        "vscode": ".vscode/mcp.json",
        "gemini": ".gemini/settings.json",
        "opencode": "opencode.json",
        "zed": ".zed/settings.json",
    }
    with pytest.raises(SettingsError, match="Windsurf has no configuration file for projects"):
        find_client("windsurf").path(machine, "project")


def test_an_unknown_client_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match="unknown client 'cursr'; did you mean 'cursor'"):
        find_client("cursr")


def test_entries_have_the_form_of_their_client() -> None:
    remote = ServerEntry(name="hub", url="https://h/mcp", key_variable="KEY")
    assert format_entry(find_client("windsurf"), remote) == {
        "serverUrl": "https://h/mcp",
        "headers": {"Authorization": "Bearer ${env:KEY}"},
    }
    assert format_entry(find_client("gemini"), remote)["httpUrl"] == "https://h/mcp"
    assert format_entry(find_client("codex"), remote) == {"url": "https://h/mcp", "bearer_token_env_var": "KEY"}
    assert format_entry(find_client("opencode"), remote)["headers"] == {"Authorization": "Bearer {env:KEY}"}
    goose = format_entry(find_client("goose"), remote)
    assert (goose["uri"], goose["headers"], goose["env_keys"]) == (
        "https://h/mcp", {"Authorization": "Bearer ${KEY}"}, ["KEY"]
    )  # fmt: skip
    local = ServerEntry(name="hub", command=("/p", "a", "b"), variables=("SECRET",), env={"FILE": "/f"})
    assert format_entry(find_client("opencode"), local) == {
        "type": "local",
        "command": ["/p", "a", "b"],
        "environment": {"FILE": "/f", "SECRET": "{env:SECRET}"},
    }
    assert format_entry(find_client("claude-desktop"), local) == {
        "command": "/p",
        "args": ["a", "b"],
        "env": {"FILE": "/f"},
    }


def test_entries_of_others_are_read() -> None:
    values = {
        "mcpServers": {
            "a": {"command": "npx", "args": ["-y", 1], "env": {"K": "${env:NAME}", "L": "pa$word"}, "disabled": True},
            "b": {"httpUrl": "https://x", "headers": {"Authorization": "Bearer $TOKEN", "X": "{env:Y}"}},
            "c": {"nothing": 1},
            "d": "text",
        }
    }
    one, two = read_entries(find_client("gemini"), values)
    assert (one.command, one.env, one.is_enabled) == (("npx", "-y", "1"), {"K": "${NAME}", "L": "pa$word"}, False)
    assert (two.url, two.headers) == ("https://x", {"Authorization": "Bearer ${TOKEN}", "X": "${Y}"})


def test_every_place_of_cline_is_an_installation_unless_one_is_chosen(make_machine: MakeMachine) -> None:
    machine, client = make_machine(), find_client("cline")
    assert client.split(machine) == [client]
    code, cursor = (machine.home / ".config" / name / CLINE for name in ("Code", "Cursor"))
    program = machine.home / ".cline/data/settings/cline_mcp_settings.json"
    for path in (code, cursor, program):
        path.parent.mkdir(parents=True)
    assert [each.path(machine) for each in client.split(machine)] == [code, cursor, program]
    chosen = make_machine(CLINE_MCP_SETTINGS_PATH=str(cursor))
    assert [each.path(chosen) for each in client.split(chosen)] == [cursor]
