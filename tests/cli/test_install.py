"""`hubbub install` as a user runs it, in a home of its own."""

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.pseudo_terminal import Terminal

Run = Callable[..., subprocess.CompletedProcess[str]]
SERVE = ["-P", "-m", "hubbub", "serve"]
STDIO = ["--transport", "stdio"]
ALONE = ["--alone", *STDIO]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def install(hubbub: Run, home: Path) -> Run:
    """`install(*arguments, **environment)` runs `hubbub install`."""
    return lambda *arguments, **environ: hubbub("install", *arguments, **_environment(home), **environ)


def _environment(home: Path) -> dict[str, str]:
    folders = {f"XDG_{kind}_HOME": str(home / f".{kind.lower()}") for kind in ("CONFIG", "DATA", "STATE")}
    return {"HOME": str(home), "USERPROFILE": str(home), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", **folders}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def entry(home: Path) -> dict[str, Any]:
    """The entry of Cursor."""
    found: dict[str, Any] = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["hubbub"]
    return found


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line on stderr, exit code 2."""
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert all(word in line for word in words), line


def test_clients_that_are_found_are_registered_and_removed(install: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text('model = "x"\n')
    before = tree(home)
    done = install("--yes")
    assert done.returncode == 0, done.stderr
    assert "Cursor: registered 'hubbub' in " in done.stdout
    assert '+[mcp_servers.hubbub]\n+command = "' in done.stdout
    assert entry(home) == {"command": sys.executable, "args": [*SERVE, *STDIO]}
    codex = tomllib.loads((home / ".codex/config.toml").read_text())
    assert (codex["model"], codex["mcp_servers"]["hubbub"]["args"]) == ("x", [*SERVE, *STDIO])
    assert "already registered" in install("--yes").stdout
    assert install("--uninstall", "--yes").returncode == 0
    left = tree(home)
    left.pop(".codex/config.toml.hubbub-backup")
    assert left == before
    assert "'hubbub' is not registered" in install("--uninstall").stdout


def test_what_is_registered_starts_in_any_folder(install: Run, home: Path, tmp_path: Path) -> None:
    assert install("--client", "cursor", "--pack", "demo").returncode == 0
    hostile = tmp_path / "hostile"
    (hostile / "hubbub").mkdir(parents=True)
    (hostile / "hubbub/__main__.py").write_text("raise SystemExit('wrong program')")
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    registered = entry(home)
    environ = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    done = subprocess.run(
        [registered["command"], *registered["args"]],
        input=json.dumps(request) + "\n", cwd=hostile, env=environ, capture_output=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    assert '"echo"' in done.stdout, done.stderr


def test_without_a_choice_and_a_terminal_nothing_is_written(install: Run, home: Path) -> None:
    (home / ".gemini").mkdir()
    done = install()
    assert_refused(done, "nothing was changed", "--client")
    assert '+    "hubbub": {' in done.stdout
    assert tree(home) == {}
    done = install("--dry-run", "--client", "gemini")
    assert (done.returncode, done.stderr, tree(home)) == (0, "", {})
    assert '+    "hubbub": {' in done.stdout


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_in_a_terminal_it_asks(home: Path, tmp_path: Path, answer: str, code: int) -> None:
    (home / ".cursor").mkdir()
    with Terminal("install", folder=tmp_path, **_environment(home)) as terminal:
        assert "mcpServers" in terminal.expect("Make these changes? [y/N]:")
        terminal.type(f"{answer}\n")
        assert terminal.end()[0] == code
    assert (home / ".cursor/mcp.json").exists() == (code == 0)


def test_a_diff_is_coloured_in_a_terminal(home: Path, tmp_path: Path) -> None:
    with Terminal(
        "install", "--dry-run", "--client", "cursor", folder=tmp_path, NO_COLOR="", **_environment(home)
    ) as run:
        assert "\x1b[32m+" in run.end()[1]


def test_a_running_hub_is_registered_with_a_reference_to_its_key(install: Run, home: Path) -> None:
    (home / ".config/zed").mkdir(parents=True)
    (home / ".cursor").mkdir()
    done = install("--yes", "--url", "https://hub.example/mcp", "--key-env", "HUB_KEY", HUB_KEY="s3cret-value")
    assert done.returncode == 0
    assert "Zed is left out: Zed cannot refer to the variable HUB_KEY" in done.stderr
    assert entry(home) == {"url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer ${env:HUB_KEY}"}}
    assert b"s3cret-value" not in b"".join(tree(home).values()) + done.stdout.encode()


def test_a_project_file_is_written_in_the_working_folder(install: Run, tmp_path: Path) -> None:
    assert install("--client", "claude-code", "--scope", "project", "--name", "tools").returncode == 0
    assert list(json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]) == ["tools"]
    assert install("--client", "claude-code", "--scope", "project", "--name", "tools", "--uninstall").returncode == 0
    assert not (tmp_path / ".mcp.json").exists()


def test_a_program_of_the_user_is_registered_by_its_own_name(install: Run, home: Path, tmp_path: Path) -> None:
    (tmp_path / "my weather.py").write_text("from hubbub import Server\n\nserver = Server('weather')\n")
    assert install("my weather.py:server", "--client", "cursor").returncode == 0
    servers = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]
    assert servers["my-weather"]["args"] == [*SERVE, f"{tmp_path / 'my weather.py'}:server", *ALONE]
    assert install("my weather.py", "--client", "cursor", "--uninstall").returncode == 0
    assert tree(home) == {}


def test_servers_of_a_settings_file_do_not_join_a_registered_pack(hubbub: Run, install: Run, home: Path) -> None:
    settings = home / ".config" / "hubbub" / "hubbub.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[servers.games]\npack = 'tabletop'\n", encoding="utf-8")
    assert install("--client", "cursor", "--pack", "demo").returncode == 0
    arguments = entry(home)["args"]
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    done = hubbub(*arguments[arguments.index("serve") :], stdin=f"{request}\n", **_environment(home))
    assert {each["name"] for each in json.loads(done.stdout)["result"]["tools"]} == {"hello-world", "echo", "health"}


def test_a_secure_preset_names_its_variable(install: Run, home: Path) -> None:
    done = install("--client", "cursor", "--client", "claude-desktop", "--preset", "secure-core")
    assert "Set the variable VDON_MCP_JOIN_TOKEN_SECRET where the client starts" in done.stderr
    assert "Claude Desktop: entries cannot refer to environment variables; use --create-secret" in done.stderr
    assert entry(home)["env"] == {"VDON_MCP_JOIN_TOKEN_SECRET": "${env:VDON_MCP_JOIN_TOKEN_SECRET}"}
    flags = ["--tool-profile", "core", "--enforce-join-token", "true", "--require-session-mac", "true"]
    assert entry(home)["args"] == [*SERVE, "--pack", "peers", *flags, *ALONE]


def test_a_secret_is_created_once_in_a_private_file_that_the_server_reads(
    hubbub: Run, install: Run, home: Path
) -> None:
    arguments = ("--client", "claude-desktop", "--preset", "secure-full", "--create-secret", "file")
    assert "Secret created in the file" in install(*arguments).stdout
    registered = json.loads((home / ".config/Claude/claude_desktop_config.json").read_text())["mcpServers"]["hubbub"]
    ((variable, path),) = registered["env"].items()
    assert variable == "VDON_MCP_JOIN_TOKEN_SECRET_FILE"
    secret = Path(path)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    before = secret.read_text()
    assert len(before) > 40
    assert "Secret kept" in install(*arguments, "--name", "second").stdout
    assert secret.read_text() == before
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    serve = registered["args"][registered["args"].index("serve") :]
    assert "vdo_connect" in hubbub(*serve, stdin=json.dumps(request) + "\n", **registered["env"]).stdout
    assert before.strip() not in json.dumps(registered)


def test_shapes_and_links_are_printed(install: Run) -> None:
    codex = json.loads(install("--print", "codex", "--name", "vdo-ninja-mcp", "--preset", "core").stdout)
    assert list(codex) == ["name", "command", "args"]
    assert codex["args"] == [*SERVE, "--pack", "peers", "--tool-profile", "core", *ALONE]
    claude = json.loads(install("--print", "claude-code", "--pack", "demo").stdout)
    assert claude == {"mcpServers": {"hubbub": {"command": sys.executable, "args": [*SERVE, "--pack", "demo", *ALONE]}}}
    assert install("--print", "cursor-link").stdout.startswith(
        "cursor://anysphere.cursor-deeplink/mcp/install?name=hubbub&config="
    )


@pytest.mark.parametrize("form", ["codex", "claude-code", "cursor-link", "vscode-badge"])
def test_a_printed_secure_preset_names_its_variable(install: Run, form: str) -> None:
    done = install("--print", form, "--preset", "secure-core")
    assert done.returncode == 0
    assert done.stderr == "Set the variable VDON_MCP_JOIN_TOKEN_SECRET where the client starts; it is not set here.\n"


@pytest.mark.parametrize("arguments", [("--uninstall",), ("--preset", "secure-core", "--create-secret", "file")])
def test_printing_changes_nothing(install: Run, home: Path, arguments: tuple[str, ...]) -> None:
    (home / ".cursor").mkdir()
    assert install("--client", "cursor", "--pack", "demo").returncode == 0
    before = tree(home)
    done = install("--print", "codex", "--client", "cursor", *arguments)
    assert (done.returncode, done.stdout, tree(home)) == (2, "", before)
    assert done.stderr.startswith("hubbub: --print ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--client", "cursr"), ("unknown client 'cursr'", "did you mean 'cursor'?")),
        (("--preset", "secure"), ("unknown preset 'secure'", "did you mean 'secure-")),
        (("--pack", "dmeo"), ("unknown pack 'dmeo'", "did you mean 'demo'?")),
        (("--preset", "core", "--pack", "demo"), ("unknown preset 'core' in the pack demo",)),
        (("--name", "a b"), ("the name 'a b'",)),
        (("--name", "", "--uninstall"), ("the name ''",)),
        (("--scope", "project", "--client", "windsurf"), ("Windsurf has no configuration file for projects",)),
        (("--scope", "world"), ("'world' is not one of",)),
        (("--url", "hub.example"), ("`url` must start with https://",)),
        (("--url", "https://a:b@hub.example/mcp"), ("seems to contain a secret", "--key-env")),
        (("--url", "https://hub.example/ghp_abcdefghij0123456789abcdefghij012345/mcp"), ("seems to contain a secret",)),
        (("--url", "https://hub.example/mcp?api_key=1"), ("seems to contain a secret",)),
        (("--url", "https://hub.example/mcp", "--key-env", "sk-123"), ("the name of a variable",)),
        (("--url", "https://hub.example/mcp", "--key-env", "ghp_abcdefghij0123456789abcdefghij012345"),
         ("the name of a variable",)),
        (("--print", "codex", "--uninstall"), ("--print shows an entry and --uninstall removes one",)),
        (("--url", "https://hub.example/mcp", "--pack", "demo"), ("--url registers a running hub",)),
        (("--url", "https://hub.example/mcp", "--client", "claude-desktop"), ("does not support remote servers",)),
        (("--url", "https://hub.example/mcp", "--client", "zed", "--key-env", "K"), ("Zed cannot refer",)),
        (("gone.py", "--client", "cursor"), ("'gone.py' is not a file",)),
        (("a.py", "--pack", "demo"), ("TARGET cannot be combined",)),
        (("--key-env", "K"), ("use it together with --url",)),
        (("--create-secret", "file"), ("--create-secret is for presets",)),
        (("--use-cli", "--client", "cursor"), ("Cursor has no command to register servers",)),
        (("--use-cli", "--client", "vscode", "--uninstall"), ("`code` has no command that removes",)),
        (("--use-cli", "--client", "codex", "--scope", "project"), ("`codex` registers for the user only",)),
        (("--name", "-x"), ("the name '-x'",)),
        ((), ("no MCP client was found", "--client")),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_in_one_line(
    install: Run, home: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(install(*arguments), *words)
    assert tree(home) == {}


def test_a_path_that_cannot_be_reached_is_refused_in_one_line(hubbub: Run, home: Path) -> None:
    """A name that is too long fails for the administrator too, as a folder without permission does for others."""
    unreachable = {"CLAUDE_CONFIG_DIR": f"/{'a' * 300}"}
    (home / ".claude").mkdir()
    run = hubbub("install", "--yes", **_environment(home) | unreachable)
    assert_refused(run, ".claude.json cannot be read: File name too long")
    done = hubbub("doctor", "--json", **_environment(home) | unreachable)
    assert "cannot be read" in json.loads(done.stdout)["clients"][0]["detail"]


def test_an_update_is_called_one(install: Run, home: Path) -> None:
    assert "registered 'hubbub'" in install("--client", "cursor", "--pack", "demo").stdout
    assert "updated 'hubbub'" in install("--client", "cursor", "--preset", "core").stdout


def test_clients_that_cannot_have_the_entry_are_left_out(install: Run, home: Path) -> None:
    (home / ".config/Claude").mkdir(parents=True)
    done = install("--url", "https://hub.example/mcp", "--yes")
    assert done.returncode == 2
    left_out, failed = done.stderr.splitlines()
    assert left_out.startswith("Claude Desktop is left out: ")
    assert failed == "hubbub: none of the clients that were found can have this entry"


def test_one_broken_file_stops_everything_before_it_begins(install: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text('{\n  "theme": \n}')
    before = tree(home)
    assert_refused(install("--yes"), "settings.json: line 3, column 1: a value is missing here")
    assert_refused(install("--yes", "--uninstall"), "settings.json: line 3, column 1")
    assert tree(home) == before


def test_secrets_of_other_entries_are_not_shown(install: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    servers = {"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "sk-abcdefghijklmnopqrstuv"}}}}
    (home / ".cursor/mcp.json").write_text(json.dumps(servers))
    done = install("--yes")
    assert done.returncode == 0
    assert "abcdefghijklmnopqrstuv" not in done.stdout
    assert "abcdefghijklmnopqrstuv" in (home / ".cursor/mcp.json").read_text()


def test_doctor_says_what_is_registered_and_whether_it_starts(hubbub: Run, install: Run, home: Path) -> None:
    for folder in (".cursor", ".codex", ".codeium/windsurf", ".gemini", ".lmstudio"):
        (home / folder).mkdir(parents=True)
    assert install("--client", "cursor", "--pack", "demo").returncode == 0
    assert install("--client", "codex", "--preset", "secure-core").returncode == 0
    gone = {"mcpServers": {"hubbub": {"command": str(home / "gone"), "args": []}, "b": {"url": "https://x.example"}}}
    (home / ".gemini/settings.json").write_text(json.dumps(gone))
    (home / ".codeium/windsurf/mcp_config.json").write_text("{,}")
    (home / ".lmstudio/mcp.json").write_text('{"mcpServers": {"other": {"command": "never-started"}}}')
    found = json.loads(hubbub("doctor", "--json", **_environment(home)).stdout)["clients"]
    checks = {each["name"]: each for each in reversed(found)}
    assert checks["cursor"]["ok"]
    assert "hubbub: registered and starts (" in checks["cursor"]["detail"]
    assert "the variable VDON_MCP_JOIN_TOKEN_SECRET is not set" in checks["codex"]["detail"]
    assert "hubbub install --uninstall --client gemini`" in checks["gemini"]["advice"]
    assert not checks["gemini"]["ok"]
    assert "mcp_config.json: line 1, column 2: " in checks["windsurf"]["detail"]
    assert checks["lmstudio"]["detail"] == "hubbub is not registered (1 other server: other)"
    assert "clients\n" in hubbub("doctor", **_environment(home)).stdout


def test_doctor_starts_nothing_that_a_folder_registers(hubbub: Run, home: Path, tmp_path: Path) -> None:
    (home / ".claude").mkdir()
    hostile = {"hubbub": {"command": sys.executable, "args": ["-c", "open('ran', 'w')"]}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": hostile}))
    (check,) = json.loads(hubbub("doctor", "--json", **_environment(home)).stdout)["clients"]
    assert "not started" in check["detail"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the home of a Linux user")
def test_all_installations_of_a_client_are_registered_imported_checked_and_removed(
    hubbub: Run, install: Run, home: Path
) -> None:
    stable, insiders = (home / ".config" / name / "User" / "mcp.json" for name in ("Code", "Code - Insiders"))
    stable.parent.mkdir(parents=True)
    insiders.parent.mkdir(parents=True)
    stable.write_text('{"servers": {"a": {"command": "x"}}}')
    insiders.write_text('{"servers": {"b": {"command": "y"}}}')
    before = tree(home)
    imported = hubbub("import", "--dry-run", **_environment(home)).stdout
    assert "add      a: x (from VS Code)\nadd      b: y (from VS Code)\n" in imported
    checked = json.loads(hubbub("doctor", "--json", **_environment(home)).stdout)["clients"]
    assert [check["detail"] for check in checked] == [
        f"hubbub is not registered (1 other server: a) [{stable}]",
        f"hubbub is not registered (1 other server: b) [{insiders}]",
    ]
    assert install("--client", "vscode", "--pack", "demo").returncode == 0
    assert [list(json.loads(path.read_text())["servers"]) for path in (stable, insiders)] == [
        ["a", "hubbub"],
        ["b", "hubbub"],
    ]
    assert install("--uninstall", "--yes").returncode == 0
    assert {path: data for path, data in tree(home).items() if not path.endswith("-backup")} == before


@pytest.mark.skipif(sys.platform != "linux", reason="the home of a Linux user")
def test_installations_that_share_a_file_are_registered_once(install: Run, home: Path) -> None:
    (home / ".config/Code/User").mkdir(parents=True)
    (home / ".config/Code - Insiders").symlink_to("Code")
    done = install("--yes", "--pack", "demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("VS Code: registered") == 1


def test_a_project_file_is_planned_once_for_all_installations(install: Run, home: Path, tmp_path: Path) -> None:
    for name in ("Code", "Code - Insiders"):
        (home / ".config" / name / "User").mkdir(parents=True)
    done = install("--yes", "--scope", "project", "--pack", "demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("VS Code: registered") == 1
    assert list(json.loads((tmp_path / ".vscode/mcp.json").read_text())["servers"]) == ["hubbub"]
