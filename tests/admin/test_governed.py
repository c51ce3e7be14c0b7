"""Administration of a hub with policy, keys and audit: every call is decided and recorded, each area has its limits."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.clock import wait_until
from tests.hub.upstream_callers import make_caller, request_result

from hubbub import AuditUnavailable, Principal, Server, ToolError, ToolNotFound
from hubbub.admin.access import local_operator
from hubbub.assembly.assemble import assemble
from hubbub.assembly.serve_settings import read_serve_settings
from hubbub.governance.approval_errors import ApprovalRequired
from hubbub.governance.journal_reader import read_records
from hubbub.hub.front import Front
from hubbub.security.key_records import hash_key
from hubbub.security.key_records import read_records as read_keys
from hubbub.settings import collect_sources

PROGRAM = '''
from hubbub import Server
server = Server("one")

@server.tool
def wipe(name: str) -> str:
    """Wipe a disk."""
    return name
'''
SETTINGS = """
key_file = "{folder}/keys.toml"
[servers.one]
target = "{folder}/one.py:server"
[audit]
folder = "{folder}/audit"
[[tenants]]
name = "acme"
[[tenants]]
name = "beta"
[pins]
mode = "warn"
file = "{folder}/hubbub.lock"
[[policy.rules]]
effect = "deny"
tools = ["hub.sessions.logout"]
users = ["ann"]
[[policy.rules]]
effect = "confirm"
tools = ["wipe"]
reason = "It is gone then"
"""
ANN = Principal("acme/ann#1", frozenset({"hub:admin"}), tenant="acme", user="ann")
BEN = Principal("beta/ben#1", frozenset({"hub:admin"}), tenant="beta", user="ben")
OPERATOR = Principal("/root#1", frozenset({"hub:admin"}), user="root")


class GovernedHub:
    """A running hub and its server of administration."""

    def __init__(self, front: Front, folder: Path) -> None:
        self.front = front
        self.folder = folder
        self.admin: Server = front.hub.restricted_views["admin"]

    async def call(self, tool: str, principal: Principal | None = None, **arguments: Any) -> Any:
        """Call a function of administration, by default as the user who runs the hub."""
        return (await self._request("tools/call", {"name": tool, "arguments": arguments}, principal))[
            "structuredContent"
        ]

    async def list_tools(self, principal: Principal | None = None) -> set[str]:
        return {tool["name"] for tool in (await self._request("tools/list", {}, principal))["tools"]}

    async def _request(self, method: str, params: Any, principal: Principal | None) -> Any:
        who = replace(make_caller(), principal=principal or local_operator())
        return await request_result(self.admin.peer, method, params, who)

    def records_of(self, event: str) -> list[Any]:
        """The records of an event in the newest segment."""
        lines = max((self.folder / "audit").glob("journal-0*.jsonl")).read_bytes().splitlines()
        return [record for record in map(json.loads, lines) if record["event"] == event]

    def records(self) -> list[Any]:
        return [record for _, record in read_records(self.folder / "audit")]


@asynccontextmanager
async def open_hub(folder: Path, more: str = "") -> AsyncIterator[GovernedHub]:
    (folder / "one.py").write_text(PROGRAM)
    (folder / "keys.toml").touch(0o600)
    path = folder / "own.toml"
    path.write_text(SETTINGS.format(folder=folder) + more)
    sources = collect_sources({"--config": str(path)}, {})
    front = assemble(read_serve_settings(sources, lambda line: None), sources)
    assert isinstance(front, Front)
    async with front.running():
        yield GovernedHub(front, folder)


async def test_every_call_is_decided_and_recorded_with_its_outcome(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        await hub.call("hub.sessions.list", ANN)
        with pytest.raises(ToolError):
            await hub.call("hub.sessions.list", ANN, tenant="beta")
        await hub.call("hub.status")
    found = [
        (record.event, record.user, record.tool, record.action, record.outcome)
        for record in hub.records()
        if record.server == "hub"
    ]
    assert found == [
        ("decision", "ann", "hub.sessions.list", "admin", ""),
        ("call.end", "ann", "hub.sessions.list", "", "ok"),
        ("decision", "ann", "hub.sessions.list", "admin", ""),
        ("call.end", "ann", "hub.sessions.list", "", "tool_error"),
        ("decision", local_operator().name, "hub.status", "admin", ""),
        ("call.end", local_operator().name, "hub.status", "", "ok"),
    ]


async def test_what_the_policy_denies_is_neither_listed_nor_called_except_by_who_runs_the_hub(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        assert "hub.sessions.logout" not in await hub.list_tools(ANN)
        assert "hub.sessions.logout" in await hub.list_tools(BEN)
        with pytest.raises(ToolNotFound):
            await hub.call("hub.sessions.logout", ANN, user="ann")
        stranger = Principal("gone/eve#1", frozenset({"hub:admin"}), tenant="gone", user="eve")
        assert await hub.list_tools(stranger) == set()
        with pytest.raises(ToolNotFound):
            await hub.call("hub.status", stranger)
        assert (await hub.call("hub.sessions.logout", tenant="acme", user="ann"))["serverSessions"] == 0
    decisions = [record.decision for record in hub.records() if record.decision is not None]
    assert [(decision.effect, decision.rule) for decision in decisions] == [
        ("deny", "policy.rules[0]"),
        ("deny", "tenants"),
        ("allow", "owner"),
    ]
    (logout,) = [record for record in hub.records() if record.event == "session.logout"]
    assert logout.facts == {
        "of_tenant": "acme",
        "of_user": "ann",
        "server_sessions": 0,
        "client_sessions": 0,
        "server_logins": 0,
        "client_grants": 0,
    }


async def test_what_only_operators_can_use_does_not_exist_for_the_administrators_of_a_tenant(tmp_path: Path) -> None:
    arguments: dict[str, dict[str, str]] = {
        "hub.policy.show": {},
        "hub.audit.verify": {},
        "hub.keys.create": {"name": "new"},
        "hub.keys.rotate": {"name": "new"},
        "hub.keys.revoke": {"name": "new"},
        "hub.pins.list": {},
        "hub.pins.diff": {},
        "hub.pins.approve": {"server": "one"},
        "hub.pins.revoke": {"server": "one"},
    }
    async with open_hub(tmp_path) as hub:
        assert await hub.list_tools(OPERATOR) == await hub.list_tools()
        assert await hub.list_tools() - await hub.list_tools(BEN) == set(arguments)
        for tool, given in arguments.items():
            with pytest.raises(ToolNotFound):
                await hub.call(tool, BEN, **given)
            await hub.call(tool, OPERATOR, **given)
    decisions = [
        (record.user, record.decision.effect, record.decision.rule) for record in hub.records() if record.decision
    ]
    assert decisions == [("ben", "deny", "operators"), ("root", "allow", "operators")] * len(arguments)


async def test_an_operator_with_a_key_administers_every_tenant_unless_a_rule_denies_it(tmp_path: Path) -> None:
    rule = '[[policy.rules]]\neffect = "deny"\ntools = ["hub.audit.*"]\nusers = ["root"]\n'
    async with open_hub(tmp_path, rule) as hub:
        assert (await hub.call("hub.sessions.list", OPERATOR, tenant="beta"))["servers"] == []
        assert (await hub.call("hub.status", OPERATOR))["problems"] != []
        assert not {tool for tool in await hub.list_tools(OPERATOR) if tool.startswith("hub.audit.")}
        with pytest.raises(ToolNotFound):
            await hub.call("hub.audit.verify", OPERATOR)


OTHER_SERVERS = """
[servers.program]
command = "python"
[servers.denied]
target = "{folder}/denied.py:server"
[servers.denied_and_gone]
url = "http://127.0.0.1:1/mcp"
[servers.gone]
url = "http://127.0.0.1:1/mcp"
[[policy.rules]]
effect = "deny"
servers = ["denied*"]
tenants = ["acme"]
"""


async def test_the_administrator_of_a_tenant_sees_no_server_that_is_hidden_from_it(tmp_path: Path) -> None:
    (tmp_path / "denied.py").write_text(PROGRAM.replace("wipe", "sweep"))
    async with open_hub(tmp_path, OTHER_SERVERS.format(folder=tmp_path)) as hub:
        await request_result(hub.front, "tools/list", {}, replace(make_caller(), principal=ANN))
        everything = {"one", "program", "denied", "denied_and_gone", "gone"}
        for who, expected in ((ANN, {"one", "gone"}), (BEN, everything - {"program"}), (OPERATOR, everything)):
            status = await hub.call("hub.status", who)
            assert {server["id"] for server in status["servers"]} == expected
            about = {problem.split(":")[0] for problem in status["problems"]} & everything
            assert {"gone"} <= about <= expected


async def test_the_policy_is_shown_to_operators_and_tested_for_ones_own_tenant(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        shown = await hub.call("hub.policy.show")
        assert [rule["rule"] for rule in shown["rules"]][-3:] == ["policy.rules[0]", "policy.rules[1]", "default"]
        with pytest.raises(ToolNotFound):
            await hub.call("hub.policy.show", ANN)
        decision = await hub.call("hub.policy.test", ANN, action="call", server="one", name="wipe", user="bob")
        assert (decision["effect"], decision["rule"]) == ("confirm", "policy.rules[1]")
        assert decision["reason"] == "It is gone then"
        explained = await hub.call(
            "hub.policy.test", action="call", server="one", name="wipe", tenant="acme", user="bob"
        )
        assert [check["isMatch"] for check in explained["explanation"]] == [False, True]
        assert "ann" in explained["explanation"][0]["detail"]
        assert decision["explanation"] == explained["explanation"][1:]
        unknown = await hub.call("hub.policy.test", action="call", server="one", name="wipe", tenant="gone")
        assert unknown["effect"] == "deny"
        with pytest.raises(ToolError, match="administers the tenant 'acme' only"):
            await hub.call("hub.policy.test", ANN, action="call", server="one", name="wipe", tenant="beta")
        with pytest.raises(ToolError, match="does not fit the kind"):
            await hub.call("hub.policy.test", action="call", kind="prompt", server="one", name="wipe")


async def test_an_administrator_of_a_tenant_reads_its_records_only(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        await hub.call("hub.sessions.list", BEN)
        await hub.call("hub.sessions.list", ANN)
        own = await hub.call("hub.audit.search", ANN)
        assert {record["tenant"] for record in own["records"]} == {"acme"}
        assert own["isComplete"]
        last = await hub.call("hub.audit.tail", ANN, limit=1)
        assert (last["records"][0]["tenant"], last["isComplete"]) == ("acme", False)
        for tool in ("hub.audit.search", "hub.audit.tail"):
            with pytest.raises(ToolError, match="administers the tenant 'acme' only"):
                await hub.call(tool, ANN, tenant="beta")
        with pytest.raises(ToolNotFound):
            await hub.call("hub.audit.verify", ANN)
        found = await hub.call("hub.audit.search", event="decision", user="ben", limit=1)
        assert [record["tool"] for record in found["records"]] == ["hub.sessions.list"]
        verified = await hub.call("hub.audit.verify")
        assert verified["holds"]
        assert verified["report"]["records"] > 4


async def test_the_records_of_a_tenant_do_not_tell_which_hidden_tools_exist(tmp_path: Path) -> None:
    (tmp_path / "denied.py").write_text(PROGRAM.replace("wipe", "sweep"))
    async with open_hub(tmp_path, OTHER_SERVERS.format(folder=tmp_path)) as hub:
        ann = replace(make_caller(), principal=ANN)
        for name in ("sweep", "made_up"):
            with pytest.raises(ToolNotFound):
                await request_result(hub.front, "tools/call", {"name": name, "arguments": {}}, ann)
        await hub.call("hub.status")  # its record is durable, and so are those before it
        for tool in ("hub.audit.search", "hub.audit.tail"):
            assert "sweep" not in json.dumps(await hub.call(tool, ANN))
            assert "sweep" in json.dumps(await hub.call(tool, tenant="acme"))


async def test_one_request_reads_a_part_of_a_long_journal_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.admin.audit.MAX_READ_BYTES", 4000)
    async with open_hub(tmp_path) as hub:
        for _ in range(20):
            await hub.call("hub.sessions.list", BEN)
        own = await hub.call("hub.audit.search", ANN)
        assert (own["records"], own["isComplete"]) == ([], False)
        assert f"from_seq={own['nextSeq']}" in own["hint"]
        requests = 1
        while not own["isComplete"] and not own["records"]:
            own = await hub.call("hub.audit.search", ANN, from_seq=own["nextSeq"], limit=1)
            requests += 1
        assert requests > 3
        assert own["records"][0]["user"] == "ann"
        last = await hub.call("hub.audit.tail", BEN, event="call.end")
        assert last["isComplete"] is False
        assert "with `since`" in last["hint"]
        today = await hub.call("hub.audit.tail", BEN, limit=1)
        assert (today["isComplete"], today["hint"]) == (False, "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
async def test_searches_of_the_journal_leave_threads_for_others(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        slow = tmp_path / "audit" / "journal-9999999999999999.jsonl"
        os.mkfifo(slow)  # Opening it waits for the test.
        searches = [
            asyncio.create_task(hub.call("hub.audit.search", replace(OPERATOR, name=f"/root#{number}")))
            for number in range(40)
        ]

        def release() -> bool:
            os.close(os.open(slow, os.O_RDWR))
            return all(search.done() for search in searches)

        try:
            await wait_until(lambda: len(hub.records_of("decision")) == len(searches))
            assert await asyncio.to_thread(lambda: "done") == "done"
        finally:
            await wait_until(release)
        assert all(isinstance(search.exception(), ToolError) for search in searches)  # a pipe is not a file


async def test_a_key_is_created_rotated_and_revoked_by_an_operator_and_shown_once(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    async with open_hub(tmp_path) as hub:
        made = await hub.call("hub.keys.create", name="laptop", tenant="acme", user="ada", scopes=["a"], days=3)
        (stored,) = read_keys(path)
        assert (stored.hash, stored.owner, stored.scopes) == (hash_key(made["key"]), "ada", ("a",))
        await hub.call("hub.keys.create", name="other", tenant="beta")
        listed = await hub.call("hub.keys.list", ANN)
        assert [key["name"] for key in listed["keys"]] == ["laptop"]
        assert (await hub.call("hub.keys.list"))["total"] == 2
        for tool in ("create", "rotate", "revoke"):
            with pytest.raises(ToolNotFound):
                await hub.call(f"hub.keys.{tool}", ANN, name="laptop")
        with pytest.raises(ToolError, match="already has a key named 'laptop'"):
            await hub.call("hub.keys.create", name="laptop")
        rotated = await hub.call("hub.keys.rotate", name="laptop", overlap_s=60)
        assert hash_key(rotated["key"]) in {record.hash for record in read_keys(path)}
        assert rotated["stored"]["version"] == 2
        await hub.call("hub.keys.revoke", name="laptop")
        assert [record.name for record in read_keys(path)] == ["other"]
        with pytest.raises(ToolError, match="no tenant 'acmee' in the settings; did you mean 'acme'"):
            await hub.call("hub.keys.create", name="eve", tenant="acmee")
        assert [record.name for record in read_keys(path)] == ["other"]
        with pytest.raises(ToolError, match="has no key named 'laptop'"):
            await hub.call("hub.keys.revoke", name="laptop")
    journal = b"".join(file.read_bytes() for file in (tmp_path / "audit").glob("*"))
    assert made["key"].encode() not in journal
    changes = [record for record in hub.records() if record.event.startswith("key.")]
    assert [(record.event, record.facts["key"]) for record in changes] == [
        ("key.created", "laptop"),
        ("key.created", "other"),
        ("key.rotated", "laptop"),
        ("key.revoked", "laptop"),
    ]


async def test_pins_are_approved_and_recorded_and_only_operators_read_their_problems(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        problems = (await hub.call("hub.status"))["problems"]
        assert problems == ["one: tool 'wipe' is new, not approved"]
        assert (await hub.call("hub.status", ANN))["problems"] == []
        who = replace(make_caller(), principal=ANN)
        seen = await request_result(hub.front, "tools/call", {"name": "hub.status", "arguments": {}}, who)
        assert seen["structuredContent"]["problems"] == []
        approved = await hub.call("hub.pins.approve", server="one")
        assert approved["approved"] == ["one tool wipe"]
        assert (await hub.call("hub.status"))["problems"] == []
    (record,) = [record for record in hub.records() if record.event == "pin.approved"]
    assert (record.server, record.tool, record.facts["approver"]) == ("one", "wipe", local_operator().name)
    (listed,) = [record for record in hub.records() if record.event == "tools.listed"]
    assert (listed.server, listed.facts["tools"]) == ("one", 1)
    assert len(listed.facts["sha256"]) == 64


async def test_secrets_in_reasons_are_masked_in_the_journal(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        cat = replace(make_caller(), principal=replace(ANN, name="acme/cat#1", user="cat"))
        with pytest.raises(ApprovalRequired):
            await request_result(hub.front, "tools/call", {"name": "wipe", "arguments": {"name": "a"}}, cat)
        (waiting,) = (await hub.call("hub.approvals.list"))["approvals"]
        await hub.call("hub.approvals.deny", id=waiting["id"], reason="password=hunter2 is in it")
    text = json.dumps([record.facts for record in hub.records()])
    assert "is in it" in text
    assert "hunter2" not in text


async def test_a_denial_that_could_not_be_recorded_is_recorded_when_it_is_repeated(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        folder, moved = tmp_path / "audit", tmp_path / "moved"
        folder.rename(moved)
        folder.write_text("a file, where the journal cannot be written")
        for _ in range(3):
            with pytest.raises(AuditUnavailable):
                await hub.call("hub.sessions.logout", ANN, user="ann")
        folder.unlink()
        moved.rename(folder)
        for _ in range(3):
            with pytest.raises(ToolNotFound):
                await hub.call("hub.sessions.logout", ANN, user="ann")
    denials = [record for _, record in read_records(folder) if record.decision and record.decision.effect == "deny"]
    assert [record.facts for record in denials] == [None, {"repeated": 2}]
