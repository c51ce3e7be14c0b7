"""Calls that were decided and yet not made: an approval is kept, or the journal says how the call ended."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.clock import wait_until
from tests.hub.governed_hubs import LEGACY, connect, governed_hub, journal, shop, user
from tests.server.raw_client import ALL_CAPABILITIES, RawClient

from hubbub import Principal, Server
from hubbub.hub.gateway import Gateway

pytestmark = pytest.mark.requirement("A1")

CONFIRM = {"rules": [{"effect": "confirm", "tools": ["order"]}]}
TEA = {"item": "tea"}
TENANTS = [{"name": "blue", "max_calls": 1}]
OPERATOR = Principal("unix:0")


def waiting_server(started: asyncio.Event, may_end: asyncio.Event) -> Server:
    server = Server("waiting")

    @server.tool
    async def wait() -> str:
        """Wait for the test."""
        started.set()
        await may_end.wait()
        return "done"

    return server


async def approve_tea(hub: Gateway, client: RawClient) -> None:
    assert hub.governor is not None
    approvals = hub.governor.approvals
    assert approvals is not None
    assert (await client.call("order", TEA))["isError"]
    (pending,) = approvals.list_pending(OPERATOR)
    approvals.approve(pending.id, OPERATOR)


async def test_a_call_that_its_busy_tenant_cannot_make_uses_up_no_approval(tmp_path: Path) -> None:
    ran: list[str] = []
    started, may_end = asyncio.Event(), asyncio.Event()
    servers = shop(ran), waiting_server(started, may_end)
    hub = governed_hub(*servers, folder=tmp_path, policy=CONFIRM, approvals={"via": "queue"}, tenants=TENANTS)
    async with connect(hub, user("blue")) as client:
        await approve_tea(hub, client)
        waiting = client.send_request("tools/call", {"name": "wait", "arguments": {}})
        await started.wait()
        refused = await client.call("order", TEA)
        assert refused["structuredContent"]["error"]["type"] == "too_many_calls"
        may_end.set()
        await client.response_to(waiting)
        assert (await client.call("order", TEA))["content"][0]["text"] == "ordered tea"
    assert ran == ["tea"]
    (used,) = journal(tmp_path, "approval.used")
    assert [end.outcome for end in journal(tmp_path, "call.end") if end.call == used.call] == ["ok"]


async def test_a_tenant_that_is_busy_after_a_person_has_answered_is_in_the_journal(tmp_path: Path) -> None:
    ran: list[str] = []
    started, may_end = asyncio.Event(), asyncio.Event()
    hub = governed_hub(shop(ran), waiting_server(started, may_end), folder=tmp_path, policy=CONFIRM, tenants=TENANTS)
    async with connect(hub, user("blue"), LEGACY, ALL_CAPABILITIES) as client:
        order = client.send_request("tools/call", {"name": "order", "arguments": TEA})
        question = await client.next_message()
        assert question["method"] == "elicitation/create"
        waiting = client.send_request("tools/call", {"name": "wait", "arguments": {}})
        await started.wait()
        answer = {"action": "accept", "content": {"approve": True}}
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        refused = (await client.response_to(order))["result"]
        assert refused["structuredContent"]["error"]["type"] == "too_many_calls"
        may_end.set()
        await client.response_to(waiting)
    assert ran == []
    (used,) = journal(tmp_path, "approval.used")
    (end,) = [end for end in journal(tmp_path, "call.end") if end.call == used.call]
    assert (end.outcome, end.code) == ("refused", "too_many_calls")


async def test_an_approved_call_whose_decision_cannot_be_recorded_ends_in_the_journal(tmp_path: Path) -> None:
    ran: list[str] = []
    folder, aside = tmp_path / "audit", tmp_path / "aside"
    hub = governed_hub(shop(ran), folder=folder, policy=CONFIRM, approvals={"via": "queue"})
    async with connect(hub, user("blue")) as client:
        await approve_tea(hub, client)
        await wait_until(lambda: journal(folder, "approval.approved"))
        folder.rename(aside)
        refused = await client.error("tools/call", {"name": "order", "arguments": TEA})
        assert "audit journal" in refused["message"]
        aside.rename(folder)
        await client.call("order", TEA)
    assert ran == []
    (used,) = journal(folder, "approval.used")
    (end,) = [end for end in journal(folder, "call.end") if end.call == used.call]
    assert end.outcome == "refused"


async def test_a_call_that_is_cancelled_while_its_decision_is_written_ends_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    flushing, may_flush = threading.Event(), threading.Event()

    def flush(descriptor: int) -> None:
        flushing.set()
        may_flush.wait()

    may_flush.set()
    monkeypatch.setattr("hubbub.governance.segment_writer.sync_data", flush)
    hub = governed_hub(shop(ran), audit={"folder": str(tmp_path)})
    async with connect(hub, user("blue")) as client:
        await wait_until(lambda: journal(tmp_path, "tools.listed"))
        may_flush.clear()
        flushing.clear()
        order = client.send_request("tools/call", {"name": "order", "arguments": TEA})
        await wait_until(flushing.is_set)
        client.notify("notifications/cancelled", {"requestId": order})
        await client.wait_until_idle()
        may_flush.set()
    assert ran == []
    (decision,) = journal(tmp_path, "decision")
    assert [(end.call, end.outcome) for end in journal(tmp_path, "call.end")] == [(decision.call, "cancelled")]
