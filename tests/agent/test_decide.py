"""Calls that wait for a person: nothing runs before, nothing else runs after, nothing runs twice."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.agent.scripted import ScriptedModel, Tools, Watcher, calls, definitions, says

from hubbub import (
    Allow,
    Confirm,
    ContinuationRefused,
    Deny,
    ModelAnswer,
    ModelToolCall,
    Question,
    ToolLoopRunner,
    ToolsBuilder,
)
from hubbub.security.policy import Decide, Decision, call_digest
from hubbub.security.sealed import Sealer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Waiting:
    """A runner whose tool `pay` needs a person's word."""

    def __init__(self, *answers: ModelAnswer, decide: Decide | None = None, **options: Any) -> None:
        self.clock = Clock()
        self.model = ScriptedModel(*answers)
        self.own = Tools()
        self.seen = Watcher()
        self.options = options
        self.decide = decide or self._confirm_payments
        self.runner = self.another()

    def _confirm_payments(self, question: Question) -> Decision:
        return Confirm(question.digest, self.clock() + 60) if question.tool == "pay" else Allow()

    def another(self, *tools: str) -> ToolLoopRunner:
        registry = ToolsBuilder.build(definitions(*(tools or ("pay", "now"))))
        return ToolLoopRunner(registry, self.own, chat=self.model, decide=self.decide, clock=self.clock, **self.options)


def following(*decisions: Callable[[Question], Decision]) -> Decide:
    """A policy that decides anew each time."""
    left = list(decisions)

    def decide(question: Question) -> Decision:
        return left.pop(0)(question)

    return decide


PAY = ModelToolCall("c1", "pay", '{"amount": 5}')


async def test_a_run_pauses_before_any_call_of_that_answer_runs() -> None:
    waiting = Waiting(calls("now", PAY, "now"))
    result = await waiting.runner.run("pay them", on_event=waiting.seen)
    assert result.status == "paused"
    assert waiting.own.calls == []
    (pending,) = result.pending
    assert (pending.call_id, pending.tool, pending.arguments) == ("c1", "pay", {"amount": 5})
    assert (pending.digest, pending.expiry) == (call_digest("pay", {"amount": 5}), 1060.0)
    assert dict(waiting.seen.only("confirmation_required").details) == {"calls": {"c1": "pay"}}
    assert [message["role"] for message in result.history] == ["user"]


async def test_an_allowed_run_goes_on_with_exactly_what_was_shown() -> None:
    waiting = Waiting(calls("now", PAY), says("paid"))
    paused = await waiting.runner.run("pay them")
    result = await waiting.runner.resume(paused.continuation, {"c1": "allow"}, on_event=waiting.seen)
    assert waiting.own.calls == [("now", {}, "id0"), ("pay", {"amount": 5}, "c1")]
    assert (result.status, result.assistant_text, result.run_id) == ("finished", "paid", paused.run_id)
    assert [message["role"] for message in result.history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert {event.run_id for event in waiting.seen.events} == {paused.run_id}
    assert [event.turn for event in waiting.seen.events][:1] == [1]


async def test_a_refused_call_is_told_and_the_others_run() -> None:
    waiting = Waiting(calls(PAY, "now"), says("well then"))
    paused = await waiting.runner.run("pay them")
    result = await waiting.runner.resume(paused.continuation, {"c1": "deny"})
    assert waiting.own.names == ["now"]
    assert "TOOL_POLICY_DENIED" in result.history[2]["content"]
    assert result.assistant_text == "well then"


async def test_a_run_can_pause_more_than_once() -> None:
    waiting = Waiting(calls(PAY), calls(PAY), says("x"))
    first = await waiting.runner.run("pay twice")
    second = await waiting.runner.resume(first.continuation, {"c1": "allow"})
    assert second.status == "paused"
    assert second.pending[0].call_id == "c1__2"
    third = await waiting.runner.resume(second.continuation, {"c1__2": "allow"})
    assert third.status == "finished"
    assert waiting.own.names == ["pay", "pay"]


async def test_a_run_is_not_resumed_twice() -> None:
    waiting = Waiting(calls(PAY), says("x"), says("y"))
    paused = await waiting.runner.run("pay")
    await waiting.runner.resume(paused.continuation, {"c1": "allow"})
    with pytest.raises(ContinuationRefused, match="already"):
        await waiting.runner.resume(paused.continuation, {"c1": "allow"})
    assert waiting.own.names == ["pay"]


async def test_a_run_that_waited_too_long_is_refused() -> None:
    waiting = Waiting(calls(PAY))
    paused = await waiting.runner.run("pay")
    waiting.clock.now += 61
    with pytest.raises(ContinuationRefused, match="too long"):
        await waiting.runner.resume(paused.continuation, {"c1": "allow"})
    assert waiting.own.calls == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-4] + ("AAAA" if not text.endswith("AAAA") else "BBBB"),
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "not a continuation at all",
        lambda text: Sealer().seal("agent-continuation", {}),
    ],
)
async def test_a_changed_continuation_is_refused(change: Callable[[str], str]) -> None:
    waiting = Waiting(calls(PAY))
    paused = await waiting.runner.run("pay")
    with pytest.raises(ContinuationRefused):
        await waiting.runner.resume(change(paused.continuation), {"c1": "allow"})
    assert waiting.own.calls == []


async def test_a_text_sealed_for_something_else_is_refused() -> None:
    sealer = Sealer()
    waiting = Waiting(calls(PAY), sealer=sealer)
    with pytest.raises(ContinuationRefused):
        await waiting.runner.resume(sealer.seal("cursor", {}), {})
    with pytest.raises(ContinuationRefused):
        await waiting.runner.resume(sealer.seal("agent-continuation", {"calls": 3}), {})


@pytest.mark.parametrize(
    ("answers", "told"),
    [({}, "c1"), ({"c2": "allow"}, "c2"), ({"c1": "yes"}, "allow or deny"), ({"c1": "allow", "id0": "allow"}, "id0")],
)
async def test_answers_must_fit_the_questions_and_may_be_given_again(answers: dict[str, str], told: str) -> None:
    waiting = Waiting(calls("now", PAY), says("x"))
    paused = await waiting.runner.run("pay")
    with pytest.raises(ContinuationRefused, match=told):
        await waiting.runner.resume(paused.continuation, answers)
    assert waiting.own.calls == []
    assert (await waiting.runner.resume(paused.continuation, {"c1": "allow"})).status == "finished"


async def test_another_process_with_the_same_key_can_resume() -> None:
    key = bytes(range(32))
    waiting = Waiting(calls(PAY), says("paid"), sealer=Sealer([key]))
    paused = await waiting.runner.run("pay")
    stranger = Waiting(says("x"))
    with pytest.raises(ContinuationRefused):
        await stranger.runner.resume(paused.continuation, {"c1": "allow"})
    assert (await waiting.another().resume(paused.continuation, {"c1": "allow"})).assistant_text == "paid"


async def test_a_tool_that_is_gone_meanwhile_does_not_run() -> None:
    key = bytes(range(32))
    waiting = Waiting(calls(PAY), says("x"), sealer=Sealer([key]))
    paused = await waiting.runner.run("pay")
    result = await waiting.another("now").resume(paused.continuation, {"c1": "allow"})
    assert waiting.own.calls == []
    assert "TOOL_NOT_ALLOWED" in result.history[2]["content"]


async def test_a_policy_that_has_changed_its_mind_wins_over_the_person() -> None:
    decisions: tuple[Callable[[Question], Decision], ...] = (
        lambda question: Confirm(question.digest, 1060.0, "Sure?"),
        lambda question: Deny("Not any more"),
    )
    waiting = Waiting(calls(PAY), says("x"), decide=following(*decisions))
    paused = await waiting.runner.run("pay")
    assert paused.pending[0].reason == "Sure?"
    await waiting.runner.resume(paused.continuation, {"c1": "allow"})
    assert waiting.own.calls == []


async def test_a_person_who_says_no_wins_over_a_policy_that_now_allows() -> None:
    decisions: tuple[Callable[[Question], Decision], ...] = (
        lambda question: Confirm(question.digest, 1060.0),
        lambda question: Allow(),
    )
    waiting = Waiting(calls(PAY), says("x"), decide=following(*decisions))
    paused = await waiting.runner.run("pay")
    await waiting.runner.resume(paused.continuation, {"c1": "deny"})
    assert waiting.own.calls == []


async def test_a_confirmation_of_something_else_counts_as_none() -> None:
    waiting = Waiting(calls(PAY), says("x"), decide=lambda question: Confirm("another digest", 1060.0))
    result = await waiting.runner.run("pay")
    assert result.status == "finished"
    assert waiting.own.calls == []
    assert "TOOL_POLICY_ERROR" in result.history[2]["content"]


async def test_calls_that_cannot_run_need_no_person() -> None:
    waiting = Waiting(calls(ModelToolCall("c", "pay", "{oops")), says("x"))
    assert (await waiting.runner.run("pay")).status == "finished"


async def test_a_continuation_shows_nothing_of_the_run() -> None:
    waiting = Waiting(calls(PAY))
    paused = await waiting.runner.run("CANARY")
    assert "CANARY" not in paused.continuation
    assert paused.continuation.isascii()


async def test_arguments_of_any_size_come_back_exactly() -> None:
    wanted = ModelToolCall(
        "c1", "pay", '{"a": 123456789012345678901234567890, "b": 1.5, "c": {"d": [null, "\\u0000é"]}}'
    )
    waiting = Waiting(calls(wanted), says("x"))
    paused = await waiting.runner.run("pay")
    await waiting.runner.resume(paused.continuation, {"c1": "allow"})
    expected = {"a": 123456789012345678901234567890, "b": 1.5, "c": {"d": [None, "\x00é"]}}
    assert waiting.own.calls == [("pay", expected, "c1")]
