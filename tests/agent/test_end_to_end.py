"""The three builders together, with a real server on stdio and a real endpoint over HTTP."""

import json
import time

import pytest
from tests.agent.chat_endpoint import answer, delta, run_endpoint, stream_answer
from tests.agent.fakes import EventRecorder
from tests.agent.servers import stdio

from hubbub import (
    Confirm,
    Definition,
    ExecutorBuilder,
    OpenAIChat,
    PolicyRequest,
    ToolLoopRunner,
    ToolRegistryBuilder,
    ToolsBuilder,
)
from hubbub.security.policy import Decision

ECHO = stdio("demo")
CALL = ("c1", "mcp_demo__echo", '{"text": "hello"}')
OWN = Definition("today", "The day of the week.")
TOOL_CALL_CHUNKS = [
    delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "mcp_demo__echo", "arguments": '{"text":'}}]),
    delta("tool_calls", tool_calls=[{"index": 0, "function": {"arguments": ' "hello"}'}}]),
]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_model_uses_the_tools_of_a_server_and_of_the_application(is_streamed: bool) -> None:
    answers = [
        stream_answer(*TOOL_CALL_CHUNKS) if is_streamed else answer(None, CALL),
        answer(None, ("c2", "today", "")),
        stream_answer(delta(content="It said "), delta("stop", content="hello."))
        if is_streamed
        else answer("It said hello."),
    ]
    recorder = EventRecorder()
    texts: list[str] = []
    async with (
        await ToolRegistryBuilder([ECHO]).build() as snapshot,
        run_endpoint(*answers) as endpoint,
        OpenAIChat(endpoint.url, model="m", api_key="sk-verysecretkey") as chat,
    ):
        registry = ToolsBuilder.build([OWN], mcp_definitions=snapshot.definitions)
        executor = ExecutorBuilder.build(
            registry=registry, mcp_snapshot=snapshot, default_executor=lambda name, arguments: "Sunday"
        )
        runner = ToolLoopRunner(registry, executor, chat=chat, system="Use tools.")
        result = await runner.run(
            "Say hello to the server.", on_event=recorder, on_text=texts.append if is_streamed else None
        )

    assert result.assistant_text == "It said hello."
    assert texts == (["It said ", "hello."] if is_streamed else [])
    shown = [tool["function"]["name"] for tool in endpoint.bodies[0]["tools"]]
    assert shown == ["mcp_demo__echo", "today"]
    assert [message["role"] for message in endpoint.bodies[2]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    tool_results = [message["content"] for message in endpoint.bodies[2]["messages"] if message["role"] == "tool"]
    first, second = map(json.loads, tool_results)
    assert first["ok"] is True
    assert first["data"]["text"].startswith("hello")
    assert first["data"]["mcp"]["server_id"] == "demo"
    assert first["data"]["text"] == "hello"
    assert second["data"] == {"value": "Sunday"}
    assert "hello" not in repr(recorder.events)


def confirm_all(request: PolicyRequest) -> Decision:
    return Confirm(request.digest, time.time() + 60)


async def test_a_call_that_needs_confirmation_reaches_the_server_only_after_it() -> None:
    async with (
        await ToolRegistryBuilder([ECHO]).build() as snapshot,
        run_endpoint(answer(None, CALL), answer("done")) as endpoint,
        OpenAIChat(endpoint.url, model="m") as chat,
    ):
        registry = ToolsBuilder.build(mcp_definitions=snapshot.definitions)
        executor = ExecutorBuilder.build(registry=registry, mcp_snapshot=snapshot)
        runner = ToolLoopRunner(registry, executor, chat=chat, decide=confirm_all)
        paused = await runner.run("Say hello.")
        assert (paused.status, paused.pending[0].server_id) == ("paused", "demo")
        assert len(endpoint.bodies) == 1
        result = await runner.resume(paused.continuation, {"c1": "allow"})
    assert result.assistant_text == "done"
    assert json.loads(endpoint.bodies[1]["messages"][-1]["content"])["data"]["text"].startswith("hello")


async def test_invalid_arguments_are_reported_to_the_model_as_text() -> None:
    async with (
        await ToolRegistryBuilder([ECHO]).build() as snapshot,
        run_endpoint(answer(None, ("c1", "mcp_demo__echo", '{"txet": "x"}')), answer("sorry")) as endpoint,
        OpenAIChat(endpoint.url, model="m") as chat,
    ):
        registry = ToolsBuilder.build(mcp_definitions=snapshot.definitions)
        executor = ExecutorBuilder.build(registry=registry, mcp_snapshot=snapshot)
        await ToolLoopRunner(registry, executor, chat=chat).run("Say hello.")
    (error,) = json.loads(endpoint.bodies[1]["messages"][-1]["content"])["errors"]
    assert error["code"] == "ARGUMENT_ERROR"
    assert "text" in error["message"]
