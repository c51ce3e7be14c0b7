"""Which tools a model may call: filters and policies, whose failure never allows a call."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.agent.fakes import FakeTools, ScriptedModel, calls, definitions, text_answer
from tests.agent.loop_harness import LoopHarness

from hubbub import Allow, Definition, Deny, ModelToolCall, PolicyRequest, ToolLoopRunner, ToolsBuilder, ToolUseError

# -- filters ----------------------------------------------------------------


async def test_an_unknown_tool_is_reported_to_the_model() -> None:
    harness = LoopHarness(calls(ModelToolCall("c", "rm -rf /", "{}")), text_answer("x"))
    await harness.run()
    assert harness.local_tools.calls == []
    assert harness.codes() == ["TOOL_NOT_ALLOWED"]
    assert harness.recorder.only("tool_call_blocked").details["code"] == "TOOL_NOT_ALLOWED"
    assert harness.model.requests[1].messages[1]["tool_calls"][0]["function"]["name"] == "rm_-rf__"


async def test_a_hidden_tool_cannot_be_called() -> None:
    local_tools = FakeTools()
    registry = ToolsBuilder.build([Definition("now"), Definition("secret", exposed_to_model=False)])
    model = ScriptedModel(calls("secret"), text_answer("x"))
    await ToolLoopRunner(registry, local_tools, chat=model).run("hi")
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == ["now"]
    assert local_tools.calls == []


async def test_a_denied_tool_is_neither_listed_nor_run() -> None:
    local_tools = FakeTools()
    model = ScriptedModel(calls("search"), text_answer("x"))
    await ToolLoopRunner(ToolsBuilder.build(definitions("now", "search"), deny=["s*"]), local_tools, chat=model).run(
        "hi"
    )
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == ["now"]
    assert local_tools.calls == []


async def test_a_filter_limits_the_tools_that_are_listed_and_callable() -> None:
    harness = LoopHarness(calls("now", "search"), text_answer("x"), narrow=lambda tools, context: ["now"])
    await harness.run()
    assert [tool["function"]["name"] for tool in harness.model.requests[0].tools] == ["now"]
    assert harness.local_tools.names == ["now"]
    assert harness.codes() == ["TOOL_NOT_ALLOWED"]
    filtered = harness.recorder.events[0]
    assert (filtered.type, dict(filtered.details)) == (
        "tools_filtered",
        {"before": 2, "after": 1, "hidden": ["search"]},
    )


def broken_filter(tools: Sequence[Definition], context: Mapping[str, str]) -> list[str]:
    raise RuntimeError("token=abcdefghijkl " + "x" * 1000)


@pytest.mark.parametrize("narrow", [broken_filter, lambda tools, context: ["other"], lambda tools, context: None])
async def test_a_failing_filter_lists_no_tools(narrow: Any) -> None:
    harness = LoopHarness(calls("now"), narrow=narrow)
    await harness.run()
    assert harness.model.requests[0].tools == []
    assert harness.local_tools.calls == []
    error = harness.recorder.only("policy_error").details
    assert error["stage"] == "exposure"
    assert "abcdefghijkl" not in error["message"]
    assert len(error["message"]) <= 200


async def test_a_failing_filter_can_be_an_error() -> None:
    with pytest.raises(ToolUseError) as caught:
        await LoopHarness(text_answer("x"), narrow=broken_filter, policy_error_mode="raise").run()
    assert caught.value.code == "POLICY_ERROR"


# -- policies --------------------------------------------------------------


async def test_a_denied_call_is_reported_to_the_model_with_the_reason() -> None:
    def decide(request: PolicyRequest) -> Allow | Deny:
        return Deny("Not on Sundays") if request.tool == "now" else Allow()

    harness = LoopHarness(calls("now", "search"), text_answer("x"), decide=decide)
    await harness.run()
    assert harness.local_tools.names == ["search"]
    denied = harness.results()[0]
    assert (denied["errors"][0]["code"], denied["errors"][0]["message"]) == ("TOOL_POLICY_DENIED", "Not on Sundays")
    assert denied["data"]["policy"]["outcome"] == "deny"


def broken_policy(request: PolicyRequest) -> Allow:
    raise RuntimeError("no rules found")


@pytest.mark.parametrize(
    ("decide", "reason"),
    [
        (broken_policy, "POLICY_EXCEPTION"),
        (lambda request: None, "POLICY_INVALID_DECISION"),
        (lambda request: True, "POLICY_INVALID_DECISION"),
        (lambda request: "allow", "POLICY_INVALID_DECISION"),
    ],
)
async def test_a_failing_policy_blocks_the_call(decide: Any, reason: str) -> None:
    harness = LoopHarness(calls("now"), text_answer("x"), decide=decide)
    await harness.run()
    assert harness.local_tools.calls == []
    assert harness.codes() == ["TOOL_POLICY_ERROR"]
    assert harness.results()[0]["data"]["policy"]["reason_codes"] == [reason]
    assert harness.recorder.only("policy_error").details["reason"] == reason


async def test_a_failing_policy_can_be_an_error_with_the_conversation() -> None:
    with pytest.raises(ToolUseError) as caught:
        await LoopHarness(calls("now"), decide=broken_policy, policy_error_mode="raise").run()
    assert caught.value.code == "POLICY_ERROR"
    assert [message["role"] for message in caught.value.history] == ["user"]


async def test_a_policy_sees_the_real_name_and_cannot_change_the_arguments() -> None:
    seen: list[PolicyRequest] = []

    async def decide(request: PolicyRequest) -> Allow:
        seen.append(request)
        with pytest.raises((TypeError, AttributeError)):
            request.arguments["deep"].append("more")
        return Allow()

    harness = LoopHarness(
        calls(ModelToolCall("c", "a.b", '{"deep": [1]}')), text_answer("x"), tools=("a_b",), decide=decide
    )
    await harness.run(context={"tenant": "t1"})
    assert harness.local_tools.calls == [("a_b", {"deep": [1]}, "c")]
    (request,) = seen
    assert (request.tool, request.call_id, request.context) == ("a_b", "c", {"tenant": "t1"})
