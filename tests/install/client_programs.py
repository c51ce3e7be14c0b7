"""Programs of others that are installed when the first test needs them, because they are large: clients, and mcpb.

Exact versions are in tests/judges/clients; they go into `.cache/clients`. A test whose program cannot be installed here
is skipped.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "tests" / "judges" / "clients"
INSTALLED = ROOT / ".cache" / "clients"
INSTALL_TIMEOUT_S = 280
RUN_TIMEOUT_S = 120

# The program of each, below node_modules; the first that exists is the one for this system.
PROGRAMS = {
    "claude-code": "@anthropic-ai/claude-code-*/claude",
    "codex": "@openai/codex-*/vendor/*/bin/codex",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
    "mcpb": "@anthropic-ai/mcpb/dist/cli/cli.js",
    "opencode": "opencode-*/bin/opencode",
}

# No telemetry, no updates, no downloads; anything that is tried nevertheless ends at a closed port.
OFFLINE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "DO_NOT_TRACK": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}


class ClientProgram:
    """An installed program, run with a home of its own and without a network."""

    def __init__(self, command: list[str], home: Path) -> None:
        self.command = command
        self.home = home
        self.folder = home / "work"
        """Where it runs."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end. Variables of the tests, such as those of a session of the client itself, are left out."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ}
        return subprocess.run(
            [*self.command, *arguments],
            env={**kept, "HOME": str(self.home), "NO_COLOR": "1", **OFFLINE, **environ},
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip


def provide_program(name: str, home: Path) -> ClientProgram:
    """Return the program, installed if it is not; skip the test if it cannot be."""
    found = sorted((_install(name) / "node_modules").glob(PROGRAMS[name]))
    if not found:
        pytest.skip(f"{name} is not published for this system")
    program = str(found[0])
    return ClientProgram([_find_node(), program] if program.endswith(".js") else [program], home)


def _find_node() -> str:
    local = ROOT / ".node" / "bin" / "node"
    found = str(local) if local.exists() else shutil.which("node")
    return found or pytest.skip("no Node.js here")


def _install(name: str) -> Path:
    folder, lock = INSTALLED / name, (LOCKS / name / "package-lock.json").read_text(encoding="utf-8")
    stamp = folder / ".ready"
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / f"{name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # other workers of pytest wait for the one that installs it
        if stamp.exists() and stamp.read_text(encoding="utf-8") == lock:
            return folder
        if shutil.which("npm") is None:
            pytest.skip(f"no npm here to install {name} with")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in ("package.json", "package-lock.json"):
            shutil.copy(LOCKS / name / file, folder)
        command = [
            "npm",
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel=error",
        ]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, encoding="utf-8", timeout=INSTALL_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"{name} cannot be installed here: {done.stderr.strip()[-300:]}")
        stamp.write_text(lock, encoding="utf-8")
    return folder
