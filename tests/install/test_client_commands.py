"""`hubbub install --use-cli` and `vdon-mcp-install` with the clients' real programs."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import clean_environment
from tests.install.client_programs import OFFLINE, ClientProgram, provide_program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are installed for Linux and macOS")
PROGRAM_NAMES = {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}
VDON_INSTALL = (sys.executable, "-c", "import sys; from hubbub.cli.vdon_install import main; sys.exit(main())")
HUBBUB = (sys.executable, "-m", "hubbub")
Provide = Callable[[str], ClientProgram]
Run = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / "bin").mkdir()
    return home


@pytest.fixture
def provide(home: Path) -> Provide:
    """Put a client's program on the PATH of that home."""

    def put(name: str) -> ClientProgram:
        program = provide_program(name, home)
        script = home / "bin" / PROGRAM_NAMES[name]
        script.write_text(f'#!/bin/sh\nexec {shlex.join(program.command)} "$@"\n')
        script.chmod(0o755)
        return program

    return put


@pytest.fixture
def run(home: Path) -> Run:
    """Run a command of ours in that home, and return what it writes."""

    def run_command(*command: str) -> str:
        folders = {f"XDG_{kind}_HOME": str(home / f".{kind.lower()}") for kind in ("CONFIG", "DATA", "STATE")}
        done = subprocess.run(
            command, cwd=home / "work",
            env=clean_environment() | OFFLINE | folders | {
                "HOME": str(home), "PATH": os.pathsep.join([str(home / "bin"), os.environ["PATH"]]),
                "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "",
            },
            stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_command


def trust_folder(program: ClientProgram) -> None:
    """Let Gemini CLI start servers in the folder of the test."""
    path = program.home / ".gemini" / "trustedFolders.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({str(program.folder): "TRUST_FOLDER"}), encoding="utf-8")


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_a_clients_own_command_registers_and_removes_hubbub(name: str, provide: Provide, run: Run) -> None:
    program = provide(name)
    if name == "gemini":
        trust_folder(program)
    install = (*HUBBUB, "install", "--use-cli", "--client", name, "--pack", "demo")
    run(*install)
    run(*install)
    listed = program.run("mcp", "list")
    shown = listed.stdout + listed.stderr
    assert shown.count("serve --pack demo --alone --transport stdio") == 1, shown
    if name != "codex":  # which does not start servers to list them
        assert "Connected" in shown
    run(*HUBBUB, "install", "--use-cli", "--client", name, "--uninstall")
    listed = program.run("mcp", "list")
    assert "serve --pack demo" not in listed.stdout + listed.stderr


def test_the_contracts_installer_registers_with_codex_and_claude(provide: Provide, run: Run) -> None:
    codex, claude = provide("codex"), provide("claude-code")
    run(*VDON_INSTALL, "--preset", "core")
    entry = json.loads(codex.run("mcp", "get", "vdo-ninja-mcp", "--json").stdout)["transport"]
    assert "--tool-profile core" in " ".join(entry["args"])
    shown = claude.run("mcp", "get", "vdo-ninja-mcp").stdout
    assert "Local config" in shown
    assert "Connected" in shown
    run(*VDON_INSTALL)
    entry = json.loads(codex.run("mcp", "get", "vdo-ninja-mcp", "--json").stdout)["transport"]
    assert "--tool-profile" not in entry["args"]
    run(*VDON_INSTALL, "--uninstall")
    assert codex.run("mcp", "get", "vdo-ninja-mcp").returncode != 0
    assert claude.run("mcp", "get", "vdo-ninja-mcp").returncode != 0
    run(*VDON_INSTALL, "--uninstall")
