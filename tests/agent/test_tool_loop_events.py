"""What a run tells of itself: events while it goes on, and the trace when it has ended."""

import asyncio
from typing import Any

import pytest
from tests.agent.play import BROKEN, Play
from tests.agent.scripted import Tools, calls, says

from hubbub import ModelAnswer, ModelToolCall


async def test_events_tell_the_run_in_order() -> None:
    play = Play(calls("now"), says("x"))
    result = await play.run(context={"tenant": "t" * 1000})
    assert play.seen.types() == [
        "llm_request_start",
        "llm_request_end",
        "tool_call_start",
        "tool_call_end",
        "llm_request_start",
        "llm_request_end",
        "final",
    ]
    assert {event.run_id for event in play.seen.events} == {result.run_id}
    assert [event.turn for event in play.seen.events] == [1, 1, 1, 1, 2, 2, 2]
    assert all(event.context == {"tenant": "t" * 200} for event in play.seen.events)


async def test_events_hold_no_arguments_and_no_outputs() -> None:
    own = Tools(now="OUTPUT-CANARY", search=RuntimeError("ERROR-CANARY"))
    wanted = [ModelToolCall("c", name, '{"a": "ARGUMENT-CANARY"}') for name in ("now", "search", "other")]
    play = Play(calls(*wanted, text="TEXT-CANARY"), says("FINAL-CANARY"), own=own)
    await play.run("USER-CANARY")
    assert "CANARY" not in repr(play.seen.events)
    assert play.seen.events[3].type == "tool_call_start"
    assert play.seen.events[3].details["argument_bytes"] == 24


async def test_a_handler_that_fails_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def handler(event: Any) -> None:
        raise RuntimeError("the display is gone")

    play = Play(calls("now"), says("x"))
    assert (await play.runner.run("hi", on_event=handler)).assistant_text == "x"
    assert "a handler of events failed" in caplog.text


async def test_a_handler_may_be_async() -> None:
    seen: list[str] = []

    async def handler(event: Any) -> None:
        await asyncio.sleep(0)
        seen.append(event.type)

    await Play(says("x")).runner.run("hi", on_event=handler)
    assert seen == ["llm_request_start", "llm_request_end", "final"]


async def test_the_trace_keeps_usage_and_outcomes() -> None:
    first = calls("now")
    play = Play(
        ModelAnswer(calls=first.calls, finish_reason="tool_calls", usage={"total_tokens": 7}),
        says("x"),
        own=Tools(now=BROKEN),
    )
    result = await play.run()
    turn, last = result.trace
    assert (turn.usage, turn.finish_reason) == ({"total_tokens": 7}, "tool_calls")
    assert [(call.name, call.ok, call.error_codes) for call in turn.calls] == [("now", False, ["MINE"])]
    assert (last.finish_reason, last.calls) == ("stop", [])
