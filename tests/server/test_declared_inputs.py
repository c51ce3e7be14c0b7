"""Inputs that a tool declares in its signature: requested before it runs, so that the server keeps no state."""

import pytest
from tests.server.asking_server import AskingServer, accept, call, retry_with_answers, text
from tests.server.raw_client import MODERN, connect_raw_client


async def test_a_declared_input_needs_no_request_state() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        (entry,) = [tool for tool in (await client.result("tools/list"))["tools"] if tool["name"] == "book"]
        assert list(entry["inputSchema"]["properties"]) == ["flight"]
        first = await client.call("book", {"flight": "X1"})
        assert first["resultType"] == "input_required"
        assert "requestState" not in first
        assert first["inputRequests"]["seat"]["params"]["message"] == "Which seat?"
        assert asking.started == []
        assert len(asking.server.rounds) == 0
    # Any node can serve the repeated request: here a server that never saw the first.
    other = AskingServer()
    async with connect_raw_client(other.server, MODERN) as client:
        answer = await retry_with_answers(client, call("book", flight="X1"), first, {"seat": accept(name="12A")})
        assert text(answer) == "X1: 12A"
    assert other.started == ["book"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_declined_declared_input_is_a_failed_tool(action: str) -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("book", {"flight": "X1"})
        answer = await retry_with_answers(client, call("book", flight="X1"), first, {"seat": {"action": action}})
        assert answer["result"]["isError"] is True
    assert asking.started == []


@pytest.mark.parametrize("response", [5, None, {}, {"action": 5}, accept(name=5)])
async def test_a_wrong_declared_input_is_an_error(response: object) -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        params = call("book", flight="X1") | {"inputResponses": {"seat": response}}
        assert (await client.error("tools/call", params))["code"] == -32602
    assert asking.started == []


async def test_wrong_arguments_are_reported_once_the_declared_input_is_given() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        answer = await retry_with_answers(client, call("book"), {}, {"seat": accept(name="12A")})
        assert answer["result"]["structuredContent"]["error"]["type"] == "validation_error"
    assert asking.started == []


async def test_a_tool_may_declare_inputs_and_send_client_requests() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("declared_and_asked")
        second = (await retry_with_answers(client, call("declared_and_asked"), first, {"who": accept(name="Ada")}))[
            "result"
        ]
        assert second["inputRequests"]["age"]["params"]["message"] == "How old is Ada?"
        third = await retry_with_answers(client, call("declared_and_asked"), second, {"age": accept(age=36)})
        assert text(third) == "Ada is 36"
    assert asking.started == ["declared_and_asked"]
