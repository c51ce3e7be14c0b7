"""`hubbub plan`: compares files with the running hub."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import clean_environment, trust

Run = Callable[..., subprocess.CompletedProcess[str]]
TIMEOUT_S = 60.0
NOT_FOLLOWING = "[hub]\nreload = false\n"
SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture(autouse=True)
def _separate_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the hubs of other tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@contextmanager
def hub(folder: Path, *arguments: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Run `hubbub serve` in a folder, on a free port, until its state file exists."""
    with subprocess.Popen(
        [sys.executable, "-m", "hubbub", "serve", "--port", "0", *arguments],
        cwd=folder, env=clean_environment() | environ, stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert re.search(r"serves (http\S+)", line), line + process.stderr.read()
            wait_until(lambda: state_files(folder))
            yield process
        finally:
            process.terminate()


def state_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "state" / "hubbub" / "hubs").glob("*.json") if path.stat().st_size]


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def write(folder: Path, text: str, name: str = "hubbub.toml") -> Path:
    path = folder / name
    path.write_text(text)
    if name == "hubbub.toml":
        trust(folder)
    return path


def test_without_a_hub_everything_is_new(hubbub: Run, tmp_path: Path) -> None:
    write(tmp_path, '[servers.files]\ncommand = "serve-files"\nargs = ["--all"]\n[views.reader]\nread_only = true\n')
    done = hubbub("plan")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "No hub runs with hubbub.toml; a new one would have:",
        "  + server files  serve-files --all",
        "  + view reader",
    ]


def test_plan_without_files_is_wrong_usage(hubbub: Run) -> None:
    done = hubbub("plan")
    assert done.returncode == 2
    assert "hubbub.toml not found in this folder" in done.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_a_broken_file_is_a_failure_that_says_where(hubbub: Run, tmp_path: Path, as_json: bool) -> None:
    write(tmp_path, '[servers.files]\ncomand = "serve-files"\n')
    done = hubbub("plan", *(["--json"] if as_json else []))
    assert done.returncode == 1
    output = json.loads(done.stdout)["problem"] if as_json else done.stderr
    assert "hubbub.toml line 2: servers.files.comand is not a setting; did you mean 'command'?" in output


def test_a_hub_that_matches_its_file_has_no_changes(hubbub: Run, tmp_path: Path) -> None:
    write(tmp_path, '[servers.files]\ncommand = "serve-files"\n')
    with hub(tmp_path) as process:
        done = hubbub("plan", "--exit-code")
        assert done.returncode == 0, done.stdout
        assert done.stdout.startswith("Nothing would change")
        assert str(process.pid) in done.stdout


def test_differences_are_listed(hubbub: Run, tmp_path: Path) -> None:
    files = '[servers.files]\ncommand = "serve-files"\n'
    write(
        tmp_path, NOT_FOLLOWING + files + f'env = {{TOKEN = "{SECRET}"}}\n[servers.old]\nurl = "http://localhost:1"\n'
    )
    with hub(tmp_path, "--pack", "demo"):
        write(
            tmp_path,
            f'max_sessions = 7\n{NOT_FOLLOWING}{files}prefix = "always"\nenv = {{TOKEN = "{SECRET}-2"}}\n'
            '[servers.new]\ncommand = "serve-news"\n[views.reader]\n',
        )
        done = hubbub("plan", "--exit-code")
        assert done.returncode == 3
        lines = done.stdout.splitlines()
        assert re.fullmatch(r"The hub at 127\.0\.0\.1:0 \(process \d+\) would change:", lines[0])
        assert lines[1:] == [
            "  - server old  http://localhost:1",
            "  ~ server files  serve-files  (reconnects)",
            "      env.TOKEN: differs (secret)",
            "      prefix: collision -> always",
            "  + server new  serve-news",
            "  + view reader",
            "after a restart only:",
            "    max_sessions: 10000 -> 7",
        ]
        output = json.loads(hubbub("plan", "--json").stdout)
        assert [(step["action"], step["part"], step["name"]) for step in output["steps"]] == [
            ("remove", "server", "old"),
            ("change", "server", "files"),
            ("add", "server", "new"),
            ("add", "view", "reader"),
        ]
        assert [field["key"] for field in output["restart"]] == ["max_sessions"]
        (state,) = state_files(tmp_path)
        assert SECRET not in done.stdout + json.dumps(output) + state.read_text()
        assert state.stat().st_mode & 0o777 == 0o600


def test_flags_and_variables_are_those_of_the_hub_and_not_of_the_shell(hubbub: Run, tmp_path: Path) -> None:
    write(tmp_path, NOT_FOLLOWING + '[servers.files]\ncommand = "serve-files"\n')
    with hub(tmp_path, "--max-streams", "9", HUBBUB_MAX_SESSIONS="8"):
        assert hubbub("plan", HUBBUB_MAX_SESSIONS="9").stdout.startswith("Nothing would change")


def test_a_new_version_can_be_tried_in_another_file(hubbub: Run, tmp_path: Path) -> None:
    write(tmp_path, '[servers.files]\ncommand = "serve-files"\n')
    new = write(tmp_path, '[servers.mail]\ncommand = "serve-mail"\n', "new.toml")
    with hub(tmp_path):
        done = hubbub("plan", new.name)
        assert done.stdout.splitlines()[1:] == ["  - server files  serve-files", "  + server mail  serve-mail"]
        assert hubbub("plan").stdout.startswith("Nothing would change")


def test_a_hub_of_an_mcp_json_is_found_by_that_file_or_as_the_only_hub(hubbub: Run, tmp_path: Path) -> None:
    def servers(command: str) -> str:
        return json.dumps({"mcpServers": {"files": {"command": command}}})

    mcp_json = write(tmp_path, servers("serve-files"), "mcp.json")
    new = write(tmp_path, servers("serve-more"), "new.json")
    with hub(tmp_path, "--mcp-json", mcp_json.name):
        for arguments in (["--mcp-json", mcp_json.name], []):
            assert hubbub("plan", *arguments).stdout.startswith("Nothing would change")
        lines = hubbub("plan", new.name).stdout.splitlines()
        assert lines[1:] == [
            "  ~ server files  serve-more  (reconnects)",
            "      command: serve-files -> serve-more",
        ]


def test_after_sighup_the_hub_matches_its_file(hubbub: Run, tmp_path: Path) -> None:
    write(tmp_path, NOT_FOLLOWING + '[servers.files]\ncommand = "serve-files"\n')
    with hub(tmp_path) as process:
        write(tmp_path, NOT_FOLLOWING + '[servers.mail]\ncommand = "serve-mail"\n')
        assert hubbub("plan", "--exit-code").returncode == 3
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: hubbub("plan", "--exit-code").returncode == 0)
        (tmp_path / "hubbub.toml").write_text("port = [")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: b"not valid TOML" in state_files(tmp_path)[0].read_bytes())
        assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_hub_that_ended_or_was_killed_is_not_found(hubbub: Run, tmp_path: Path, number: signal.Signals) -> None:
    write(tmp_path, '[servers.files]\ncommand = "serve-files"\n')
    with hub(tmp_path) as process:
        process.send_signal(number)
        process.wait()
    assert len(state_files(tmp_path)) == (1 if number == signal.SIGKILL else 0)
    assert hubbub("plan").stdout.startswith("No hub runs")
    assert state_files(tmp_path) == []


def test_a_hub_starts_without_a_writable_state_folder(hubbub: Run, tmp_path: Path) -> None:
    write(tmp_path, '[servers.files]\ncommand = "serve-files"\n')
    (tmp_path / "state").write_text("a file, not a folder")
    done = subprocess.run(
        [sys.executable, "-m", "hubbub", "serve", "--transport", "stdio"],
        input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        cwd=tmp_path, env=clean_environment() | {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]},
        capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["id"] == 1
    assert "state_not_written" in done.stderr
    assert hubbub("plan").stdout.startswith("No hub runs")


def test_the_help_explains_reload_symbols_and_exit_codes(hubbub: Run) -> None:
    output = " ".join(hubbub("plan", "--help").stdout.split())
    for word in ("SIGHUP", "reload = false", "+ added", "secrets", "Exits with 1", "NEW"):
        assert word in output
