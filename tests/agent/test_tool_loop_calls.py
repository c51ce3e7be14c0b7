"""Tool calls of a run: several in one turn, repaired arguments, and results for the model."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.agent.fakes import FakeTools, calls, text_answer
from tests.agent.loop_harness import LoopHarness

from hubbub import ModelToolCall, ToolEnvelope

# -- several calls ----------------------------------------------------------------


async def test_calls_run_in_order() -> None:
    harness = LoopHarness(calls("search", "now", "search"), text_answer("x"))
    await harness.run()
    assert harness.local_tools.names == ["search", "now", "search"]
    assert [result["tool_name"] for result in harness.results()] == ["search", "now", "search"]


class RendezvousTools:
    """Two tools that each wait until the other has begun; the second finishes first."""

    def __init__(self) -> None:
        self.begun = {name: asyncio.Event() for name in ("now", "search")}
        self.finished: list[str] = []

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> str:
        self.begun[name].set()
        await self.begun["search" if name == "now" else "now"].wait()
        while name == "now" and not self.finished:
            await asyncio.sleep(0)
        self.finished.append(name)
        return name


async def test_parallel_calls_run_concurrently_and_results_stay_in_order() -> None:
    rendezvous = RendezvousTools()
    harness = LoopHarness(calls("now", "search"), text_answer("x"), local_tools=rendezvous, runs_in_parallel=True)
    await harness.run()
    assert rendezvous.finished == ["search", "now"]
    assert [result["tool_name"] for result in harness.results()] == ["now", "search"]
    messages = harness.model.requests[-1].messages
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ["id0", "id1"]


@pytest.mark.parametrize("runs_in_parallel", [False, True])
async def test_a_failing_call_does_not_stop_the_others(runs_in_parallel: bool) -> None:
    local_tools = FakeTools(now=RuntimeError("broken"))
    harness = LoopHarness(
        calls("now", "search"), text_answer("x"), local_tools=local_tools, runs_in_parallel=runs_in_parallel
    )
    await harness.run()
    assert [result["ok"] for result in harness.results()] == [False, True]


async def test_without_parallel_calls_only_the_first_call_runs() -> None:
    harness = LoopHarness(calls("now", "search"), text_answer("x"), parallel_tool_calls=False)
    result = await harness.run()
    assert harness.local_tools.names == ["now"]
    assert result.trace[0].ignored_calls == 1
    assert len(harness.model.requests[1].messages[1]["tool_calls"]) == 1


async def test_calls_beyond_the_limit_are_dropped() -> None:
    harness = LoopHarness(calls(*["now"] * 5), text_answer("x"), max_calls_per_turn=3)
    result = await harness.run()
    assert (len(harness.local_tools.calls), result.trace[0].ignored_calls) == (3, 2)


async def test_ids_are_trimmed_generated_and_made_unique() -> None:
    wanted = [ModelToolCall(identifier, "now", "{}") for identifier in (" a ", "a", "", "a")]
    harness = LoopHarness(
        calls(*wanted), calls(ModelToolCall("a", "now", "{}"), ModelToolCall("", "now", "{}")), text_answer("x")
    )
    await harness.run()
    assert [identifier for _, _, identifier in harness.local_tools.calls] == [
        "a",
        "a__2",
        "tc_3",
        "a__3",
        "a__4",
        "tc_6",
    ]


async def test_names_are_trimmed_and_found_with_dots() -> None:
    harness = LoopHarness(
        calls(ModelToolCall("1", " now "), ModelToolCall("2", "a.b")), text_answer("x"), tools=("now", "a_b")
    )
    await harness.run()
    assert harness.local_tools.names == ["now", "a_b"]


# -- arguments --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "value", "status"),
    [
        ('{"a": 1}', {"a": 1}, "ok"),
        ({"a": 1}, {"a": 1}, "ok"),
        ('```json\n{"a": 1}\n```', {"a": 1}, "repaired"),
        ('"{\\"a\\": 1}"', {"a": 1}, "repaired"),
        ("", {}, "blank"),
        (None, {}, "blank"),
    ],
)
async def test_arguments_are_repaired_before_the_call(arguments: Any, value: Any, status: str) -> None:
    harness = LoopHarness(calls(ModelToolCall("c", "now", arguments)), text_answer("x"))
    await harness.run()
    assert harness.local_tools.calls == [("now", value, "c")]
    assert harness.recorder.only("tool_call_start").details["parse_status"] == status
    sent = harness.model.requests[1].messages[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == value


async def test_invalid_arguments_are_reported_to_the_model_and_the_run_continues() -> None:
    harness = LoopHarness(calls(ModelToolCall("c", "now", "{oops")), text_answer("sorry"))
    result = await harness.run()
    assert harness.local_tools.calls == []
    assert harness.codes() == ["ARGUMENTS_JSON_PARSE_ERROR"]
    assert result.assistant_text == "sorry"
    assert harness.model.requests[1].messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("arguments", ['{"a": "' + "x" * 100 + '"}', {"a": "x" * 100}])
async def test_arguments_over_the_limit_are_reported_to_the_model(arguments: Any) -> None:
    harness = LoopHarness(calls(ModelToolCall("c", "now", arguments)), text_answer("x"), max_argument_bytes=50)
    await harness.run()
    assert harness.local_tools.calls == []
    assert harness.codes() == ["ARGUMENTS_TOO_LARGE"]


# -- results ----------------------------------------------------------------------


async def test_output_over_the_limit_is_replaced() -> None:
    harness = LoopHarness(calls("now"), text_answer("x"), local_tools=FakeTools(now="x" * 5000), max_output_bytes=2000)
    await harness.run()
    assert harness.codes() == ["TOOL_OUTPUT_TOO_LARGE"]
    assert harness.recorder.only("tool_call_end").details["output_replaced"] is True


async def test_output_without_a_json_form_is_replaced() -> None:
    harness = LoopHarness(calls("now"), text_answer("x"), local_tools=FakeTools(now=object()))
    await harness.run()
    assert harness.codes() == ["TOOL_OUTPUT_SERIALIZATION_ERROR"]


async def test_an_exception_of_the_executor_is_reported_to_the_model_and_the_run_continues() -> None:
    class Raising:
        async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str = "") -> ToolEnvelope:
            raise RuntimeError("the executor broke")

    harness = LoopHarness(calls("now"), text_answer("x"), local_tools=Raising())
    assert (await harness.run()).assistant_text == "x"
    assert harness.codes() == ["INTERNAL_ERROR"]
