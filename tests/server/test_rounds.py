"""Client requests in the stateless era: the handler runs once, the request is repeated."""

import asyncio
from typing import Any

import pytest
from tests.server.asking_server import AskingServer, accept, call, retry_with_answers, text
from tests.server.raw_client import MODERN, Message, connect_raw_client

from hubbub import Context, bounds
from hubbub.rounds import Rounds

# -- rounds ----------------------------------------------------------------


async def test_a_client_request_is_an_input_required_result_and_a_retry_carries_the_response() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("greet", {"greeting": "Hi"})
        assert first.pop("requestState")
        assert first.pop("_meta")
        assert first == {
            "resultType": "input_required",
            "inputRequests": {
                "who": {
                    "method": "elicitation/create",
                    "params": {
                        "mode": "form",
                        "message": "Your name?",
                        "requestedSchema": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}},
                            "required": ["name"],
                        },
                    },
                }
            },
        }
        first = await client.call("greet", {"greeting": "Hi"})
        answer = await retry_with_answers(client, call("greet", greeting="Hi"), first, {"who": accept(name="Ada")})
    assert text(answer) == "Hi Ada"
    assert answer["result"]["resultType"] == "complete"
    assert asking.started == ["greet", "greet"]
    assert asking.ended == ["greet"]


async def test_concurrent_client_requests_are_sent_in_one_result() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("both_at_once")
        assert sorted(first["inputRequests"]) == ["age", "name"]
        responses = {"name": accept(name="Ada"), "age": accept(age=36)}
        assert text(await retry_with_answers(client, call("both_at_once"), first, responses)) == "Ada is 36"
    assert asking.started == asking.ended == ["both"]


async def test_a_retry_with_some_responses_is_asked_for_the_others_again() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("both_at_once")
        second = (await retry_with_answers(client, call("both_at_once"), first, {"age": accept(age=36)}))["result"]
        assert list(second["inputRequests"]) == ["name"]
        third = await retry_with_answers(client, call("both_at_once"), second, {"name": accept(name="Ada")})
        assert text(third) == "Ada is 36"
    assert asking.started == ["both"]


async def test_each_round_has_its_own_request_state_and_the_handler_runs_once() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        result, states = await client.call("one_by_one"), []
        answer: Message = {}
        for word in ("one", "two", "three"):
            states.append(result["requestState"])
            (key,) = result["inputRequests"]
            answer = await retry_with_answers(client, call("one_by_one"), result, {key: accept(name=word)})
            result = answer["result"]
        assert text(answer) == "one two three"
        assert len(set(states)) == 3
        assert len(asking.server.rounds) == 0
    assert asking.started == asking.ended == ["one_by_one"]


async def test_sampling_and_roots_use_rounds_too() -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.call("everything")
        assert first["inputRequests"] == {
            "model": {
                "method": "sampling/createMessage",
                "params": {
                    "messages": [{"role": "user", "content": {"type": "text", "text": "Write a word"}}],
                    "maxTokens": 5,
                },
            }
        }
        sampled = {"role": "assistant", "content": {"type": "text", "text": "word"}, "model": "m"}
        second = (await retry_with_answers(client, call("everything"), first, {"model": sampled}))["result"]
        assert second["inputRequests"] == {"roots": {"method": "roots/list", "params": {}}}
        roots = {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}
        third = await retry_with_answers(client, call("everything"), second, {"roots": roots})
    assert text(third) == "word ['file:///a', 'file:///b']"


async def test_prompts_and_resources_can_send_client_requests() -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.result("prompts/get", {"name": "poem"})
        assert "ttlMs" not in first
        responses = {"who": accept(name="Ada")}
        answer = await retry_with_answers(client, {"name": "poem"}, first, responses, method="prompts/get")
        assert answer["result"]["messages"][0]["content"]["text"] == "A poem about Ada"
        first = await client.result("resources/read", {"uri": "diary:today"})
        assert "ttlMs" not in first
        answer = await retry_with_answers(client, {"uri": "diary:today"}, first, responses, method="resources/read")
        assert answer["result"]["contents"][0]["text"] == "Diary of Ada"


async def test_a_tool_in_a_thread_can_send_client_requests() -> None:
    asking = AskingServer()
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("in_a_thread")
        answer = await retry_with_answers(client, call("in_a_thread"), first, {"who": accept(name="Ada")})
        assert text(answer) == "Hello Ada"
    assert asking.started == ["in_a_thread"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_decline_an_elicitation(action: str) -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.call("greet")
        assert text(await retry_with_answers(client, call("greet"), first, {"who": {"action": action}})) == action


async def test_progress_goes_to_the_open_request_under_its_own_token() -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        first = await client.call("steps", meta={"progressToken": "first"})
        await retry_with_answers(client, call("steps"), first, {"who": accept(name="x")}, meta={"progressToken": 2})
        tokens = [(note["progressToken"], note["progress"]) for note in client.notifications("notifications/progress")]
        assert tokens == [("first", 1), (2, 2)]
        client.received.clear()
        first = await client.call("steps", meta={"progressToken": "first"})
        await retry_with_answers(client, call("steps"), first, {"who": accept(name="x")})
        assert [note["progressToken"] for note in client.notifications("notifications/progress")] == ["first"]


@pytest.mark.parametrize(
    ("tool", "arguments", "required"),
    [
        ("greet", {}, {"elicitation": {}}),
        ("book", {"flight": "X1"}, {"elicitation": {}}),
        ("everything", {}, {"sampling": {}}),
    ],
)
@pytest.mark.parametrize("capabilities", [{}, {"roots": {}}])
async def test_the_error_names_the_capability_that_the_client_lacks(
    tool: str, arguments: dict[str, str], required: dict[str, Any], capabilities: dict[str, Any]
) -> None:
    async with connect_raw_client(AskingServer().server, MODERN, capabilities) as client:
        error = await client.error("tools/call", call(tool, **arguments))
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": required}


# -- limits ----------------------------------------------------------------------


async def test_the_rounds_of_one_call_are_limited() -> None:
    async with connect_raw_client(AskingServer().server, MODERN) as client:
        result = await client.call("endless")
        answer: Message = {}
        for _ in range(bounds.ROUNDS_PER_CALL):
            (key,) = result["inputRequests"]
            answer = await retry_with_answers(client, call("endless"), result, {key: accept(name="yes")})
            if "error" in answer:
                break
            result = answer["result"]
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"]["reason"] == "overloaded"


async def test_a_handler_whose_client_request_expires_is_cancelled() -> None:
    asking = AskingServer()
    asking.server.rounds = Rounds(asking.server.sealer, input_timeout_s=0.05)
    async with connect_raw_client(asking.server, MODERN) as client:
        first = await client.call("greet")
        async with asyncio.timeout(60):
            while len(asking.server.rounds):
                await asyncio.sleep(0.01)
        late = await retry_with_answers(client, call("greet"), first, {"who": accept(name="Ada")})
        assert late["error"]["code"] == -32602
    assert asking.ended == []


async def test_a_caller_that_disconnects_cancels_the_handler() -> None:
    asking = AskingServer()
    running = asyncio.Event()

    @asking.server.tool
    async def slow(ctx: Context) -> str:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asking.cancelled.set()
            raise
        return "never"

    async with connect_raw_client(asking.server, MODERN) as client:
        client.send_request("tools/call", call("slow"), id=1)
        await running.wait()
        client.notify("notifications/cancelled", {"requestId": 1})
        await asking.cancelled.wait()
        await client.wait_until_idle()
        assert len(asking.server.rounds) == 0


async def test_a_stopping_server_ends_suspended_handlers() -> None:
    asking = AskingServer()
    async with asking.server.running(), connect_raw_client(asking.server, MODERN) as client:
        await client.call("greet")
        assert len(asking.server.rounds) == 1
    assert asking.cancelled.is_set()
    assert len(asking.server.rounds) == 0
