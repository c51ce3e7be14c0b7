"""Events during a run, and its trace."""

import asyncio
from typing import Any

import pytest
from tests.agent.fakes import FakeTools, calls, text_answer
from tests.agent.loop_harness import FAILED_ENVELOPE, LoopHarness

from hubbub import ModelResponse, ModelToolCall


async def test_events_describe_the_run_in_order() -> None:
    harness = LoopHarness(calls("now"), text_answer("x"))
    result = await harness.run(context={"tenant": "t" * 1000})
    assert harness.recorder.types() == [
        "llm_request_start",
        "llm_request_end",
        "tool_call_start",
        "tool_call_end",
        "llm_request_start",
        "llm_request_end",
        "final",
    ]
    assert {event.run_id for event in harness.recorder.events} == {result.run_id}
    assert [event.turn for event in harness.recorder.events] == [1, 1, 1, 1, 2, 2, 2]
    assert all(event.context == {"tenant": "t" * 200} for event in harness.recorder.events)


async def test_events_contain_no_arguments_and_no_outputs() -> None:
    local_tools = FakeTools(now="OUTPUT-CANARY", search=RuntimeError("ERROR-CANARY"))
    wanted = [ModelToolCall("c", name, '{"a": "ARGUMENT-CANARY"}') for name in ("now", "search", "other")]
    harness = LoopHarness(calls(*wanted, text="TEXT-CANARY"), text_answer("FINAL-CANARY"), local_tools=local_tools)
    await harness.run("USER-CANARY")
    assert "CANARY" not in repr(harness.recorder.events)
    assert harness.recorder.events[3].type == "tool_call_start"
    assert harness.recorder.events[3].details["argument_bytes"] == 24


async def test_a_handler_that_fails_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def handler(event: Any) -> None:
        raise RuntimeError("the display is gone")

    harness = LoopHarness(calls("now"), text_answer("x"))
    assert (await harness.runner.run("hi", on_event=handler)).assistant_text == "x"
    assert "an event handler failed" in caplog.text


async def test_a_handler_may_be_async() -> None:
    seen: list[str] = []

    async def handler(event: Any) -> None:
        await asyncio.sleep(0)
        seen.append(event.type)

    await LoopHarness(text_answer("x")).runner.run("hi", on_event=handler)
    assert seen == ["llm_request_start", "llm_request_end", "final"]


async def test_the_trace_keeps_usage_and_outcomes() -> None:
    first = calls("now")
    harness = LoopHarness(
        ModelResponse(calls=first.calls, finish_reason="tool_calls", usage={"total_tokens": 7}),
        text_answer("x"),
        local_tools=FakeTools(now=FAILED_ENVELOPE),
    )
    result = await harness.run()
    turn, last = result.trace
    assert (turn.usage, turn.finish_reason) == ({"total_tokens": 7}, "tool_calls")
    assert [(call.name, call.ok, call.error_codes) for call in turn.calls] == [("now", False, ["MINE"])]
    assert (last.finish_reason, last.calls) == ("stop", [])
