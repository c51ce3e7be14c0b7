"""Commands of administration against a governed hub in another process, which is used by clients with keys."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, clean_environment

PROGRAM = '''
from hubbub import Server

server = Server("disk")
calls = 0

@server.tool
def wipe(name: str) -> str:
    """Wipe a disk."""
    global calls
    calls += 1
    return f"wiped {name}, call {calls}"
'''
SETTINGS = """
key_file = "keys.toml"
[servers.disk]
target = "disk.py"
[[tenants]]
name = "acme"
[[tenants]]
name = "beta"
[audit]
folder = "audit"
[approvals]
via = "queue"
[[policy.rules]]
effect = "confirm"
tools = ["wipe"]
reason = "It is gone then"
"""
PINS = '[pins]\nmode = "enforce"\n'


@pytest.fixture(autouse=True)
def _separate_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the hubs of other tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@contextmanager
def serve_hub(folder: Path, settings: str = SETTINGS) -> Iterator[str]:
    """Run the hub until the block ends; yield its URL."""
    (folder / "disk.py").write_text(PROGRAM)
    (folder / "hub.toml").write_text(settings)
    with subprocess.Popen(
        [sys.executable, "-m", "hubbub", "serve", "--config", "hub.toml", "--port", "0"],
        cwd=folder, env=clean_environment(), stderr=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"serves (http\S+)", line):
                    yield found[1]
                    break
            else:
                raise AssertionError("the hub did not start")
        finally:
            process.terminate()


def create_key(hubbub: Run, name: str, tenant: str, *more: str) -> str:
    done = hubbub("keys", "create", name, "--tenant", tenant, "--key-file", "keys.toml", *more)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def call(hubbub: Run, url: str, key: str, tool: str, **arguments: str) -> subprocess.CompletedProcess[str]:
    words = [f"{name}={value}" for name, value in arguments.items()]
    return hubbub("call", url, tool, *words, "--header-env", "X-API-Key=SOME_KEY", SOME_KEY=key)


def read_json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_call_that_needs_approval_runs_once_after_the_command_approved_it(hubbub: Run, tmp_path: Path) -> None:
    ada = create_key(hubbub, "ada", "acme")
    boss = create_key(hubbub, "boss", "acme", "--scope", "hub:admin")
    rival = create_key(hubbub, "rival", "beta", "--scope", "hub:admin")
    with serve_hub(tmp_path) as url:
        refused = call(hubbub, url, ada, "wipe", name="a")
        assert refused.returncode == 1
        assert "A person has to approve this call" in refused.stderr + refused.stdout
        other = read_json(hubbub("approvals", "list", "--json", "--url", url, "--key", "${K}", K=rival))
        assert other["approvals"] == []
        (waiting,) = read_json(hubbub("approvals", "list", "--json", "--url", url, "--key", "${K}", K=boss))[
            "approvals"
        ]
        assert (waiting["user"], waiting["tool"], waiting["reason"]) == ("ada", "wipe", "It is gone then")
        stolen = hubbub("approvals", "approve", waiting["id"], "--url", url, "--key", "${K}", K=rival)
        assert stolen.returncode == 1
        assert stolen.stderr == f"hubbub: No approval {waiting['id']!r} waits for a decision; list the pending ones\n"
        approved = hubbub("approvals", "approve", waiting["id"], "--url", url, "--key", "${K}", K=boss)
        assert (approved.returncode, approved.stdout) == (0, f"approved {waiting['id']}\n")
        done = call(hubbub, url, ada, "wipe", name="a")
        assert (done.returncode, "wiped a, call 1" in done.stdout) == (0, True)
        again = call(hubbub, url, ada, "wipe", name="a")
        assert "A person has to approve this call" in again.stderr + again.stdout
        # Through the socket, by the user who runs the hub.
        (waiting,) = read_json(hubbub("approvals", "list", "--json"))["approvals"]
        denied = hubbub("approvals", "deny", waiting["id"], "--reason", "not on a Friday")
        assert (denied.returncode, denied.stdout) == (0, f"denied {waiting['id']}\n")
        final = call(hubbub, url, ada, "wipe", name="a")
        assert "not on a Friday" in final.stderr + final.stdout
        assert hubbub("approvals", "list").stdout == "no calls are waiting\n"
        unknown = hubbub("approvals", "approve", "apr_nope")
        assert unknown.returncode == 1
        assert unknown.stderr == "hubbub: No approval 'apr_nope' waits for a decision; list the pending ones\n"
        confirmed = hubbub("audit", "search", "--folder", "audit", "--effect", "confirm", "--json").stdout
        assert len(confirmed.splitlines()) == 4  # it waits, runs, waits again, is denied
    assert hubbub("audit", "verify", "--folder", "audit").returncode == 0
    events = hubbub("audit", "search", "--folder", "audit", "--json", "--event", "approval.*").stdout.splitlines()
    assert [json.loads(line)["event"].removeprefix("approval.") for line in events] == [
        "requested",
        "approved",
        "used",
        "requested",
        "denied",
    ]


def test_definitions_are_shown_and_approved_by_the_commands(hubbub: Run, tmp_path: Path) -> None:
    ada = create_key(hubbub, "ada", "acme", "--scope", "hub:admin")
    with serve_hub(tmp_path, SETTINGS + PINS) as url:
        assert call(hubbub, url, ada, "wipe", name="a").returncode != 0
        listed = read_json(hubbub("pins", "list", "--json"))
        assert [(pin["name"], pin["status"]) for pin in listed["pins"]] == [("wipe", "new")]
        heading, *lines = hubbub("pins", "diff", "disk").stdout.splitlines()
        assert heading == "disk tool wipe: new"
        assert not [line for line in lines if "new" in line]
        refused = hubbub("pins", "approve", "disk", "--url", url, "--key", "${K}", K=ada)
        assert (refused.returncode, "only an operator's key can use it" in refused.stderr) == (2, True)
        done = hubbub("pins", "approve", "disk")
        assert (done.returncode, done.stdout, done.stderr) == (0, "approved disk tool wipe\n", "")
        again = hubbub("pins", "approve", "disk")
        assert (again.returncode, again.stdout, "nothing was approved" in again.stderr) == (1, "", True)
        answer = call(hubbub, url, ada, "wipe", name="a")
        assert "A person has to approve" in answer.stderr + answer.stdout  # it exists, and the policy decides
        found = hubbub("audit", "search", "--folder", "audit", "--json", "--event", "pin.approved").stdout
        assert json.loads(found)["tool"] == "wipe"


def test_an_operators_key_administers_every_tenant_over_http_and_uses_no_tool(hubbub: Run, tmp_path: Path) -> None:
    ada = create_key(hubbub, "ada", "acme")
    made = hubbub("keys", "create", "root", "--scope", "hub:admin", "--key-file", "keys.toml")
    assert made.returncode == 0, made.stderr
    root = made.stdout.strip()
    with serve_hub(tmp_path) as url:
        call(hubbub, url, ada, "wipe", name="a")
        (waiting,) = read_json(hubbub("approvals", "list", "--json", "--url", url, "--key", "${K}", K=root))[
            "approvals"
        ]
        assert waiting["user"] == "ada"
        assert read_json(hubbub("tools", url, "--json", "--header-env", "X-API-Key=K", K=root)) == {"tools": []}
        assert "has no tool 'wipe'" in call(hubbub, url, root, "wipe", name="a").stderr
        for more, problem in ((("--key", "wrong"), "does not accept this key"), ((), "requires a key")):
            refused = hubbub("sessions", "list", "--url", url, *more)
            advice = "give one with the scope hub:admin: --key '${NAME}' reads the variable NAME"
            assert (refused.returncode, refused.stderr) == (2, f"hubbub: {url} {problem}; {advice}\n")


def test_sessions_end_and_both_the_call_and_its_effect_are_recorded(hubbub: Run, tmp_path: Path) -> None:
    boss = create_key(hubbub, "boss", "acme", "--scope", "hub:admin")
    with serve_hub(tmp_path) as url:
        own = ("--url", url, "--key", "${K}")
        assert read_json(hubbub("sessions", "list", "--json", *own, K=boss))["servers"] == []
        foreign = hubbub("sessions", "logout", "--tenant", "beta", *own, K=boss)
        assert (foreign.returncode, "administers the tenant 'acme' only" in foreign.stderr) == (1, True)
        done = hubbub("sessions", "logout", "--user", "ada", *own, K=boss)
        assert done.stdout == "ended 0 sessions with servers and 0 sessions of clients\n"
    found = hubbub("audit", "search", "--folder", "audit", "--json", "--tenant", "acme").stdout.splitlines()
    records = [json.loads(line) for line in found]
    assert [record.get("outcome") for record in records if record["event"] == "call.end"] == ["ok", "tool_error", "ok"]
    (logout,) = [record for record in records if record["event"] == "session.logout"]
    assert logout["facts"]["of_user"] == "ada"
