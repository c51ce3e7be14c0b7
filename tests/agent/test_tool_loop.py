"""Runs of the tool loop with a scripted model: start, turns, end."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.agent.fakes import FakeTools, ScriptedModel, calls, definitions, text_answer
from tests.agent.loop_harness import FAILED_ENVELOPE, LoopHarness

from hubbub import (
    InvalidParams,
    LoopOptions,
    ModelError,
    ModelHttpError,
    ModelTimeout,
    ModelToolCall,
    Registry,
    SettingsError,
    ToolLoopRunner,
    ToolsBuilder,
    ToolUseError,
)


async def test_a_response_without_calls_ends_the_run() -> None:
    harness = LoopHarness(text_answer("hello"))
    result = await harness.run("hi")
    assert (result.status, result.assistant_text) == ("finished", "hello")
    assert result.history == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


async def test_a_call_is_run_and_its_result_is_sent_to_the_model() -> None:
    harness = LoopHarness(
        calls(ModelToolCall("c1", "now", '{"zone": "UTC"}'), text="Let me see."),
        text_answer("noon"),
        local_tools=FakeTools(now=12),
    )
    result = await harness.run("what time is it?")
    assert result.assistant_text == "noon"
    assert harness.local_tools.calls == [("now", {"zone": "UTC"}, "c1")]
    user, assistant, tool_message = harness.model.requests[1].messages
    assert user["content"] == "what time is it?"
    assert assistant == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"zone":"UTC"}'}},
        ],
    }
    assert (tool_message["role"], tool_message["tool_call_id"]) == ("tool", "c1")
    assert json.loads(tool_message["content"]) == {
        "ok": True,
        "tool_name": "now",
        "data": {"value": 12},
        "warnings": [],
        "errors": [],
    }


async def test_a_run_continues_from_a_history() -> None:
    harness = LoopHarness(text_answer("first"), text_answer("second"))
    history = (await harness.run("one")).history
    await harness.run("two", history=history)
    assert [message["content"] for message in harness.model.requests[1].messages] == ["one", "first", "two"]


async def test_the_history_passed_in_is_not_changed() -> None:
    history = [{"role": "user", "content": "one"}]
    await LoopHarness(calls("now"), text_answer("x")).run("two", history=history)
    assert history == [{"role": "user", "content": "one"}]


async def test_a_run_needs_a_prompt_or_a_history() -> None:
    harness = LoopHarness(text_answer("x"))
    await harness.run("", history=[{"role": "user", "content": "one"}])
    assert len(harness.model.requests[0].messages) == 1
    with pytest.raises(InvalidParams):
        await harness.run(" ")


async def test_the_system_prompt_comes_first_and_is_not_part_of_the_history() -> None:
    harness = LoopHarness(text_answer("x"), system="Be brief.")
    result = await harness.run()
    assert harness.model.requests[0].messages[0] == {"role": "system", "content": "Be brief."}
    assert [message["role"] for message in result.history] == ["user", "assistant"]


async def test_tools_are_sent_with_the_tool_choice() -> None:
    harness = LoopHarness(text_answer("x"))
    await harness.run()
    request = harness.model.requests[0]
    assert [tool["function"]["name"] for tool in request.tools] == ["now", "search"]
    assert (request.tool_choice, request.parallel_tool_calls) == ("auto", None)


async def test_the_tool_choice_can_be_set() -> None:
    harness = LoopHarness(text_answer("x"), tool_choice="required", parallel_tool_calls=True)
    await harness.run()
    request = harness.model.requests[0]
    assert (request.tool_choice, request.parallel_tool_calls) == ("required", True)


async def test_text_is_streamed_if_requested() -> None:
    texts: list[str] = []
    await LoopHarness(calls("now", text="one"), text_answer("two")).run(on_text=texts.append)
    assert texts == ["one", "two"]


async def test_the_number_of_turns_is_limited() -> None:
    harness = LoopHarness(*[calls("now")] * 3)
    with pytest.raises(ToolUseError, match="3 turns") as caught:
        await harness.run(max_turns=3)
    assert caught.value.code == "MAX_TURNS"
    assert len(harness.local_tools.calls) == 3
    assert caught.value.history[-1]["role"] == "tool"
    with pytest.raises(SettingsError):
        await harness.run(max_turns=0)


async def test_runs_can_be_concurrent() -> None:
    harness = LoopHarness(*[text_answer("x")] * 8)
    results = await asyncio.gather(*(harness.run(str(number)) for number in range(8)))
    assert len({result.run_id for result in results}) == 8
    assert sorted(result.history[0]["content"] for result in results) == [str(number) for number in range(8)]


async def test_cancelling_a_run_cancels_its_calls() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def local_tools(name: str, arguments: Mapping[str, Any]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    harness = LoopHarness(calls("now", "search"), local_tools=local_tools, runs_in_parallel=True)
    task = asyncio.ensure_future(harness.run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_tools_without_an_executor_are_refused() -> None:
    registry = ToolsBuilder.build(definitions("now"))
    with pytest.raises(SettingsError, match="executor"):
        ToolLoopRunner(registry, None, chat=ScriptedModel())
    ToolLoopRunner(registry, None, chat=ScriptedModel(), options=LoopOptions(tool_use_mode="disabled"))
    ToolLoopRunner(Registry(), None, chat=ScriptedModel())


@pytest.mark.parametrize(
    "option",
    [
        {"tool_use_mode": "off"},
        {"tool_failure_policy": "x"},
        {"policy_error_mode": "allow"},
        {"max_calls_per_turn": 0},
        {"max_output_bytes": 0},
    ],
)
def test_unknown_options_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(option))):
        LoopOptions(**option)


# -- modes ------------------------------------------------------------------------


async def test_disabled_tools_are_neither_listed_nor_run() -> None:
    harness = LoopHarness(calls("now", text="anyway"), tool_use_mode="disabled")
    result = await harness.run()
    assert harness.model.requests[0].tools == []
    assert harness.model.requests[0].tool_choice is None
    assert harness.local_tools.calls == []
    assert (result.assistant_text, result.trace[0].ignored_calls) == ("anyway", 1)


async def test_an_enforced_run_without_a_call_is_an_error() -> None:
    with pytest.raises(ToolUseError) as caught:
        await LoopHarness(text_answer("x"), tool_use_mode="enforced").run()
    assert caught.value.code == "NO_TOOL_CALLS"


async def test_a_relaxed_run_without_a_call_succeeds() -> None:
    assert (await LoopHarness(text_answer("x")).run()).assistant_text == "x"


async def test_an_enforced_run_needs_one_successful_call() -> None:
    with pytest.raises(ToolUseError) as caught:
        await LoopHarness(
            calls("now"), text_answer("x"), local_tools=FakeTools(now=FAILED_ENVELOPE), tool_use_mode="enforced"
        ).run()
    assert caught.value.code == "TOOL_ERROR"
    harness = LoopHarness(
        calls("now", "search"), text_answer("x"), local_tools=FakeTools(now=FAILED_ENVELOPE), tool_use_mode="enforced"
    )
    assert (await harness.run()).assistant_text == "x"


async def test_a_relaxed_run_tolerates_failures() -> None:
    assert (
        await LoopHarness(calls("now"), text_answer("x"), local_tools=FakeTools(now=FAILED_ENVELOPE)).run()
    ).assistant_text == "x"


async def test_a_failure_is_fatal_if_it_is_the_last_result_of_its_tool() -> None:
    with pytest.raises(ToolUseError, match="now") as caught:
        await LoopHarness(
            calls("now"), text_answer("x"), local_tools=FakeTools(now=FAILED_ENVELOPE), tool_failure_policy="fatal"
        ).run()
    assert caught.value.code == "TOOL_ERROR"


async def test_a_failure_followed_by_a_success_is_not_fatal() -> None:
    outcomes: list[Any] = [FAILED_ENVELOPE, "noon"]

    async def local_tools(name: str, arguments: Mapping[str, Any]) -> Any:
        return outcomes.pop(0)

    harness = LoopHarness(
        calls("now"), calls("now"), text_answer("x"), local_tools=local_tools, tool_failure_policy="fatal"
    )
    assert (await harness.run()).assistant_text == "x"


# -- empty responses and errors of the model ----------------------------------------------


async def test_an_empty_response_is_followed_by_one_request_without_tools() -> None:
    harness = LoopHarness(calls("now"), text_answer(" "), text_answer("noon"))
    result = await harness.run()
    last = harness.model.requests[2]
    assert last.messages[-1] == {"role": "user", "content": LoopOptions().empty_final_text}
    assert last.tools == []
    assert "fix_empty_final" in harness.recorder.types()
    assert result.assistant_text == "noon"
    assert [message["role"] for message in result.history] == ["user", "assistant", "tool", "assistant"]


async def test_the_prompt_after_an_empty_response_can_be_set_and_keep_the_tools() -> None:
    harness = LoopHarness(
        calls("now"), text_answer(""), text_answer("x"), empty_final_text="Well?", empty_final_keeps_tools=True
    )
    await harness.run()
    assert harness.model.requests[2].messages[-1]["content"] == "Well?"
    assert len(harness.model.requests[2].tools) == 2


async def test_a_second_empty_response_ends_the_run() -> None:
    harness = LoopHarness(calls("now"), text_answer(""), text_answer(""))
    assert (await harness.run()).assistant_text == ""
    assert len(harness.model.requests) == 3


async def test_an_empty_response_is_accepted_if_configured_or_without_calls() -> None:
    assert (await LoopHarness(calls("now"), text_answer(""), fix_empty_final=False).run()).assistant_text == ""
    assert (await LoopHarness(text_answer("")).run()).assistant_text == ""


async def test_an_http_error_is_retried_without_tools_if_configured() -> None:
    harness = LoopHarness(ModelHttpError("no", status=400), text_answer("x"), fallback_retry_count=1)
    assert (await harness.run()).assistant_text == "x"
    assert [len(request.tools) for request in harness.model.requests] == [2, 0]
    assert harness.recorder.types()[1:3] == ["llm_request_error", "llm_request_retry"]


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (400, {}),
        (None, {"fallback_retry_count": 1}),
        (400, {"fallback_retry_count": 1, "tool_use_mode": "enforced"}),
        (400, {"fallback_retry_count": 1, "tool_use_mode": "disabled"}),
    ],
)
async def test_other_errors_of_the_model_end_the_run(status: int | None, options: dict[str, Any]) -> None:
    harness = LoopHarness(ModelError("no", status=status), **options)
    with pytest.raises(ModelError):
        await harness.run()
    assert len(harness.model.requests) == 1


def busy_error(status: int = 429, retry_after_s: float | None = None) -> ModelError:
    return ModelHttpError("later", status=status, retryable=True, retry_after_s=retry_after_s)


async def test_a_busy_endpoint_is_retried_after_its_retry_after_time() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    harness = LoopHarness(busy_error(retry_after_s=7.0), busy_error(503), text_answer("x"), sleep=sleep)
    assert (await harness.run()).assistant_text == "x"
    assert [len(request.tools) for request in harness.model.requests] == [2, 2, 2]
    assert waits[0] == 7.0
    assert 0.0 < waits[1] <= 1.0
    retries = [event.details["wait_s"] for event in harness.recorder.events if event.type == "llm_request_retry"]
    assert retries == waits


@pytest.mark.parametrize(
    ("errors", "requests"),
    [
        ([busy_error(), busy_error(), busy_error(), busy_error()], 4),
        ([busy_error(retry_after_s=61.0)], 1),
        ([ModelTimeout("slow", retryable=True)], 1),
    ],
)
async def test_the_number_of_retries_is_limited(errors: list[ModelError], requests: int) -> None:
    async def sleep(seconds: float) -> None:
        pass

    harness = LoopHarness(*errors, text_answer("too late"), sleep=sleep)
    with pytest.raises(ModelError):
        await harness.run()
    assert len(harness.model.requests) == requests


async def test_images_of_a_turn_follow_its_results_in_one_message() -> None:
    image = {"mimeType": "image/png", "data": "MTIz"}
    local_tools = FakeTools(now={"ok": True, "data": {"mcp": {}, "text": "[image]", "images": [image]}})
    harness = LoopHarness(calls("now", "search"), text_answer("I see."), local_tools=local_tools)
    result = await harness.run()
    assert [message["role"] for message in result.history] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert "MTIz" not in result.history[2]["content"]
    assert result.history[4]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,MTIz"}}


async def test_an_error_of_the_model_has_the_conversation_so_far() -> None:
    harness = LoopHarness(calls("now"), ModelTimeout("slow"), text_answer("noon"))
    with pytest.raises(ModelError) as caught:
        await harness.run()
    assert [message["role"] for message in caught.value.history] == ["user", "assistant", "tool"]
    assert (await harness.run("", history=caught.value.history)).assistant_text == "noon"
    assert harness.local_tools.names == ["now"]
