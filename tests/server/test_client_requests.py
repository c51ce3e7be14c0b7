"""Tools that send client requests, called in a session, where the client responds while the call is open, and by plain
callers, to which no requests can be sent."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.asking_server import AskingServer, accept, call, text
from tests.server.raw_client import LEGACY, PLAIN, Message, connect_raw_client

from hubbub import bounds


def answer_with(**content: object) -> Callable[[Message], Message]:
    return lambda message: {"result": accept(**content)}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_in_a_session_client_requests_are_sent_while_the_call_is_open(version: str) -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, version) as client:
        client.reply_with = answer_with(name="Ada")
        assert (await client.call("greet"))["content"][0]["text"] == "Hello Ada"
        (question,) = client.received
        assert question["method"] == "elicitation/create"
        assert ("mode" in question["params"]) == (version == "2025-11-25")
        assert (await client.call("one_by_one"))["content"][0]["text"] == "Ada Ada Ada"
        assert (await client.call("in_a_thread"))["content"][0]["text"] == "Hello Ada"
        assert (await client.call("book", {"flight": "X1"}))["content"][0]["text"] == "X1: Ada"
    assert len(asking.server.rounds) == 0


async def test_in_a_session_concurrent_client_requests_are_open_at_once() -> None:
    async with connect_raw_client(AskingServer().server, "2025-11-25") as client:
        identifier = client.send_request("tools/call", call("both_at_once"))
        questions = [await client.next_message() for _ in range(2)]
        contents = {"Name?": accept(name="Ada"), "Age?": accept(age=36)}
        for question in reversed(questions):
            client.send({"jsonrpc": "2.0", "id": question["id"], "result": contents[question["params"]["message"]]})
        assert text(await client.response_to(identifier)) == "Ada is 36"


async def test_a_call_that_waits_for_the_client_leaves_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connect_raw_client(AskingServer().server, "2025-11-25") as client:
        connection, resumed = client.transport.duplex, asyncio.Event()
        monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
        identifier = client.send_request("tools/call", call("greet"))
        assert connection.is_busy
        connection.when_ready(resumed.set)
        question = await client.next_message()
        await asyncio.wait_for(resumed.wait(), 60)
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": accept(name="Ada")})
        assert text(await client.response_to(identifier)) == "Hello Ada"


@pytest.mark.parametrize("version", LEGACY)
async def test_in_a_session_sampling_and_roots_requests_are_sent(version: str) -> None:
    def reply(message: Message) -> Message:
        if message["method"] == "roots/list":
            return {"result": {"roots": [{"uri": "file:///a"}]}}
        return {"result": {"role": "assistant", "content": {"type": "text", "text": "word"}, "model": "m"}}

    async with connect_raw_client(AskingServer().server, version) as client:
        client.reply_with = reply
        assert (await client.call("everything"))["content"][0]["text"] == "word ['file:///a']"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_in_a_session_a_user_may_decline_an_elicitation(action: str) -> None:
    async with connect_raw_client(AskingServer().server, "2025-11-25") as client:
        client.reply_with = lambda message: {"result": {"action": action}}
        assert (await client.call("greet"))["content"][0]["text"] == action
        assert (await client.call("book", {"flight": "X1"}))["isError"] is True


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"code": -1, "message": "User rejected"}},
        {"error": {"code": "x", "message": 5}},
        {"error": "nonsense"},
    ],
)
async def test_in_a_session_an_error_response_fails_the_tool(reply: dict[str, Any]) -> None:
    async with connect_raw_client(AskingServer().server, "2025-11-25") as client:
        client.reply_with = lambda message: reply
        assert (await client.call("greet"))["isError"] is True


@pytest.mark.parametrize("result", [None, 5, {}, [], {"action": "maybe"}, accept(name=5), accept()])
async def test_in_a_session_an_invalid_response_ends_the_call_with_an_error(result: object) -> None:
    async with connect_raw_client(AskingServer().server, "2025-11-25") as client:
        client.reply_with = lambda message: {"result": result}
        answer = await client.ask("tools/call", call("greet"))
        assert "error" in answer or answer["result"]["isError"]


async def test_in_a_session_a_cancelled_call_cancels_its_client_request() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, "2025-11-25") as client:
        client.send_request("tools/call", call("greet"), id="c")
        question = await client.next_message()
        client.notify("notifications/cancelled", {"requestId": "c"})
        cancelled_request = await client.next_message()
        assert cancelled_request["method"] == "notifications/cancelled"
        assert cancelled_request["params"]["requestId"] == question["id"]
        assert asking.cancelled.is_set()
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": accept(name="late")})
        await client.wait_until_idle()
        assert client.received == []


async def test_in_a_session_a_client_that_disconnects_ends_its_client_requests() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, "2025-11-25") as client:
        client.send_request("tools/call", call("greet"), id="c")
        await client.next_message()
        await client.transport.finish()
        assert (await client.response_to("c"))["result"]["isError"] is True


async def test_a_client_request_to_a_plain_caller_is_an_error() -> None:
    async with connect_raw_client(AskingServer().server, PLAIN) as client:
        for tool, arguments in (("greet", {}), ("book", {"flight": "X1"}), ("everything", {})):
            assert (await client.error("tools/call", call(tool, **arguments)))["code"] == -32002
