"""Approvals that the person at the caller's own client gives, in every era and over every transport."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import UNSET
from tests.client.harness import PATHS
from tests.clock import advance_and_settle, wait_until
from tests.governance.guarded_server import GuardedServer
from tests.http.in_process_server import run_server
from tests.hub.upstream_callers import RecordingReturnPath, make_caller

from hubbub import Call, Client, ElicitationAnswer, ElicitationRequest, Principal, RemoteError, ServerConfig
from hubbub.governance.approvals import Approvals, MarkedCall
from hubbub.governance.client_approval import approve_call
from hubbub.governance.decision import PolicyDecision
from hubbub.protocol.calls import NO_META
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.testing import ElicitationScript, connect

MODERN = "2026-07-28"
VERSIONS = ["2025-06-18", "2025-11-25", MODERN]
versions = pytest.mark.parametrize("version", VERSIONS)
YES: Mapping[str, Any] = {"approve": True}


@versions
async def test_a_call_runs_once_when_the_person_accepts_the_form(version: str) -> None:
    guarded, person = GuardedServer(), ElicitationScript(YES)
    async with connect(guarded.server, protocol_version=version, elicitation=person) as client:
        result = await client.call_tool("delete", {"name": "x"})
    assert (result.is_error, result.text) == (UNSET, "deleted x")
    assert guarded.ran == ["delete x"]
    (question,) = person.requests
    assert question.message == (
        "Approve a call of the tool 'delete' on the server 'shop'?\nReason: it cannot be undone\n"
        'Arguments:\n"name": "x"'
    )
    assert question.requested_schema["properties"]["approve"]["type"] == "boolean"
    assert question.requested_schema["required"] == ["approve"]
    assert guarded.kinds() == ["requested", "approved", "used"]
    assert {(event.via, event.request.user) for event in guarded.events} == {("client", "")}
    assert len(guarded.approvals) == len(guarded.rounds) == 0


@versions
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"approve": False}, "the person did not approve it"),
        ("decline", "the person declined it"),
        ("cancel", "the person dismissed the question"),
        ("accept", "the answer of its client is invalid"),
        ({}, "the answer of its client is invalid"),
        ({"approve": "true"}, "the answer of its client is invalid"),
        ({"approve": 1}, "the answer of its client is invalid"),
        (ElicitationAnswer("decline", {"approve": True}), "the person declined it"),
        (ElicitationAnswer("approve", {"approve": True}), "the answer of its client is invalid"),
    ],
)
async def test_every_other_answer_is_a_denial(version: str, answer: Any, reason: str) -> None:
    guarded = GuardedServer()
    async with connect(guarded.server, protocol_version=version, elicitation=[answer]) as client:
        result = await client.call_tool("delete", {"name": "x"})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["error"]["type"] == "approval_denied"
    assert reason in result.structured_content["error"]["message"]
    assert guarded.ran == []
    assert guarded.kinds() == ["requested", "denied"]
    assert len(guarded.approvals) == len(guarded.rounds) == 0


@versions
async def test_each_call_is_asked_for_again(version: str) -> None:
    guarded = GuardedServer()
    async with connect(guarded.server, protocol_version=version, elicitation=[YES, "decline", YES]) as client:
        outcomes = [(await client.call_tool("delete", {"name": "x"})).is_error for _ in range(3)]
    assert outcomes == [UNSET, True, UNSET]
    assert guarded.ran == ["delete x", "delete x"]


@versions
async def test_a_client_that_cannot_ask_uses_the_queue(version: str) -> None:
    guarded = GuardedServer()
    async with connect(guarded.server, protocol_version=version) as client:
        waiting = await client.call_tool("delete", {"name": "x"})
        assert waiting.structured_content is not None
        error = waiting.structured_content["error"]
        assert (waiting.is_error, error["type"]) == (True, "approval_required")
        assert guarded.ran == []
        guarded.approvals.approve(error["data"]["approvalId"], Principal("operator"))
        other = await client.call_tool("delete", {"name": "y"})
        assert other.is_error
        assert (await client.call_tool("delete", {"name": "x"})).text == "deleted x"
        assert (await client.call_tool("delete", {"name": "x"})).is_error
    assert guarded.ran == ["delete x"]


@versions
async def test_the_queue_is_used_if_the_settings_say_so(version: str) -> None:
    guarded = GuardedServer(via="queue")
    async with connect(guarded.server, protocol_version=version, elicitation=[]) as client:
        waiting = await client.call_tool("delete", {"name": "x"})
    assert waiting.structured_content is not None
    assert waiting.structured_content["error"]["type"] == "approval_required"


@pytest.mark.parametrize("version", ["2025-03-26", *VERSIONS])
async def test_a_client_that_must_ask_but_cannot_is_refused(version: str) -> None:
    guarded = GuardedServer(via="client")
    async with connect(guarded.server, protocol_version=version) as client:
        result = await client.call_tool("delete", {"name": "x"})
    assert "approval_denied" in result.text
    assert "its client cannot ask a person, because it does not support elicitation" in result.text
    assert guarded.ran == []


class SlowPerson:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.decided = asyncio.Event()

    async def __call__(self, request: ElicitationRequest) -> ElicitationAnswer:
        self.asked.set()
        await self.decided.wait()
        return ElicitationAnswer("accept", {"approve": True})


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_no_answer_in_time_is_a_denial(version: str) -> None:
    guarded, person = GuardedServer(expires_s=100), SlowPerson()
    async with Client(guarded.server, protocol_version=version, elicitation=person) as client:
        call = asyncio.create_task(client.call_tool("delete", {"name": "x"}, timeout_s=1000))
        await person.asked.wait()
        await advance_and_settle(100)
        result = await call
        assert "no person answered in time" in result.text
    assert guarded.kinds() == ["requested", "denied"]
    assert guarded.ran == []


async def test_an_answer_after_the_time_limit_starts_nothing() -> None:
    guarded, person = GuardedServer(expires_s=100), SlowPerson()
    async with Client(guarded.server, protocol_version=MODERN, elicitation=person) as client:
        call = asyncio.create_task(client.call_tool("delete", {"name": "x"}, timeout_s=1000))
        await person.asked.wait()
        await advance_and_settle(100)
        await wait_until(lambda: len(guarded.rounds) == 0)
        person.decided.set()
        with pytest.raises(RemoteError, match="start again without `requestState`"):
            await call
    assert guarded.kinds() == ["requested", "denied"]
    assert guarded.ran == []


@pytest.mark.requirement("L4")
@versions
async def test_a_policy_that_changes_meanwhile_makes_the_answer_worthless(version: str) -> None:
    guarded, person = GuardedServer(), SlowPerson()
    async with Client(guarded.server, protocol_version=version, elicitation=person) as client:
        call = asyncio.create_task(client.call_tool("delete", {"name": "x"}))
        await person.asked.wait()
        guarded.policy_version = "v2"
        person.decided.set()
        result = await call
    assert "the policy changed while the person was asked" in result.text
    assert guarded.ran == []


async def test_a_cancelled_call_ends_its_request() -> None:
    guarded, person = GuardedServer(), SlowPerson()
    async with Client(guarded.server, protocol_version="2025-11-25", elicitation=person) as client:
        call = asyncio.create_task(client.call_tool("delete", {"name": "x"}))
        await person.asked.wait()
        call.cancel()
        await wait_until(lambda: len(guarded.approvals) == 0)
    assert call.cancelled()
    assert guarded.events[-1].reason == "the call ended before a person answered"
    assert guarded.ran == []


async def test_cancelling_the_caller_stays_a_cancellation() -> None:
    path, asked = RecordingReturnPath(), asyncio.Event()

    async def wait_forever() -> None:
        asked.set()
        await asyncio.Event().wait()

    path.before_answer = wait_forever
    caller = make_caller(NEWEST_LEGACY, {"elicitation": {}}, principal="ada")
    call = Call(
        id=NULL, method="tools/call", raw=NULL, params=None, meta=NO_META, caller=caller, back=path
    )  # fmt: skip
    approvals = Approvals()
    marked = MarkedCall(caller.principal, "shop", "delete", b"{}", PolicyDecision("confirm", "default", version="v1"))
    waiting = asyncio.create_task(approve_call(approvals, call, marked, lambda: "v1"))
    await asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(approvals) == 0


@versions
async def test_an_approved_tool_may_ask_for_input_of_its_own(version: str) -> None:
    guarded = GuardedServer()
    answers = [YES, {"size": 42}, YES, {"size": 43}]
    async with connect(guarded.server, protocol_version=version, elicitation=answers) as client:
        assert (await client.call_tool("order", {"item": "shoes"})).text == "ordered shoes in 42"
        assert (await client.call_tool("order", {"item": "shoes"})).text == "ordered shoes in 43"
    assert guarded.ran == ["order shoes 42", "order shoes 43"]
    assert guarded.kinds() == ["requested", "approved", "used"] * 2
    assert len(guarded.continued) == 0


@pytest.mark.parametrize(
    ("transport", "version"),
    [("streamable_http", "2025-11-25"), ("streamable_http", MODERN), ("sse", None), ("websocket", "2025-11-25")],
)
async def test_people_are_asked_over_the_network(transport: str, version: str | None) -> None:
    guarded, person = GuardedServer(), ElicitationScript(YES, {"size": 42}, "decline")
    async with run_server(guarded.server) as running:
        scheme = "ws" if transport == "websocket" else "http"
        url = f"{scheme}://127.0.0.1:{running.site.port}{PATHS[transport]}"
        config = ServerConfig(id="shop", transport=transport, url=url, protocol_version=version)
        async with Client(config, elicitation=person) as client:
            assert (await client.call_tool("order", {"item": "shoes"})).text == "ordered shoes in 42"
            assert (await client.call_tool("delete", {"name": "x"})).is_error
    person.assert_finished()
    assert guarded.ran == ["order shoes 42"]
    assert guarded.kinds() == ["requested", "approved", "used", "requested", "denied"]
