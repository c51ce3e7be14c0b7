"""`hubbub import` as users run it: with a home of their own, in a terminal or in a script."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.completed_process import assert_refused
from tests.cli.conftest import clean_environment
from tests.cli.pseudo_terminal import Terminal

KEY = "sk-abcdefghijklmnop0123"
SERVER = """
import os

from hubbub import Server, run

server = Server("vault")


@server.tool
def read_key() -> str:
    return os.environ["VAULT_API_KEY"][::-1]  # The hub would hide the key itself.


if __name__ == "__main__":
    run(server)
"""
Import = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which Cursor has a server with a secret."""
    (tmp_path / "vault.py").write_text(SERVER, encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(tmp_path / "vault.py")], "env": {"VAULT_API_KEY": KEY}}
    write_cursor(tmp_path, {"vault": entry})
    return tmp_path


def write_cursor(home: Path, servers: dict[str, Any]) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def environment(home: Path) -> dict[str, str]:
    folders = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state"}
    return clean_environment() | {"HOME": str(home)} | {name: str(home / folder) for name, folder in folders.items()}


def settings_file(home: Path) -> Path:
    return home / ".config" / "hubbub" / "hubbub.toml"


@pytest.fixture
def run_hubbub(home: Path) -> Import:
    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        folder = home / "work"
        folder.mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "hubbub", *arguments], input=stdin, cwd=folder, env=environment(home),
            capture_output=True, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip

    return run


@pytest.mark.skipif(sys.platform != "linux", reason="the home of a Linux user")
def test_after_an_import_a_hub_serves_the_servers_of_clients(home: Path, run_hubbub: Import) -> None:
    imported = run_hubbub("import", "--client", "cursor")
    assert (imported.returncode, imported.stderr) == (0, "")
    assert '+env = { VAULT_API_KEY = "${VAULT_API_KEY}" }' in imported.stdout
    assert KEY not in imported.stdout + settings_file(home).read_text(encoding="utf-8")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_key"}}
    done = run_hubbub("serve", "--transport", "stdio", stdin=f"{json.dumps(call)}\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == KEY[::-1]
    called = run_hubbub("call", "vault", "read_key")
    assert KEY[::-1] in called.stdout, called.stderr


def test_a_dry_run_only_shows(home: Path, run_hubbub: Import) -> None:
    done = run_hubbub("import", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "+[servers.vault]" in done.stdout
    assert "VAULT_API_KEY" in done.stdout
    assert KEY not in done.stdout
    assert not settings_file(home).exists()
    assert not (home / ".local").exists()


def test_without_a_terminal_nothing_is_written_unless_that_is_chosen(home: Path, run_hubbub: Import) -> None:
    done = run_hubbub("import")
    assert done.returncode == 2
    assert (
        done.stderr == "hubbub: nothing was changed; choose clients with --client NAME, or use --yes for all of these\n"
    )
    assert not settings_file(home).exists()
    assert run_hubbub("import", "--yes").returncode == 0
    assert settings_file(home).exists()


def test_in_a_terminal_it_asks(home: Path) -> None:
    folder = home / "work"
    folder.mkdir()
    with Terminal("import", folder=folder, **environment(home)) as terminal:
        terminal.expect("Write 1 server to ")
        terminal.expect("[y/N]")
        terminal.type("n\n")
        assert terminal.end()[0] == 1
    assert not settings_file(home).exists()
    with Terminal("import", folder=folder, **environment(home)) as terminal:
        terminal.expect("[y/N]")
        terminal.type("y\n")
        code, shown = terminal.end()
    assert code == 0
    assert "Imported 1 server into" in shown
    assert settings_file(home).exists()


def test_another_file_is_trusted_in_its_folder_too(home: Path, run_hubbub: Import) -> None:
    done = run_hubbub("import", "--config", "hubbub.toml", "--yes")
    assert done.returncode == 0, done.stderr
    assert "hubbub serve --config hubbub.toml" in done.stdout
    assert "hubbub install" not in done.stdout  # It would register another file.
    assert "trusted" in run_hubbub("trust", "--list").stdout
    called = run_hubbub("call", "vault", "read_key")
    assert KEY[::-1] in called.stdout, called.stderr


def test_what_is_left_out_is_named(home: Path, run_hubbub: Import) -> None:
    write_cursor(home, {"own": {"command": "hubbub", "args": ["serve"]}, "bad": {"url": "ftp://x"}})
    done = run_hubbub("import", "--yes")
    assert done.returncode == 0
    assert "left out Cursor: 'own' is Hubbub itself" in done.stdout
    assert "left out Cursor: 'bad' is invalid: `url` must start with https://" in done.stdout
    assert "There is no server to import." in done.stdout
    assert not settings_file(home).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the home of a Linux user")
def test_an_env_file_is_named_because_it_is_not_imported(home: Path, run_hubbub: Import) -> None:
    servers = {"a": {"command": "x", "envFile": "${workspaceFolder}/.env"}, "b": {"command": "y", "envFile": ""}}
    write_cursor(home, servers)
    vscode = home / ".config" / "Code" / "User" / "mcp.json"
    vscode.parent.mkdir(parents=True)
    vscode.write_text(json.dumps({"servers": {"a": {"command": "z", "envFile": "/e"}}}), encoding="utf-8")
    shown = run_hubbub("import", "--yes").stdout.splitlines()
    advice = "has an envFile, which is not imported; copy its variables to `env` of"
    assert [line for line in shown if "envFile" in line] == [
        f"Cursor: 'a' {advice} [servers.a]",
        f"VS Code: 'a' {advice} [servers.a-vscode]",
    ]
    assert "envFile" not in run_hubbub("import", "--yes").stdout


def test_wrong_usage_is_one_line(home: Path, run_hubbub: Import) -> None:
    assert_refused(run_hubbub("import", "--client", "curser"), 2, "unknown client 'curser'; did you mean 'cursor'")
    (home / ".cursor/mcp.json").write_text("{", encoding="utf-8")
    assert_refused(run_hubbub("import", "--client", "cursor"), 2, "mcp.json: line 1, column 2")
    (home / ".cursor/mcp.json").unlink()
    (home / ".cursor").rmdir()
    assert_refused(run_hubbub("import"), 2, "no MCP client was found", "--client")


def test_a_read_only_settings_file_is_refused_with_what_to_do(home: Path, run_hubbub: Import) -> None:
    config = home / "hub.toml"
    config.write_text("", encoding="utf-8")
    config.chmod(0o444)
    advice = "is read-only; change its permissions, or choose another file with --config"
    assert_refused(run_hubbub("import", "--yes", "--config", str(config)), 2, str(config), advice)


def test_a_broken_file_among_others_is_one_line_and_exit_code_2(home: Path, run_hubbub: Import) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text("{", encoding="utf-8")
    done = run_hubbub("import", "--yes")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("hubbub: Gemini CLI is left out: ")
    assert "settings.json: line 1, column 2" in line
    assert "Imported 1 server into" in done.stdout
    assert settings_file(home).exists()
    (home / ".cursor/mcp.json").unlink()
    assert run_hubbub("import", "--dry-run").returncode == 2
