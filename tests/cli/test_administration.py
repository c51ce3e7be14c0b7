"""Commands of administration against a governed hub in another process, which is used by clients with keys."""

import asyncio
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
from tests.governance.journals import open_journal

from hubbub.admin.audit import MAX_READ_BYTES
from hubbub.governance.audit_events import AuditEvent, Fact
from hubbub.hub.state_file import running_hubs

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


def use_key(hubbub: Run, url: str, key: str) -> None:
    """Wait until the hub, which reads its key file each second, accepts a key."""
    while "unknown, expired or revoked" in (answer := call(hubbub, url, key, "wipe", name="a").stderr):
        pass
    assert "A person has to approve" in answer


def choose_hub() -> tuple[str, str]:
    """Options for the only running hub."""
    (hub,) = running_hubs()
    return "--hub", str(hub.pid)


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
        digest = listed["pins"][0]["sha256"]
        assert heading == f"disk tool wipe: new, sha256 {digest}"
        assert not [line for line in lines if "new" in line]
        refused = hubbub("pins", "approve", "disk", "--url", url, "--key", "${K}", K=ada)
        assert (refused.returncode, "only an operator's key can use it" in refused.stderr) == (2, True)
        other = hubbub("pins", "approve", "disk", "wipe", "--sha256", "0" * 64)
        assert (other.returncode, other.stdout, "not approved: disk tool wipe" in other.stderr) == (1, "", True)
        done = hubbub("pins", "approve", "disk", "wipe", "--sha256", digest)
        assert (done.returncode, done.stdout, done.stderr) == (0, "approved disk tool wipe\n", "")
        again = hubbub("pins", "approve", "disk")
        assert (again.returncode, again.stdout, "nothing was approved" in again.stderr) == (1, "", True)
        answer = call(hubbub, url, ada, "wipe", name="a")
        assert "A person has to approve" in answer.stderr + answer.stdout  # it exists, and the policy decides
        found = hubbub("audit", "search", "--folder", "audit", "--json", "--event", "pin.approved").stdout
        assert json.loads(found)["tool"] == "wipe"
        revoked = hubbub("pins", "revoke", "disk", "wipe", "--kind", "tool")
        assert (revoked.returncode, revoked.stdout, revoked.stderr) == (0, "revoked disk tool wipe\n", "")
        assert "A person has to approve" not in call(hubbub, url, ada, "wipe", name="a").stderr
        again = hubbub("pins", "revoke", "disk", "wipe")
        assert (again.returncode, "nothing was revoked" in again.stderr) == (1, True)


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


def test_keys_of_the_running_hub_are_created_listed_rotated_and_revoked(hubbub: Run, tmp_path: Path) -> None:
    root = hubbub("keys", "create", "root", "--scope", "hub:admin", "--key-file", "keys.toml").stdout.strip()
    boss = create_key(hubbub, "boss", "acme", "--scope", "hub:admin")
    with serve_hub(tmp_path) as url:
        # Found by its settings file, through the Unix socket.
        made = hubbub("keys", "create", "ada", "--tenant", "acme", "--days", "9", HUBBUB_CONFIG="hub.toml")
        assert re.fullmatch(r"hubbub: the hub \d+ stored the hash of a key for ada; [^\n]*\n", made.stderr), made.stderr
        use_key(hubbub, url, made.stdout.strip())
        # By a URL, with the key of an operator.
        own = ("--url", url, "--key", "${K}")
        listed = read_json(hubbub("keys", "list", "--json", *own, K=root))
        assert listed == read_json(hubbub("keys", "list", "--json", "--key-file", "keys.toml"))
        assert [key["name"] for key in listed] == ["root", "boss", "ada"]
        seen = hubbub("keys", "list", *own, K=boss).stdout.splitlines()  # an administrator of a tenant
        assert [line.split()[0] for line in seen] == ["NAME", "boss", "ada"]
        refused = hubbub("keys", "revoke", "ada", *own, K=boss)
        assert (refused.returncode, "only an operator's key can use it" in refused.stderr) == (2, True)
        rotated = hubbub("keys", "rotate", "ada", "--overlap", "1h", *own, K=root)
        assert f"the hub {url} stored version 2 of the key for ada; the previous one stays valid" in rotated.stderr
        for key in (made.stdout, rotated.stdout):
            use_key(hubbub, url, key.strip())
        # By its process id.
        local = choose_hub()
        revoked = hubbub("keys", "revoke", "ada", *local)
        assert (revoked.returncode, revoked.stdout, "removed the key for ada" in revoked.stderr) == (0, "", True)
        while "unknown, expired or revoked" not in call(hubbub, url, rotated.stdout.strip(), "wipe", name="a").stderr:
            pass  # the hub reads its key file each second
        unknown = hubbub("keys", "revoke", "ada", *local)
        assert (unknown.returncode, "has no key named 'ada'" in unknown.stderr) == (1, True), unknown.stderr
        # A hub with other settings is not meant.
        (tmp_path / "other.toml").write_text('key_file = "other-keys.toml"\n')
        own_file = hubbub("keys", "create", "eve", HUBBUB_CONFIG="other.toml")
        assert (own_file.returncode, "in other-keys.toml;" in own_file.stderr) == (0, True), own_file.stderr
        both = hubbub("keys", "list", "--key-file", "keys.toml", *local)
        assert (both.returncode, "--key-file chooses a file" in both.stderr) == (2, True)
    found = hubbub("audit", "search", "--folder", "audit", "--json", "--event", "key.*").stdout.splitlines()
    assert [json.loads(line)["event"] for line in found] == ["key.created", "key.rotated", "key.revoked"]
    # No hub runs any more: the file is used.
    assert hubbub("keys", "revoke", "boss", HUBBUB_CONFIG="hub.toml").returncode == 0
    assert "boss" not in (tmp_path / "keys.toml").read_text()


def test_the_policy_of_the_running_hub_is_shown_and_tested(hubbub: Run, tmp_path: Path) -> None:
    root = hubbub("keys", "create", "root", "--scope", "hub:admin", "--key-file", "keys.toml").stdout.strip()
    boss = create_key(hubbub, "boss", "acme", "--scope", "hub:admin")
    question = ("--tenant", "acme", "--user", "ada", "--annotation", "!destructive", "call", "disk/wipe", "--explain")
    with serve_hub(tmp_path) as url:
        (tmp_path / "hub.toml").write_text(SETTINGS.replace("confirm", "nonsense"))  # it keeps the last good policy
        own = ("--url", url, "--key", "${K}")
        assert hubbub("policy", "test", *question, "--config", "hub.toml").returncode == 2
        for more in (own, choose_hub(), ("--hub", "auto")):
            shown = hubbub("policy", "show", *more, K=root)
            assert "confirm  policy.rules[0]  " in shown.stdout, shown.stderr
            tested = hubbub("policy", "test", *question, *more, K=root)
            assert (tested.returncode, tested.stdout) == (
                3,
                "match    confirm  policy.rules[0]\nconfirm\nrule: policy.rules[0]\nreason: It is gone then\n",
            )
            answer = json.loads(hubbub("policy", "test", *question, "--json", *more, K=root).stdout)
            assert (answer["effect"], answer["checks"][0]["matches"]) == ("confirm", True)
        denied = hubbub("policy", "test", "--tenant", "beta", "call", "disk/wipe", *own, K=boss)
        assert (denied.returncode, "administers the tenant 'acme' only" in denied.stderr) == (1, True)
        assert hubbub("policy", "show", *own, K=boss).returncode == 2
        both = hubbub("policy", "show", "--config", "hub.toml", "--url", url)
        assert (both.returncode, "--config chooses a file" in both.stderr) == (2, True)


@pytest.mark.requirement("A5")
def test_the_journal_of_the_running_hub_is_verified_searched_and_exported(hubbub: Run, tmp_path: Path) -> None:
    root = hubbub("keys", "create", "root", "--scope", "hub:admin", "--key-file", "keys.toml").stdout.strip()
    boss = create_key(hubbub, "boss", "acme", "--scope", "hub:admin")
    ada, bob = create_key(hubbub, "ada", "acme"), create_key(hubbub, "bob", "beta")
    with serve_hub(tmp_path) as url:
        for key in (ada, bob):
            call(hubbub, url, key, "wipe", name="a")
        own, local = ("--url", url, "--key", "${K}"), choose_hub()
        of_ada = ("--user", "ada", "--event", "decision")
        expected = hubbub("audit", "search", *of_ada, "--json", "--folder", "audit").stdout
        assert len(expected.splitlines()) == 1
        for command in (
            ("search", *of_ada, "--json", *local),
            ("search", *of_ada, "--json", "--limit", "1", *own),
            ("export", *of_ada, *local),
            ("tail", "-n", "5", *of_ada, "--json", *own),
        ):
            done = hubbub("audit", *command, K=root)
            assert (done.returncode, done.stdout) == (0, expected), command  # byte for byte
        table = hubbub("audit", "export", *of_ada, "--format", "csv", "--output", "ada.csv", *own, K=root)
        assert table.returncode == 0, table.stderr
        assert [line.split(",")[6] for line in (tmp_path / "ada.csv").read_text().splitlines()] == ["user", "ada"]
        # An administrator of a tenant gets its records only.
        exported = [json.loads(line) for line in hubbub("audit", "export", *own, K=boss).stdout.splitlines()]
        assert {record["tenant"] for record in exported} == {"acme"}
        assert hubbub("audit", "search", "--tenant", "beta", *own, K=boss).returncode == 1
        assert hubbub("audit", "verify", *own, K=boss).returncode == 2
        verified = hubbub("audit", "verify", *own, K=root)
        assert (verified.returncode, verified.stdout.startswith("valid: ")) == (0, True)
        unknown = hubbub("audit", "verify", "--head", "0" * 63 + "1", "--json", *local)
        assert (unknown.returncode, json.loads(unknown.stdout)["holds"]) == (1, False)
        for more, problem in (
            (("verify", "--public-key", "audit.pub"), "--public-key cannot be used with --hub or --url"),
            (("tail", "--follow"), "--follow cannot be used with --hub or --url"),
            (("search", "--folder", "audit"), "--folder and --config choose files"),
        ):
            refused = hubbub("audit", *more, *local)
            assert (refused.returncode, problem in refused.stderr) == (2, True)


def test_an_export_of_many_pages_ends_where_it_began_and_misses_no_record(hubbub: Run, tmp_path: Path) -> None:
    async def write() -> None:
        async with open_journal(tmp_path / "audit") as journal:
            for number in range(2500):
                journal.record_later(AuditEvent(event="test", tenant="acme", tool=f"tool-{number}"))

    asyncio.run(write())
    create_key(hubbub, "ada", "acme")
    with serve_hub(tmp_path):
        local = choose_hub()
        lines = hubbub("audit", "export", "--event", "test", *local).stdout.splitlines()
        assert [json.loads(line)["tool"] for line in lines] == [f"tool-{number}" for number in range(2500)]
        table = hubbub("audit", "export", "--event", "test", "--format", "csv", *local).stdout.splitlines()
        assert (len(table), table[0].startswith("seq,")) == (2501, True)
        everything = hubbub("audit", "export", *local).stdout.splitlines()
        assert "hub.audit.tail" in everything[-1]  # its own requests for pages are not part of it


def test_a_long_journal_is_searched_in_parts_and_a_tail_says_that_it_read_a_part(hubbub: Run, tmp_path: Path) -> None:
    async def write() -> None:
        async with open_journal(tmp_path / "audit") as journal:
            await journal.record(AuditEvent(event="old"))
            facts: dict[str, Fact] = {f"fact {number}": "x" * 1000 for number in range(10)}
            for _ in range(1800):
                await journal.record(AuditEvent(event="filler", facts=facts))
            await journal.record(AuditEvent(event="new"))

    asyncio.run(write())
    assert sum(path.stat().st_size for path in (tmp_path / "audit").glob("journal-*")) > MAX_READ_BYTES
    create_key(hubbub, "ada", "acme")
    with serve_hub(tmp_path):
        local = choose_hub()
        found = [hubbub("audit", "search", "--event", event, *local).stdout for event in ("old", "new", "none")]
        assert [text.split()[2:] for text in found] == [["old"], ["new"], []]
        last = hubbub("audit", "tail", "--event", "old", *local)
        assert (last.returncode, last.stdout) == (0, "")
        assert "use hub.audit.search" in last.stderr
