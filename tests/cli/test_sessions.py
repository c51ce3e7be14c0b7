"""`hubbub sessions`, `approvals` and `pins`: administration of a hub that runs in another process."""

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
from tests.cli.conftest import clean_environment
from tests.processes import is_running

Run = Callable[..., subprocess.CompletedProcess[str]]
TIMEOUT_S = 60.0
NOTEBOOK = Path(__file__).parents[1] / "hub" / "notebook.py"


@pytest.fixture(autouse=True)
def _separate_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the hubs of other tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class RunningHub:
    """`hubbub serve` in another process."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.pid = process.pid
        self.url = url
        self.process = process


def write_config(folder: Path) -> Path:
    path = folder / "hub.toml"
    command, program = json.dumps(sys.executable), json.dumps(str(NOTEBOOK))
    path.write_text(f"[servers.notes]\ncommand = {command}\nargs = [{program}]\n")
    return path


@contextmanager
def serve_hub(folder: Path, *arguments: str) -> Iterator[RunningHub]:
    """Run a hub with the notebook server and the keys of the folder, until the block ends."""
    config = folder / "hub.toml"
    config.write_text(
        f"[servers.notes]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(NOTEBOOK))}]\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "hubbub", "serve", "--config", str(config), "--port", "0", *arguments],
        cwd=folder, env=clean_environment(), stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"serves (http\S+)", line)
            assert found is not None, line + process.stderr.read()
            wait_until(lambda: any(f'"pid":{process.pid},' in path.read_text() for path in state_files(folder)))
            yield RunningHub(process, found[1])
        finally:
            process.terminate()


def state_files(folder: Path) -> list[Path]:
    return list((folder / "state" / "hubbub" / "hubs").glob("*.json"))


def sockets(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["socket"] for path in state_files(folder)]


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def add_key(hubbub: Run, name: str, *scopes: str) -> str:
    arguments = [argument for scope in scopes for argument in ("--scope", scope)]
    done = hubbub("key", "add", name, "--key-file", "keys.toml", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def find_pid(hubbub: Run, hub: RunningHub, key: str) -> int:
    """The process that serves this key."""
    done = hubbub("call", hub.url, "pid", "--header-env", "X-API-Key=SOME_KEY", SOME_KEY=key)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.strip().strip('"'))


def list_sessions(hubbub: Run, *arguments: str, **environ: str) -> Any:
    done = hubbub("sessions", "list", "--json", *arguments, **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_a_hub_the_error_says_what_to_do(hubbub: Run) -> None:
    for command in (("sessions", "list"), ("approvals", "list"), ("pins", "list")):
        done = hubbub(*command)
        assert done.returncode == 2
        assert done.stderr == (
            "hubbub: no hub is running on this machine; start one with `hubbub serve`, or give --url and --key\n"
        )


def test_sessions_are_listed_and_ended_through_the_socket(hubbub: Run, tmp_path: Path) -> None:
    ada, bob = add_key(hubbub, "ada"), add_key(hubbub, "bob")
    with serve_hub(tmp_path, "--key-file", "keys.toml") as hub:
        assert hubbub("sessions", "list").stdout == "no sessions\n"
        pids = {"ada": find_pid(hubbub, hub, ada), "bob": find_pid(hubbub, hub, bob)}
        table = hubbub("sessions", "list").stdout
        assert table.startswith("SERVER")
        assert str(pids["ada"]) in table
        users = {session["pid"]: session["user"] for session in list_sessions(hubbub)["servers"]}
        assert set(users) == set(pids.values())
        assert sorted(users.values()) == ["ada", "bob"]
        wrong = hubbub("sessions", "logout", "--user", "eve")
        assert (wrong.returncode, wrong.stdout) == (1, "ended 0 sessions with servers and 0 sessions of clients\n")
        assert "no session, login or grant matches --user eve; users that have one: ada, bob\n" in wrong.stderr
        done = hubbub("sessions", "logout", "--user", "ada")
        assert (done.returncode, done.stdout) == (0, "ended 1 sessions with servers and 0 sessions of clients\n")
        assert not is_running(pids["ada"])
        assert is_running(pids["bob"])
        assert [session["pid"] for session in list_sessions(hubbub)["servers"]] == [pids["bob"]]
        assert list_sessions(hubbub, "--user", "ada")["servers"] == []
        assert hubbub("sessions", "logout", "--server", "notes").returncode == 0
        assert not is_running(pids["bob"])


def test_sessions_are_listed_at_a_url_with_a_key(hubbub: Run, tmp_path: Path) -> None:
    root, ada = add_key(hubbub, "root", "hub:admin"), add_key(hubbub, "ada")
    with serve_hub(tmp_path, "--key-file", "keys.toml") as hub:
        pid = find_pid(hubbub, hub, ada)
        base = hub.url.removesuffix("/mcp")
        for url in (base, hub.url, f"{hub.url}/admin"):
            found = list_sessions(hubbub, "--url", url, "--key", "${ROOT_KEY}", ROOT_KEY=root)
            assert [session["pid"] for session in found["servers"]] == [pid]
        refused = hubbub("sessions", "list", "--url", base, "--key", ada)
        assert refused.returncode == 2
        assert "does not serve administration to this key" in refused.stderr
        assert ada not in refused.stderr
        unset = hubbub("sessions", "list", "--url", base, "--key", "${NO_SUCH}")
        assert (unset.returncode, unset.stderr) == (2, "hubbub: --key: the variable NO_SUCH is not set\n")


def test_one_of_several_hubs_is_chosen(hubbub: Run, tmp_path: Path) -> None:
    with serve_hub(tmp_path) as one, serve_hub(tmp_path) as two:
        several = hubbub("sessions", "list")
        assert several.returncode == 2
        assert "choose one with --hub" in several.stderr
        assert str(one.pid) in several.stderr
        assert str(two.pid) in several.stderr
        assert hubbub("sessions", "list", "--hub", str(two.pid)).returncode == 0
        unknown = hubbub("sessions", "list", "--hub", "1")
        assert "no hub '1' is running on this machine" in unknown.stderr


def test_the_socket_is_removed_with_the_hub_and_a_killed_hub_is_not_found(hubbub: Run, tmp_path: Path) -> None:
    with serve_hub(tmp_path) as hub:
        (path,) = sockets(tmp_path)
        assert Path(path).is_socket()
        hub.process.terminate()
        hub.process.wait()
        assert not Path(path).exists()
    with serve_hub(tmp_path) as hub:
        os.kill(hub.pid, signal.SIGKILL)
        hub.process.wait()
        assert "no hub is running" in hubbub("sessions", "list").stderr


def test_a_hub_on_stdio_has_no_socket(hubbub: Run, tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text(
        f"[servers.notes]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(NOTEBOOK))}]\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "hubbub", "serve", "--config", str(config), "--transport", "stdio"],
        cwd=tmp_path, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        wait_until(lambda: any(path.stat().st_size for path in state_files(tmp_path)))
        assert sockets(tmp_path) == [None]
        assert "no hub is running" in hubbub("sessions", "list").stderr
        process.terminate()


@pytest.mark.parametrize(
    "command", [("approvals", "list"), ("approvals", "deny", "x"), ("pins", "list"), ("pins", "approve", "notes")]
)
def test_a_part_that_is_switched_off_is_named(hubbub: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    with serve_hub(tmp_path):
        done = hubbub(*command)
        assert done.returncode == 2
        assert f"this hub has no hub.{command[0]}.{command[1]}: the part is not switched on" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("logout",), "give --tenant, --user or --server"),
        (("list", "--url", "http://127.0.0.1:1", "--hub", "1"), "give either --hub or --url"),
        (("list", "--key", "k"), "--key is for --url"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(hubbub: Run, arguments: tuple[str, ...], problem: str) -> None:
    done = hubbub("sessions", *arguments)
    assert (done.returncode, problem in done.stderr) == (2, True)
