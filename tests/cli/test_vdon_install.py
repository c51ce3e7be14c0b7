"""`vdon-mcp-install` with the contract's examples, and `hubbub install --use-cli`: clients' programs are scripts here.

Each script keeps its entries as files and logs how it was called, as `codex` and `claude` would be.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import clean_environment

Run = Callable[..., subprocess.CompletedProcess[str]]
SCRIPT = """#!{python}
import json, sys
from pathlib import Path

here, arguments = Path(__file__).parent, sys.argv[1:]
with open(here / "calls", "a") as log:
    log.write(json.dumps([Path(__file__).name, *arguments]) + "\\n")
names = [word for word in arguments if word in ("hubbub", "vdo-ninja-mcp")]
entry = here / (Path(__file__).name + "." + (names or ["none"])[0] + ".entry")
if arguments[:2] in (["mcp", "get"], ["mcp", "remove"]):
    if not entry.exists():
        sys.exit("No such server")
    print("entry", entry.read_text())
    if arguments[1] == "remove":
        entry.unlink()
elif arguments[1:2] and arguments[1].startswith("add"):
    if entry.exists() and "gemini" not in entry.name:
        sys.exit("already exists")
    entry.write_text("registered")
"""
FULL = [sys.executable, "-P", "-m", "hubbub", "serve", "--pack", "peers"]
STDIO = ["--alone", "--transport", "stdio"]
SECURE = ["--enforce-join-token", "true", "--require-session-mac", "true"]


class Programs:
    """A PATH with these programs only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, *names: str) -> None:
        for name in names:
            path = self.folder / name
            path.write_text(SCRIPT.format(python=sys.executable))
            path.chmod(0o755)

    def calls(self, *names: str) -> list[list[str]]:
        """Calls that change something, of these programs."""
        log = self.folder / "calls"
        found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [call for call in found if call[0] in names and call[2:3] not in ([], ["get"])]


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")


@pytest.fixture
def vdon(programs: Programs, tmp_path: Path) -> Run:
    """`vdon(*arguments, **environment)` runs the console script."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from hubbub.cli.vdon_install import main; raise SystemExit(main())", *arguments],
            cwd=tmp_path, env=clean_environment() | {"PATH": str(programs.folder)} | environ,
            capture_output=True, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip

    return run


def test_both_clients_are_registered_and_removed(vdon: Run, programs: Programs) -> None:
    programs.add("codex", "claude")
    done = vdon()
    assert done.returncode == 0, done.stderr
    assert "entry registered" in done.stdout
    assert programs.calls("codex", "claude") == [
        ["codex", "mcp", "add", "vdo-ninja-mcp", "--", *FULL, *STDIO],
        ["claude", "mcp", "add", "-s", "local", "vdo-ninja-mcp", "--", *FULL, *STDIO],
    ]
    assert vdon("--uninstall").returncode == 0
    assert programs.calls("codex", "claude")[2:] == [
        ["codex", "mcp", "remove", "vdo-ninja-mcp"],
        ["claude", "mcp", "remove", "-s", "local", "vdo-ninja-mcp"],
    ]
    assert "nothing to remove" in vdon("--uninstall").stdout


def test_an_entry_is_replaced(vdon: Run, programs: Programs) -> None:
    programs.add("codex")
    assert vdon("--codex-only").returncode == 0
    assert vdon("--codex-only", "--preset", "state").returncode == 0
    assert [call[2] for call in programs.calls("codex")] == ["add", "remove", "add"]


@pytest.mark.parametrize(
    ("preset", "arguments"),
    [
        ("core", ["--tool-profile", "core"]),
        ("file", ["--tool-profile", "file"]),
        ("state", ["--tool-profile", "state"]),
        ("full", []),
        ("secure-core", ["--tool-profile", "core", *SECURE]),
        ("secure-full", ["--tool-profile", "full", *SECURE]),
    ],
)
def test_presets_have_the_arguments_of_the_contract(
    vdon: Run, programs: Programs, preset: str, arguments: list[str]
) -> None:
    programs.add("claude")
    done = vdon(
        "--claude-only", "--preset", preset, "--server-arg", "--x", "--server-arg", "1", "--claude-scope", "user"
    )
    command = [*FULL, *arguments, "--x", "1", *STDIO]
    assert programs.calls("claude") == [["claude", "mcp", "add", "-s", "user", "vdo-ninja-mcp", "--", *command]]
    assert ("VDON_MCP_JOIN_TOKEN_SECRET" in done.stderr) == preset.startswith("secure")
    done = vdon("--claude-only", "--preset", preset, VDON_MCP_JOIN_TOKEN_SECRET="sek")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dry_run_prints_the_commands(vdon: Run, programs: Programs) -> None:
    programs.add("codex")
    done = vdon("--codex-only", "--dry-run", "--name", "n", "--server-script", "s.js", "--node-cmd", "/usr/bin/node")
    assert done.stdout == "[dry-run] codex mcp add n -- /usr/bin/node s.js\n"
    assert programs.calls("codex") == []


def test_missing_programs_are_skipped(vdon: Run, programs: Programs) -> None:
    done = vdon()
    assert done.returncode == 1
    assert "codex was not found and is skipped" in done.stderr
    assert vdon("--uninstall").returncode == 0
    programs.add("claude")
    assert vdon().returncode == 0
    assert vdon("--codex-only").returncode == 1


@pytest.mark.parametrize(
    "arguments", [["--preset", "none"], ["--claude-scope", "world"], ["--what"], ["--codex-only", "--claude-only"]]
)
def test_wrong_arguments_are_a_failure(vdon: Run, programs: Programs, arguments: list[str]) -> None:
    programs.add("codex", "claude")
    done = vdon(*arguments)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert programs.calls("codex", "claude") == []


def test_an_entry_of_another_scope_does_not_stop_the_installer(vdon: Run, hubbub: Run, programs: Programs) -> None:
    """`claude mcp get` finds entries of all scopes, `remove` only those of one."""
    programs.add("claude")
    path = programs.folder / "claude"
    fails = 'if arguments[:2] == ["mcp", "remove"]:\n    sys.exit("not in this scope")\n'
    path.write_text(
        path.read_text().replace("names = ", f"{fails}if arguments[:2] == ['mcp', 'get']:\n    sys.exit()\nnames = ")
    )
    assert vdon().returncode == 0
    assert [call[2] for call in programs.calls("claude")] == ["remove", "add"]
    done = hubbub("install", "--use-cli", "--client", "claude-code", PATH=str(programs.folder))
    assert done.returncode == 0, done.stderr


def test_help_shows_the_flags_of_the_original(vdon: Run) -> None:
    done = vdon("-h")
    flags = (
        "--uninstall --name --server-script --node-cmd --preset --server-arg --codex-only --claude-only --claude-scope"
    )
    assert done.returncode == 0
    assert all(flag in done.stdout for flag in (*flags.split(), "--dry-run", "vdo-ninja-mcp"))


def test_hubbub_install_calls_the_programs_of_clients(hubbub: Run, programs: Programs, tmp_path: Path) -> None:
    programs.add("claude", "codex", "gemini", "code")
    environ = {"PATH": str(programs.folder), "HOME": str(tmp_path / "home")}
    names = ("claude-code", "codex", "gemini", "vscode")
    chosen = [word for name in names for word in ("--client", name)]
    done = hubbub("install", "--use-cli", "--pack", "demo", *chosen, **environ)
    assert done.returncode == 0, done.stderr
    serve = ["-P", "-m", "hubbub", "serve", "--pack", "demo", *STDIO]
    claude, codex, gemini = programs.calls("claude", "codex", "gemini")
    (code,) = [json.loads(line) for line in (programs.folder / "calls").read_text().splitlines() if "--add-mcp" in line]
    entry = {"type": "stdio", "command": sys.executable, "args": serve}
    assert (claude[:-1], json.loads(claude[-1])) == (["claude", "mcp", "add-json", "--scope", "user", "hubbub"], entry)
    assert codex == ["codex", "mcp", "add", "hubbub", "--", sys.executable, *serve]
    assert gemini == ["gemini", "mcp", "add", "-s", "user", "hubbub", sys.executable, "--", *serve]
    assert (code[:2], json.loads(code[2])) == (["code", "--add-mcp"], {"name": "hubbub", **entry})
    hubbub("install", "--use-cli", "--url", "https://h.example/mcp", "--key-env", "K", *chosen[2:6], **environ)
    assert programs.calls("codex")[-2:] == [
        ["codex", "mcp", "remove", "hubbub"],
        ["codex", "mcp", "add", "hubbub", "--url", "https://h.example/mcp", "--bearer-token-env-var", "K"],
    ]
    header = ["-H", "Authorization: Bearer ${K}"]
    assert programs.calls("gemini")[-1] == [
        "gemini", "mcp", "add", "-s", "user", "-t", "http", *header, "hubbub", "https://h.example/mcp"
    ]  # fmt: skip
    done = hubbub("install", "--use-cli", "--uninstall", *chosen[:6], **environ)
    assert done.returncode == 0, done.stderr
    assert not list(programs.folder.glob("*.hubbub.entry"))
    done = hubbub("install", "--use-cli", "--uninstall", *chosen[:4], **environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("nothing is registered with this name") == 2
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("client", "program", "path", "text"),
    [
        ("claude-code", "claude", ".claude.json", '{"mcpServers": {"hubbub": {"command": "mine"}}}'),
        ("codex", "codex", ".codex/config.toml", '[mcp_servers.hubbub]\ncommand = "mine"\n'),
        ("gemini", "gemini", ".gemini/settings.json", '{"mcpServers": {"hubbub": {"command": "mine"}}}'),
        ("vscode", "code", ".config/Code/User/mcp.json", '{"servers": {"hubbub": {"command": "mine"}}}'),
    ],
)
def test_the_programs_of_clients_do_not_replace_entries_of_others(
    client: str, program: str, path: str, text: str, hubbub: Run, programs: Programs, tmp_path: Path
) -> None:
    programs.add(program)
    file = tmp_path / "home" / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    environ = {"PATH": str(programs.folder), "HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": ""}
    for arguments in ((), ("--uninstall",))[: 1 if client == "vscode" else 2]:
        done = hubbub("install", "--use-cli", "--client", client, *arguments, **environ)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert f"{file}: the entry 'hubbub' there is not one of `hubbub install`" in done.stderr
    assert not (programs.folder / "calls").exists()


def test_what_the_program_of_a_client_wrote_can_be_updated_and_removed(
    hubbub: Run, programs: Programs, tmp_path: Path
) -> None:
    """Nothing in the entry of a URL shows that it is ours."""
    file = tmp_path / "home" / ".claude.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {}}')
    path = programs.folder / "claude"
    path.write_text(f"""#!{sys.executable}
import json, sys
from pathlib import Path

file = Path({str(file)!r})
values = json.loads(file.read_text())
match sys.argv[2:]:
    case ["get", name]:
        sys.exit(name not in values["mcpServers"])
    case ["add-json", _, _, name, entry]:
        values["mcpServers"][name] = json.loads(entry)
    case ["remove", _, _, name]:
        del values["mcpServers"][name]
file.write_text(json.dumps(values))
""")
    path.chmod(0o755)
    environ = {"PATH": str(programs.folder), "HOME": str(tmp_path / "home")}
    arguments = ("install", "--use-cli", "--client", "claude-code", "--name", "remote")
    for url in ("https://a.example/mcp", "https://b.example/mcp"):
        done = hubbub(*arguments, "--url", url, **environ)
        assert done.returncode == 0, done.stderr
        assert json.loads(file.read_text())["mcpServers"]["remote"]["url"] == url
    done = hubbub(*arguments, "--uninstall", **environ)
    assert (done.returncode, json.loads(file.read_text())) == (0, {"mcpServers": {}}), done.stderr


def test_programs_that_are_missing_are_left_out(hubbub: Run, programs: Programs, tmp_path: Path) -> None:
    programs.add("claude")
    for folder in (".claude", ".codex", ".config/Code/User"):
        (tmp_path / "home" / folder).mkdir(parents=True)
    environ = {"PATH": str(programs.folder), "HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": ""}
    done = hubbub("install", "--use-cli", "--yes", **environ)
    assert (done.returncode, len(programs.calls("claude"))) == (0, 1)
    assert "Codex is left out: 'codex' is not on the PATH" in done.stderr
    done = hubbub("install", "--use-cli", "--uninstall", "--yes", **environ)
    assert (done.returncode, len(programs.calls("claude"))) == (0, 2)
    assert "VS Code is left out: `code` has no command that removes a server" in done.stderr


def test_a_failing_program_is_reported_in_one_line(hubbub: Run, programs: Programs, tmp_path: Path) -> None:
    missing = hubbub("install", "--use-cli", "--client", "codex", PATH=str(programs.folder))
    assert (missing.returncode, len(missing.stderr.splitlines())) == (2, 1)
    assert "'codex' is not on the PATH" in missing.stderr
    path = programs.folder / "codex"
    path.write_text("#!/bin/sh\necho 'config is broken' >&2\nexit 3\n")
    path.chmod(0o755)
    failed = hubbub("install", "--use-cli", "--client", "codex", PATH=str(programs.folder))
    assert failed.returncode == 2
    assert failed.stderr == "hubbub: `codex mcp add` failed with exit code 3: config is broken\n"
