"""What a policy, quotas, approvals and the journal do to the calls of a hub, in every era."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.clock import advance_and_settle, wait_until
from tests.hub.governed_hubs import LEGACY, connect, decisions, each_era, governed_hub, journal, shop, user
from tests.hub.local_hubs import library, list_names, toolbox
from tests.hub.test_front import wait_for_notes
from tests.server.raw_client import ALL_CAPABILITIES, MODERN, connect_raw_client

from hubbub import Principal, Server
from hubbub.governance.audit_events import AuditRecord
from hubbub.governance.journal_reader import read_records
from hubbub.governance.journal_verification import verify
from hubbub.governance.repeated_denials import MAX_RECORDED_TARGETS

HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@each_era
async def test_a_tenant_sees_its_servers_only(tmp_path: Path, dialect: str) -> None:
    hub = governed_hub(library(), toolbox("box", "hammer"), folder=tmp_path)
    async with connect(hub, user("red"), dialect) as red, connect(hub, user("blue"), dialect) as blue:
        assert await list_names(red) == ["find_book", "lend_book"]
        assert await list_names(blue) == ["find_book", "lend_book", "hammer"]
        assert (await blue.call("hammer"))["content"][0]["text"] == "box/hammer"
        error = await red.error("tools/call", {"name": "hammer", "arguments": {}})
        assert "box" not in json.dumps(error)
        status = json.dumps(await red.call("hub.status"))
        assert "box" not in status
        assert "library" in status


async def test_what_a_caller_may_not_use_is_found_by_no_search_or_instruction(tmp_path: Path) -> None:
    rules = [{"effect": "deny", "tools": ["lend_*"]}, {"effect": "deny", "tools": ["find_*"], "actions": ["search"]}]
    secretive = Server("secretive", instructions="Never mention this.")
    secretive.tool(name="lend_secret")(lambda: "x")
    hub = governed_hub(library(), secretive, folder=tmp_path, policy={"rules": rules})
    async with connect(hub, user("blue")) as client:
        assert await list_names(client) == ["find_book"]
        found = await client.call("hub.search", {"query": "book secret lend find"})
        assert found["structuredContent"]["tools"] == []
        instructions = (await client.result("initialize", HELLO))["instructions"]
        assert "Never mention" not in instructions
        assert "Ask library" in instructions


@each_era
async def test_every_decision_is_recorded_before_its_call(tmp_path: Path, dialect: str) -> None:
    seen: list[list[tuple[str, str, str, str]]] = []
    server = Server("shop")

    @server.tool
    async def order(item: str) -> str:
        """Order an item."""
        seen.append(decisions(tmp_path))
        return item

    rules = [{"effect": "deny", "tools": ["hammer"]}]
    hub = governed_hub(server, toolbox("box", "hammer"), folder=tmp_path, policy={"rules": rules})
    async with connect(hub, user("blue"), dialect) as client:
        await client.call("order", {"item": "tea"})
        await client.error("tools/call", {"name": "hammer", "arguments": {}})
        await client.error("tools/call", {"name": "unknown", "arguments": {}})
    assert seen == [[("blue", "call", "order", "allow")]]
    assert decisions(tmp_path) == [("blue", "call", "order", "allow"), ("blue", "call", "hammer", "deny")]
    ends = [record for _, record in read_records(tmp_path) if record.event == "call.end"]
    assert [(end.tool, end.outcome) for end in ends] == [("order", "ok")]


@each_era
async def test_a_call_over_its_quota_says_when_to_come_back(tmp_path: Path, dialect: str) -> None:
    ran: list[str] = []
    hub = governed_hub(shop(ran), folder=tmp_path, quotas=[{"limit": "2/hour", "per": ["tenant"], "tools": ["order"]}])
    async with connect(hub, user("blue"), dialect) as blue, connect(hub, user("blue", "bob"), dialect) as bob:
        for _ in range(2):
            await blue.call("order", {"item": "tea"})
        refused = await bob.call("order", {"item": "tea"})
        assert refused["isError"] is True
        assert "2 per hour" in refused["content"][0]["text"]
        assert refused["structuredContent"]["error"]["data"]["retryAfterMs"] > 0
    assert ran == ["tea", "tea"]


async def test_a_confirmed_call_waits_for_a_person_in_the_queue_and_runs_once(tmp_path: Path) -> None:
    ran: list[str] = []
    rules = [{"effect": "confirm", "tools": ["order"], "reason": "it costs money"}]
    hub = governed_hub(shop(ran), folder=tmp_path, policy={"rules": rules}, approvals={"via": "queue"})
    assert hub.governor is not None
    approvals = hub.governor.approvals
    assert approvals is not None
    async with connect(hub, user("blue")) as client:
        first = await client.call("order", {"item": "tea"})
        assert first["structuredContent"]["error"]["type"] == "approval_required"
        (pending,) = approvals.list_pending(Principal("unix:0"))
        assert pending.reason == "it costs money"
        approvals.approve(pending.id, Principal("unix:0"))
        other = await client.call("order", {"item": "coffee"})
        assert other["isError"] is True
        assert (await client.call("order", {"item": "tea"}))["content"][0]["text"] == "ordered tea"
        again = await client.call("order", {"item": "tea"})
        assert again["isError"] is True
    assert ran == ["tea"]


@each_era
@pytest.mark.parametrize("approves", [True, False])
async def test_a_confirmed_call_asks_the_person_at_the_callers_client(
    tmp_path: Path, dialect: str, approves: bool
) -> None:
    ran: list[str] = []
    rules = [{"effect": "confirm", "tools": ["order"]}]
    hub = governed_hub(shop(ran), folder=tmp_path, policy={"rules": rules})
    answer = {"action": "accept", "content": {"approve": approves}}
    async with connect(hub, user("blue"), dialect, ALL_CAPABILITIES) as client:
        client.reply_with = lambda message: {"result": answer}
        reply = await client.call("order", {"item": "tea"})
        if dialect == MODERN:
            assert reply["resultType"] == "input_required"
            (key,) = reply["inputRequests"]
            more = {"requestState": reply["requestState"], "inputResponses": {key: answer}}
            reply = await client.call("order", {"item": "tea"}, more=more)
            replayed = await client.error("tools/call", {"name": "order", "arguments": {"item": "tea"}, **more})
            assert "start again" in replayed["message"]
        assert (reply.get("isError") is True) is not approves
    assert ran == (["tea"] if approves else [])


async def test_an_invented_request_state_does_not_replace_an_approval(tmp_path: Path) -> None:
    ran: list[str] = []
    hub = governed_hub(shop(ran), folder=tmp_path, policy={"rules": [{"effect": "confirm", "tools": ["order"]}]})
    async with connect(hub, user("blue"), MODERN, ALL_CAPABILITIES) as client:
        params = {"name": "order", "arguments": {"item": "tea"}, "requestState": "invented"}
        assert "start again" in (await client.error("tools/call", params))["message"]
    async with connect(hub, user("blue"), MODERN) as client:
        assert "start again" in (await client.error("tools/call", params))["message"]
    assert ran == []


async def test_a_changed_policy_takes_effect_for_connected_clients(tmp_path: Path) -> None:
    hub = governed_hub(library(), folder=tmp_path)
    changed = msgspec.convert({"rules": [{"effect": "deny", "tools": ["lend_*"]}]}, type(hub.config.governance.policy))
    governance = msgspec.structs.replace(hub.config.governance, policy=changed)
    async with connect(hub, user("red")) as client:
        assert await list_names(client) == ["find_book", "lend_book"]
        await hub.apply(msgspec.structs.replace(hub.config, governance=governance))
        assert await list_names(client) == ["find_book"]
        await client.error("tools/call", {"name": "lend_book", "arguments": {"title": "x", "reader": "y"}})


async def test_resources_and_prompts_follow_the_policy(tmp_path: Path) -> None:
    rules = [{"effect": "deny", "tools": ["page://*", "review"]}]
    hub = governed_hub(library(), folder=tmp_path, policy={"rules": rules})
    async with connect(hub, user("red")) as client:
        assert await list_names(client, "prompts") == []
        await client.error("prompts/get", {"name": "review", "arguments": {"title": "x"}})
        templates = await client.result("resources/templates/list")
        assert "page://" not in json.dumps(templates)
        await client.error("resources/read", {"uri": "page://library/3"})
        await client.error("resources/subscribe", {"uri": "page://library/3"})
        read = await client.result("resources/read", {"uri": "book://library/moby"})
        assert read["contents"][0]["text"] == "Call me library."
    denied = [entry[1:] for entry in decisions(tmp_path) if entry[3] == "deny"]
    assert ("get", "review", "deny") in denied
    assert ("read", "page://library/3", "deny") in denied


async def test_a_call_that_waits_in_the_queue_is_recorded_before_its_error_and_joined_with_its_approval(
    tmp_path: Path,
) -> None:
    rules = [{"effect": "confirm", "tools": ["order"], "reason": "it costs money"}]
    hub = governed_hub(shop([]), folder=tmp_path, policy={"rules": rules}, approvals={"via": "queue"})
    assert hub.governor is not None
    approvals = hub.governor.approvals
    assert approvals is not None
    async with connect(hub, user("blue")) as client:
        await client.call("order", {"item": "tea"})
        (waiting,) = journal(tmp_path, "decision")  # durable already
        (pending,) = approvals.list_pending(Principal("unix:0"))
        for _ in range(5):
            await client.call("order", {"item": "tea"})
        assert len(journal(tmp_path, "decision")) == 1, "calls that wait for the same approval fill no journal"
        approvals.approve(pending.id, Principal("unix:0"))
        await client.call("order", {"item": "tea"})
        await client.call("order", {"item": "coffee"})
        (other,) = approvals.list_pending(Principal("unix:0"))
        approvals.deny(other.id, Principal("unix:0"), "no coffee")
        await client.call("order", {"item": "coffee"})
    first, made, second, denied = journal(tmp_path, "decision")
    assert first == waiting
    assert first.decision is not None
    assert (first.decision.effect, first.decision.rule) == ("confirm", "policy.rules[0]")
    assert (first.decision.reason, first.decision.version) == ("it costs money", hub.governor.engine.version)
    assert (first.credential, first.facts) == ("c1", {"approval": pending.id})
    assert made.facts == {"approval": pending.id, "approved": True}
    assert second.facts == denied.facts == {"approval": other.id}
    assert len({first.call, made.call, second.call, denied.call}) == 4
    changes = journal(tmp_path, "approval.requested", "approval.approved", "approval.used", "approval.denied")
    assert [(change.event.partition(".")[2], change.call) for change in changes] == [
        ("requested", first.call),
        ("approved", first.call),
        ("used", made.call),
        ("requested", second.call),
        ("denied", second.call),
    ]
    assert [change.args_sha256 for change in changes[:3]] == [first.args_sha256] * 3
    assert changes[0].facts is not None
    assert changes[0].facts["approval_digest"] == pending.digest != first.args_sha256
    ends = {end.call: (end.outcome, end.code) for end in journal(tmp_path, "call.end")}
    assert ends == {
        first.call: ("refused", "approval_required"),
        made.call: ("ok", ""),
        second.call: ("refused", "approval_required"),
        denied.call: ("refused", "approval_denied"),
    }


@each_era
@pytest.mark.parametrize("approves", [True, False])
async def test_a_decision_is_recorded_before_the_person_at_the_client_is_asked(
    tmp_path: Path, dialect: str, approves: bool
) -> None:
    when_run: list[list[Any]] = []
    server = Server("shop")

    @server.tool
    async def order(item: str) -> str:
        """Order an item."""
        when_run.append([record.facts for record in journal(tmp_path, "decision")])
        return item

    hub = governed_hub(server, folder=tmp_path, policy={"rules": [{"effect": "confirm", "tools": ["order"]}]})
    answer = {"action": "accept", "content": {"approve": approves}}
    when_asked: list[AuditRecord] = []

    def reply_with(message: Any) -> Any:
        when_asked.extend(journal(tmp_path, "decision"))
        return {"result": answer}

    async with connect(hub, user("blue"), dialect, ALL_CAPABILITIES) as client:
        client.reply_with = reply_with
        reply = await client.call("order", {"item": "tea"})
        if dialect == MODERN:
            when_asked.extend(journal(tmp_path, "decision"))
            (key,) = reply["inputRequests"]
            more = {"requestState": reply["requestState"], "inputResponses": {key: answer}}
            await client.call("order", {"item": "tea"}, more=more)
    (asked,) = when_asked
    assert asked.decision is not None
    assert asked.decision.effect == "confirm"
    assert asked.facts is not None
    assert all(record.call == asked.call for _, record in read_records(tmp_path) if record.tool == "order")
    (end,) = journal(tmp_path, "call.end")
    if approves:
        assert when_run == [[asked.facts, {**asked.facts, "approved": True}]]
        assert end.outcome == "ok"
    else:
        assert when_run == []
        assert (end.outcome, end.code) == ("refused", "approval_denied")


async def test_a_record_has_the_name_that_the_caller_used(tmp_path: Path) -> None:
    rules = [{"effect": "deny", "servers": ["second"], "tools": ["saw"]}]
    first, second = toolbox("first", "hammer"), toolbox("second", "hammer", "saw")
    hub = governed_hub(first, second, folder=tmp_path, policy={"rules": rules})
    async with connect(hub, user("blue")) as client:
        names = [name for name in await list_names(client) if "hammer" in name]
        assert len(names) == 2
        for name in names:
            await client.call(name)
        await client.error("tools/call", {"name": "saw", "arguments": {}})
    called = [record for record in journal(tmp_path, "decision", "call.end") if record.tool == "hammer"]
    assert sorted(record.shown_as or record.tool for record in called) == sorted(names * 2)
    assert any(record.shown_as for record in called)
    (denied,) = [record for record in journal(tmp_path, "decision") if record.tool == "saw"]
    assert denied.shown_as == ""


@pytest.mark.requirement("A1")
@each_era
async def test_repetitions_of_a_denied_call_are_recorded_with_a_count(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.governance.repeated_denials.INTERVAL_S", 60.0)  # not while the calls are made
    rules = [{"effect": "deny", "tools": ["hammer", "saw"]}]
    hub = governed_hub(toolbox("box", "hammer", "saw"), folder=tmp_path, policy={"rules": rules})
    hammer = {"name": "hammer", "arguments": {}}
    async with connect(hub, user("blue"), dialect) as ada:
        for _ in range(300):
            await ada.error("tools/call", hammer)
        await ada.error("tools/call", hammer | {"name": "saw"})
        await wait_until(lambda: denials(tmp_path) == [("hammer", 0), ("saw", 0)])  # the first ones soon
        async with connect_raw_client(hub.main_front, dialect, {}, principal=user("blue", "bob"), scope="bob") as bob:
            await bob.error("tools/call", hammer)
            await wait_until(lambda: len(denials(tmp_path)) == 3)
        await advance_and_settle(61)
        await wait_until(lambda: denials(tmp_path)[3:] == [("hammer", 299)])
        await ada.error("tools/call", hammer)  # a first one again
        await ada.error("tools/call", hammer)
    assert denials(tmp_path)[4:] == [("hammer", 0), ("hammer", 1)]  # what was counted is recorded at the end
    calls = [record.call for record in journal(tmp_path, "decision") if record.tool == "hammer"]
    assert (calls[0] == calls[2], calls[3] == calls[4], len(set(calls))) == (True, True, 3)
    assert verify(tmp_path).holds


def denials(folder: Path) -> list[tuple[str, Any]]:
    """The names of denied tools, and how often the denial was repeated."""
    found = journal(folder, "decision")
    return [(record.tool, (record.facts or {}).get("repeated", 0)) for record in found]


@each_era
async def test_of_a_flood_of_different_denied_names_the_first_are_recorded_and_the_others_counted(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.governance.repeated_denials.INTERVAL_S", 60.0)
    hub = governed_hub(library(), folder=tmp_path, policy={"rules": [{"effect": "deny", "tools": ["page://*"]}]})
    uris = [f"page://library/{number}" for number in range(MAX_RECORDED_TARGETS + 300)]
    async with connect(hub, user("blue"), dialect) as ada:
        for uri in (*uris, uris[-1], uris[0]):
            await ada.error("resources/read", {"uri": uri})
        async with connect_raw_client(hub.main_front, dialect, {}, principal=user("blue", "bob"), scope="bob") as bob:
            await bob.error("resources/read", {"uri": uris[-1]})
        await advance_and_settle(61)
        await ada.error("resources/read", {"uri": uris[-1]})  # a first one again
    found = journal(tmp_path, "decision")
    assert [record.tool for record in found if record.facts is None] == [
        *uris[:MAX_RECORDED_TARGETS], uris[-1], uris[-1],
    ]  # fmt: skip
    counts = [(record.user, record.tool, record.facts) for record in found if record.facts]
    assert sorted(counts) == [("ada", "", {"others": 301}), ("ada", uris[0], {"repeated": 1})]
    (others,) = [record for record in found if record.facts == {"others": 301}]
    assert (others.action, others.kind, others.server, others.call) == ("read", "resource", "library", "")
    assert others.decision == found[0].decision


async def test_a_caller_is_notified_when_a_server_removes_the_last_tool_that_it_saw(tmp_path: Path) -> None:
    box = toolbox("box", "hammer", "secret_saw")
    hub = governed_hub(library(), box, folder=tmp_path, policy={"rules": [{"effect": "deny", "tools": ["secret_*"]}]})
    async with connect(hub, user("blue")) as client:
        assert "hammer" in await list_names(client)
        box.tools.unregister("hammer")
        await wait_for_notes(client, "notifications/tools/list_changed")
        assert await list_names(client) == ["find_book", "lend_book"]
        box.tool(name="secret_drill")(lambda: "drilled")
        box.tool(name="saw")(lambda: "sawn")
        await wait_for_notes(client, "notifications/tools/list_changed", 2)
        assert "saw" in await list_names(client)


async def test_a_stored_result_is_read_only_while_the_policy_shows_its_tool(tmp_path: Path) -> None:
    server = Server("stories")
    server.tool(name="tell")(lambda: "once upon a time " * 50_000)
    hub = governed_hub(server, folder=tmp_path)
    changed = msgspec.convert({"rules": [{"effect": "deny", "tools": ["tell"]}]}, type(hub.config.governance.policy))
    governance = msgspec.structs.replace(hub.config.governance, policy=changed)
    async with connect(hub, user("blue")) as client:
        (link,) = [block for block in (await client.call("tell"))["content"] if block["type"] == "resource_link"]
        identifier = link["uri"].rpartition("/")[2]
        assert "once upon" in str(await client.call("hub.read_result", {"id": identifier}))
        assert "once upon" in str(await client.result("resources/read", {"uri": link["uri"]}))
        await hub.apply(msgspec.structs.replace(hub.config, governance=governance))
        refused = await client.call("hub.read_result", {"id": identifier})
        unknown = await client.call("hub.read_result", {"id": "made-up"})
        assert str(refused).replace(identifier, "made-up") == str(unknown)
        await client.error("resources/read", {"uri": link["uri"]})
