"""The loop itself, with a model that follows a script."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.agent.scripted import ScriptedModel, Tools, Watcher, calls, definitions, says

from hubbub.agent.catalog import Catalog
from hubbub.agent.definition import Definition
from hubbub.agent.envelope import Envelope, failed, problem
from hubbub.agent.model import ModelAnswer, WantedCall
from hubbub.agent.options import LoopOptions
from hubbub.agent.run_state import RunResult
from hubbub.agent.tool_loop import ToolLoopRunner
from hubbub.agent.tools_builder import ToolsBuilder
from hubbub.errors import InvalidParams, ModelError, SettingsError, ToolUseError
from hubbub.security.policy import Allow, Deny, Question

BROKEN = failed("now", problem("MINE", "no"))


class Play:
    """A runner with everything around it."""

    def __init__(
        self, *answers: ModelAnswer | Exception, tools: Sequence[str] = ("now", "search"), **more: Any
    ) -> None:
        self.model = ScriptedModel(*answers)
        self.own = more.pop("own", None) or Tools()
        self.seen = Watcher()
        runner_options = {name: more.pop(name) for name in ("system", "decide", "narrow") if name in more}
        self.runner = ToolLoopRunner(
            ToolsBuilder.build(definitions(*tools)),
            self.own,
            chat=self.model,
            options=LoopOptions(**more),
            **runner_options,
        )

    async def run(self, text: str = "hi", **options: Any) -> RunResult:
        return await self.runner.run(text, on_event=self.seen, **options)

    def results(self, request: int = -1) -> list[dict[str, Any]]:
        """What the model was told of its calls."""
        messages = self.model.requests[request].messages
        return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]

    def codes(self, request: int = -1) -> list[str]:
        return [error["code"] for result in self.results(request) for error in result["errors"]]


# -- the way of a run -------------------------------------------------------------


async def test_an_answer_without_calls_ends_the_run() -> None:
    play = Play(says("hello"))
    result = await play.run("hi")
    assert (result.status, result.assistant_text) == ("finished", "hello")
    assert result.history == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


async def test_a_call_is_run_and_the_model_told() -> None:
    play = Play(calls(WantedCall("c1", "now", '{"zone": "UTC"}'), text="Let me see."), says("noon"), own=Tools(now=12))
    result = await play.run("what time is it?")
    assert result.assistant_text == "noon"
    assert play.own.calls == [("now", {"zone": "UTC"}, "c1")]
    user, asked, told = play.model.requests[1].messages
    assert user["content"] == "what time is it?"
    assert asked == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"zone":"UTC"}'}},
        ],
    }
    assert (told["role"], told["tool_call_id"]) == ("tool", "c1")
    assert json.loads(told["content"]) == {
        "ok": True,
        "tool_name": "now",
        "data": {"value": 12},
        "warnings": [],
        "errors": [],
    }


async def test_a_run_goes_on_from_a_history() -> None:
    play = Play(says("first"), says("second"))
    history = (await play.run("one")).history
    await play.run("two", history=history)
    assert [message["content"] for message in play.model.requests[1].messages] == ["one", "first", "two"]


async def test_the_history_that_was_given_is_not_changed() -> None:
    history = [{"role": "user", "content": "one"}]
    await Play(calls("now"), says("x")).run("two", history=history)
    assert history == [{"role": "user", "content": "one"}]


async def test_a_history_alone_is_enough_and_nothing_is_not() -> None:
    play = Play(says("x"))
    await play.run("", history=[{"role": "user", "content": "one"}])
    assert len(play.model.requests[0].messages) == 1
    with pytest.raises(InvalidParams):
        await play.run(" ")


async def test_the_system_prompt_leads_and_is_not_part_of_the_history() -> None:
    play = Play(says("x"), system="Be brief.")
    result = await play.run()
    assert play.model.requests[0].messages[0] == {"role": "system", "content": "Be brief."}
    assert [message["role"] for message in result.history] == ["user", "assistant"]


async def test_tools_are_shown_with_the_choice() -> None:
    play = Play(says("x"))
    await play.run()
    request = play.model.requests[0]
    assert [tool["function"]["name"] for tool in request.tools] == ["now", "search"]
    assert (request.tool_choice, request.parallel_tool_calls) == ("auto", None)


async def test_the_choice_of_tools_can_be_set() -> None:
    play = Play(says("x"), tool_choice="required", parallel_tool_calls=True)
    await play.run()
    request = play.model.requests[0]
    assert (request.tool_choice, request.parallel_tool_calls) == ("required", True)


async def test_words_arrive_as_they_are_written_when_asked_for() -> None:
    heard: list[str] = []
    await Play(calls("now", text="one"), says("two")).run(on_text=heard.append)
    assert heard == ["one", "two"]


async def test_turns_have_an_end() -> None:
    play = Play(*[calls("now")] * 3)
    with pytest.raises(ToolUseError, match="3 turns") as caught:
        await play.run(max_turns=3)
    assert caught.value.code == "MAX_TURNS"
    assert len(play.own.calls) == 3
    assert caught.value.history[-1]["role"] == "tool"
    with pytest.raises(SettingsError):
        await play.run(max_turns=0)


async def test_runs_can_go_on_side_by_side() -> None:
    play = Play(*[says("x")] * 8)
    results = await asyncio.gather(*(play.run(str(number)) for number in range(8)))
    assert len({result.run_id for result in results}) == 8
    assert sorted(result.history[0]["content"] for result in results) == [str(number) for number in range(8)]


def test_tools_without_anybody_to_run_them_are_refused() -> None:
    registry = ToolsBuilder.build(definitions("now"))
    with pytest.raises(SettingsError, match="executor"):
        ToolLoopRunner(registry, None, chat=ScriptedModel())
    ToolLoopRunner(registry, None, chat=ScriptedModel(), options=LoopOptions(tool_use_mode="disabled"))
    ToolLoopRunner(Catalog(), None, chat=ScriptedModel())


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
def test_options_that_do_not_exist_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(option))):
        LoopOptions(**option)


# -- several calls ----------------------------------------------------------------


async def test_calls_run_in_order() -> None:
    play = Play(calls("search", "now", "search"), says("x"))
    await play.run()
    assert play.own.names == ["search", "now", "search"]
    assert [result["tool_name"] for result in play.results()] == ["search", "now", "search"]


class Meeting:
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


async def test_calls_run_at_the_same_time_when_asked_to_and_results_stay_in_order() -> None:
    meeting = Meeting()
    play = Play(calls("now", "search"), says("x"), own=meeting, runs_in_parallel=True)
    await play.run()
    assert meeting.finished == ["search", "now"]
    assert [result["tool_name"] for result in play.results()] == ["now", "search"]
    messages = play.model.requests[-1].messages
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ["id0", "id1"]


@pytest.mark.parametrize("runs_in_parallel", [False, True])
async def test_one_failing_call_does_not_keep_the_others_from_running(runs_in_parallel: bool) -> None:
    own = Tools(now=RuntimeError("broken"))
    play = Play(calls("now", "search"), says("x"), own=own, runs_in_parallel=runs_in_parallel)
    await play.run()
    assert [result["ok"] for result in play.results()] == [False, True]


async def test_only_the_first_call_counts_when_parallel_calls_are_off() -> None:
    play = Play(calls("now", "search"), says("x"), parallel_tool_calls=False)
    result = await play.run()
    assert play.own.names == ["now"]
    assert result.trace[0].ignored_calls == 1
    assert len(play.model.requests[1].messages[1]["tool_calls"]) == 1


async def test_calls_beyond_the_limit_are_left_out() -> None:
    play = Play(calls(*["now"] * 5), says("x"), max_calls_per_turn=3)
    result = await play.run()
    assert (len(play.own.calls), result.trace[0].ignored_calls) == (3, 2)


async def test_ids_are_trimmed_made_up_and_made_unique() -> None:
    wanted = [WantedCall(identifier, "now", "{}") for identifier in (" a ", "a", "", "a")]
    play = Play(calls(*wanted), calls(WantedCall("a", "now", "{}"), WantedCall("", "now", "{}")), says("x"))
    await play.run()
    assert [identifier for _, _, identifier in play.own.calls] == ["a", "a__2", "tc_3", "a__3", "a__4", "tc_6"]


async def test_names_are_trimmed_and_dots_found() -> None:
    play = Play(calls(WantedCall("1", " now "), WantedCall("2", "a.b")), says("x"), tools=("now", "a_b"))
    await play.run()
    assert play.own.names == ["now", "a_b"]


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
async def test_arguments_are_mended_before_the_call(arguments: Any, value: Any, status: str) -> None:
    play = Play(calls(WantedCall("c", "now", arguments)), says("x"))
    await play.run()
    assert play.own.calls == [("now", value, "c")]
    assert play.seen.only("tool_call_start").details["parse_status"] == status
    asked = play.model.requests[1].messages[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(asked) == value


async def test_arguments_that_cannot_be_read_are_told_and_the_run_goes_on() -> None:
    play = Play(calls(WantedCall("c", "now", "{oops")), says("sorry"))
    result = await play.run()
    assert play.own.calls == []
    assert play.codes() == ["ARGUMENTS_JSON_PARSE_ERROR"]
    assert result.assistant_text == "sorry"
    assert play.model.requests[1].messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("arguments", ['{"a": "' + "x" * 100 + '"}', {"a": "x" * 100}])
async def test_arguments_that_are_too_large_are_told(arguments: Any) -> None:
    play = Play(calls(WantedCall("c", "now", arguments)), says("x"), max_argument_bytes=50)
    await play.run()
    assert play.own.calls == []
    assert play.codes() == ["ARGUMENTS_TOO_LARGE"]


# -- results ----------------------------------------------------------------------


async def test_output_that_is_too_large_is_replaced() -> None:
    play = Play(calls("now"), says("x"), own=Tools(now="x" * 5000), max_output_bytes=2000)
    await play.run()
    assert play.codes() == ["TOOL_OUTPUT_TOO_LARGE"]
    assert play.seen.only("tool_call_end").details["output_replaced"] is True


async def test_output_that_is_no_json_is_replaced() -> None:
    play = Play(calls("now"), says("x"), own=Tools(now=object()))
    await play.run()
    assert play.codes() == ["TOOL_OUTPUT_SERIALIZATION_ERROR"]


async def test_an_executor_that_raises_is_told_and_the_run_goes_on() -> None:
    class Raising:
        async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str = "") -> Envelope:
            raise RuntimeError("the executor broke")

    play = Play(calls("now"), says("x"), own=Raising())
    assert (await play.run()).assistant_text == "x"
    assert play.codes() == ["INTERNAL_ERROR"]


# -- what may be called -------------------------------------------------------------


async def test_a_tool_that_there_is_not_is_told() -> None:
    play = Play(calls(WantedCall("c", "rm -rf /", "{}")), says("x"))
    await play.run()
    assert play.own.calls == []
    assert play.codes() == ["TOOL_NOT_ALLOWED"]
    assert play.seen.only("tool_call_blocked").details["code"] == "TOOL_NOT_ALLOWED"
    assert play.model.requests[1].messages[1]["tool_calls"][0]["function"]["name"] == "rm_-rf__"


async def test_a_tool_that_the_model_is_not_shown_cannot_be_guessed() -> None:
    own = Tools()
    registry = ToolsBuilder.build([Definition("now"), Definition("secret", exposed_to_model=False)])
    model = ScriptedModel(calls("secret"), says("x"))
    await ToolLoopRunner(registry, own, chat=model).run("hi")
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == ["now"]
    assert own.calls == []


async def test_a_denied_tool_is_neither_shown_nor_run() -> None:
    own = Tools()
    model = ScriptedModel(calls("search"), says("x"))
    await ToolLoopRunner(ToolsBuilder.build(definitions("now", "search"), deny=["s*"]), own, chat=model).run("hi")
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == ["now"]
    assert own.calls == []


async def test_a_filter_narrows_what_is_shown_and_what_can_be_called() -> None:
    play = Play(calls("now", "search"), says("x"), narrow=lambda tools, context: ["now"])
    await play.run()
    assert [tool["function"]["name"] for tool in play.model.requests[0].tools] == ["now"]
    assert play.own.names == ["now"]
    assert play.codes() == ["TOOL_NOT_ALLOWED"]
    filtered = play.seen.events[0]
    assert (filtered.type, dict(filtered.details)) == (
        "tools_filtered",
        {"before": 2, "after": 1, "hidden": ["search"]},
    )


def broken_filter(tools: Sequence[Definition], context: Mapping[str, str]) -> list[str]:
    raise RuntimeError("token=abcdefghijkl " + "x" * 1000)


@pytest.mark.parametrize("narrow", [broken_filter, lambda tools, context: ["other"], lambda tools, context: None])
async def test_a_filter_that_fails_shows_nothing(narrow: Any) -> None:
    play = Play(calls("now"), narrow=narrow)
    await play.run()
    assert play.model.requests[0].tools == []
    assert play.own.calls == []
    error = play.seen.only("policy_error").details
    assert error["stage"] == "exposure"
    assert "abcdefghijkl" not in error["message"]
    assert len(error["message"]) <= 200


async def test_a_filter_that_fails_can_be_an_error() -> None:
    with pytest.raises(ToolUseError) as caught:
        await Play(says("x"), narrow=broken_filter, policy_error_mode="raise").run()
    assert caught.value.code == "POLICY_ERROR"


async def test_a_denied_call_is_told_with_its_reason() -> None:
    def decide(question: Question) -> Allow | Deny:
        return Deny("Not on Sundays") if question.tool == "now" else Allow()

    play = Play(calls("now", "search"), says("x"), decide=decide)
    await play.run()
    assert play.own.names == ["search"]
    denied = play.results()[0]
    assert (denied["errors"][0]["code"], denied["errors"][0]["message"]) == ("TOOL_POLICY_DENIED", "Not on Sundays")
    assert denied["data"]["policy"]["outcome"] == "deny"


def broken_policy(question: Question) -> Allow:
    raise RuntimeError("no rules found")


@pytest.mark.parametrize(
    ("decide", "reason"),
    [
        (broken_policy, "POLICY_EXCEPTION"),
        (lambda question: None, "POLICY_INVALID_DECISION"),
        (lambda question: True, "POLICY_INVALID_DECISION"),
        (lambda question: "allow", "POLICY_INVALID_DECISION"),
    ],
)
async def test_a_policy_that_fails_never_means_yes(decide: Any, reason: str) -> None:
    play = Play(calls("now"), says("x"), decide=decide)
    await play.run()
    assert play.own.calls == []
    assert play.codes() == ["TOOL_POLICY_ERROR"]
    assert play.results()[0]["data"]["policy"]["reason_codes"] == [reason]
    assert play.seen.only("policy_error").details["reason"] == reason


async def test_a_policy_that_fails_can_be_an_error_that_keeps_the_conversation() -> None:
    with pytest.raises(ToolUseError) as caught:
        await Play(calls("now"), decide=broken_policy, policy_error_mode="raise").run()
    assert caught.value.code == "POLICY_ERROR"
    assert [message["role"] for message in caught.value.history] == ["user"]


async def test_a_policy_sees_the_real_name_and_cannot_change_the_arguments() -> None:
    seen: list[Question] = []

    async def decide(question: Question) -> Allow:
        seen.append(question)
        with pytest.raises((TypeError, AttributeError)):
            question.arguments["deep"].append("more")
        return Allow()

    play = Play(calls(WantedCall("c", "a.b", '{"deep": [1]}')), says("x"), tools=("a_b",), decide=decide)
    await play.run(context={"tenant": "t1"})
    assert play.own.calls == [("a_b", {"deep": [1]}, "c")]
    (question,) = seen
    assert (question.tool, question.call_id, question.context) == ("a_b", "c", {"tenant": "t1"})


# -- modes --------------------------------------------------------------------------


async def test_disabled_tools_are_neither_shown_nor_run() -> None:
    play = Play(calls("now", text="anyway"), tool_use_mode="disabled")
    result = await play.run()
    assert play.model.requests[0].tools == []
    assert play.model.requests[0].tool_choice is None
    assert play.own.calls == []
    assert (result.assistant_text, result.trace[0].ignored_calls) == ("anyway", 1)


async def test_an_enforced_run_without_a_call_is_an_error() -> None:
    with pytest.raises(ToolUseError) as caught:
        await Play(says("x"), tool_use_mode="enforced").run()
    assert caught.value.code == "NO_TOOL_CALLS"


async def test_a_relaxed_run_without_a_call_is_none() -> None:
    assert (await Play(says("x")).run()).assistant_text == "x"


async def test_an_enforced_run_needs_one_success() -> None:
    with pytest.raises(ToolUseError) as caught:
        await Play(calls("now"), says("x"), own=Tools(now=BROKEN), tool_use_mode="enforced").run()
    assert caught.value.code == "TOOL_ERROR"
    play = Play(calls("now", "search"), says("x"), own=Tools(now=BROKEN), tool_use_mode="enforced")
    assert (await play.run()).assistant_text == "x"


async def test_a_relaxed_run_tolerates_failures() -> None:
    assert (await Play(calls("now"), says("x"), own=Tools(now=BROKEN)).run()).assistant_text == "x"


async def test_a_failure_is_fatal_if_it_was_the_last_of_its_tool() -> None:
    with pytest.raises(ToolUseError, match="now") as caught:
        await Play(calls("now"), says("x"), own=Tools(now=BROKEN), tool_failure_policy="fatal").run()
    assert caught.value.code == "TOOL_ERROR"


async def test_a_failure_that_was_made_good_is_not_fatal() -> None:
    outcomes: list[Any] = [BROKEN, "noon"]

    async def own(name: str, arguments: Mapping[str, Any]) -> Any:
        return outcomes.pop(0)

    play = Play(calls("now"), calls("now"), says("x"), own=own, tool_failure_policy="fatal")
    assert (await play.run()).assistant_text == "x"


# -- silence and errors of the model -------------------------------------------------


async def test_a_model_that_falls_silent_is_asked_once_without_tools() -> None:
    play = Play(calls("now"), says(" "), says("noon"))
    result = await play.run()
    last = play.model.requests[2]
    assert last.messages[-1] == {"role": "user", "content": LoopOptions().empty_final_text}
    assert last.tools == []
    assert "fix_empty_final" in play.seen.types()
    assert result.assistant_text == "noon"
    assert [message["role"] for message in result.history] == ["user", "assistant", "tool", "assistant"]


async def test_the_question_after_silence_can_be_worded_and_keep_the_tools() -> None:
    play = Play(calls("now"), says(""), says("x"), empty_final_text="Well?", empty_final_keeps_tools=True)
    await play.run()
    assert play.model.requests[2].messages[-1]["content"] == "Well?"
    assert len(play.model.requests[2].tools) == 2


async def test_a_model_that_stays_silent_is_not_asked_again() -> None:
    play = Play(calls("now"), says(""), says(""))
    assert (await play.run()).assistant_text == ""
    assert len(play.model.requests) == 3


async def test_silence_is_accepted_when_told_to_and_without_calls() -> None:
    assert (await Play(calls("now"), says(""), fix_empty_final=False).run()).assistant_text == ""
    assert (await Play(says("")).run()).assistant_text == ""


async def test_an_http_error_is_tried_again_without_tools_when_told_to() -> None:
    play = Play(ModelError("MODEL_HTTP_ERROR", "no", status=400), says("x"), fallback_retry_count=1)
    assert (await play.run()).assistant_text == "x"
    assert [len(request.tools) for request in play.model.requests] == [2, 0]
    assert play.seen.types()[1:3] == ["llm_request_error", "llm_request_retry"]


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
    play = Play(ModelError("MODEL_X", "no", status=status), **options)
    with pytest.raises(ModelError):
        await play.run()
    assert len(play.model.requests) == 1


async def test_an_error_of_the_model_keeps_what_was_done() -> None:
    play = Play(calls("now"), ModelError("MODEL_TIMEOUT", "slow"), says("noon"))
    with pytest.raises(ModelError) as caught:
        await play.run()
    assert [message["role"] for message in caught.value.history] == ["user", "assistant", "tool"]
    assert (await play.run("", history=caught.value.history)).assistant_text == "noon"
    assert play.own.names == ["now"]


# -- events and trace ------------------------------------------------------------------


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
    wanted = [WantedCall("c", name, '{"a": "ARGUMENT-CANARY"}') for name in ("now", "search", "other")]
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


async def test_cancelling_a_run_cancels_its_calls() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def own(name: str, arguments: Mapping[str, Any]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    play = Play(calls("now", "search"), own=own, runs_in_parallel=True)
    task = asyncio.ensure_future(play.run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
