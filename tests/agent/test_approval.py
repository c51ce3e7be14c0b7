"""Calls that need approval: they run only after it, only as shown, and only once."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.agent.fakes import EventRecorder, FakeTools, ScriptedModel, calls, definitions, text_answer

from hubbub import (
    Allow,
    Confirm,
    ContinuationRefused,
    Deny,
    ModelResponse,
    ModelToolCall,
    PolicyRequest,
    ToolLoopRunner,
    ToolsBuilder,
)
from hubbub.security.policy import Decide, Decision, call_digest
from hubbub.security.sealer import Sealer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ApprovalHarness:
    """A runner whose tool `pay` needs confirmation."""

    def __init__(self, *answers: ModelResponse, decide: Decide | None = None, **options: Any) -> None:
        self.clock = Clock()
        self.model = ScriptedModel(*answers)
        self.local_tools = FakeTools()
        self.recorder = EventRecorder()
        self.options = options
        self.decide = decide or self._confirm_payments
        self.runner = self.new_runner()

    def _confirm_payments(self, request: PolicyRequest) -> Decision:
        return Confirm(request.digest, self.clock() + 60) if request.tool == "pay" else Allow()

    def new_runner(self, *tools: str) -> ToolLoopRunner:
        registry = ToolsBuilder.build(definitions(*(tools or ("pay", "now"))))
        return ToolLoopRunner(
            registry, self.local_tools, chat=self.model, decide=self.decide, clock=self.clock, **self.options
        )


def scripted_policy(*decisions: Callable[[PolicyRequest], Decision]) -> Decide:
    """A policy that returns the next scripted decision at each call."""
    remaining = list(decisions)

    def decide(request: PolicyRequest) -> Decision:
        return remaining.pop(0)(request)

    return decide


PAY = ModelToolCall("c1", "pay", '{"amount": 5}')


async def test_a_run_pauses_before_any_call_of_the_response_runs() -> None:
    harness = ApprovalHarness(calls("now", PAY, "now"))
    result = await harness.runner.run("pay them", on_event=harness.recorder)
    assert result.status == "paused"
    assert harness.local_tools.calls == []
    (pending,) = result.pending
    assert (pending.call_id, pending.tool, pending.arguments) == ("c1", "pay", {"amount": 5})
    assert (pending.digest, pending.expiry) == (call_digest("pay", {"amount": 5}), 1060.0)
    assert dict(harness.recorder.only("confirmation_required").details) == {"calls": {"c1": "pay"}}
    assert [message["role"] for message in result.history] == ["user"]


async def test_an_approved_run_continues_with_exactly_the_shown_arguments() -> None:
    harness = ApprovalHarness(calls("now", PAY), text_answer("paid"))
    paused = await harness.runner.run("pay them")
    result = await harness.runner.resume(paused.continuation, {"c1": "allow"}, on_event=harness.recorder)
    assert harness.local_tools.calls == [("now", {}, "id0"), ("pay", {"amount": 5}, "c1")]
    assert (result.status, result.assistant_text, result.run_id) == ("finished", "paid", paused.run_id)
    assert [message["role"] for message in result.history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert {event.run_id for event in harness.recorder.events} == {paused.run_id}
    assert [event.turn for event in harness.recorder.events][:1] == [1]


async def test_a_rejected_call_is_reported_to_the_model_and_the_others_run() -> None:
    harness = ApprovalHarness(calls(PAY, "now"), text_answer("well then"))
    paused = await harness.runner.run("pay them")
    result = await harness.runner.resume(paused.continuation, {"c1": "deny"})
    assert harness.local_tools.names == ["now"]
    assert "TOOL_POLICY_DENIED" in result.history[2]["content"]
    assert result.assistant_text == "well then"


async def test_a_run_can_pause_more_than_once() -> None:
    harness = ApprovalHarness(calls(PAY), calls(PAY), text_answer("x"))
    first = await harness.runner.run("pay twice")
    second = await harness.runner.resume(first.continuation, {"c1": "allow"})
    assert second.status == "paused"
    assert second.pending[0].call_id == "c1__2"
    third = await harness.runner.resume(second.continuation, {"c1__2": "allow"})
    assert third.status == "finished"
    assert harness.local_tools.names == ["pay", "pay"]


async def test_a_run_is_not_resumed_twice() -> None:
    harness = ApprovalHarness(calls(PAY), text_answer("x"), text_answer("y"))
    paused = await harness.runner.run("pay")
    await harness.runner.resume(paused.continuation, {"c1": "allow"})
    with pytest.raises(ContinuationRefused, match="already"):
        await harness.runner.resume(paused.continuation, {"c1": "allow"})
    assert harness.local_tools.names == ["pay"]


async def test_an_expired_continuation_is_refused() -> None:
    harness = ApprovalHarness(calls(PAY))
    paused = await harness.runner.run("pay")
    harness.clock.now += 61
    with pytest.raises(ContinuationRefused, match="expired"):
        await harness.runner.resume(paused.continuation, {"c1": "allow"})
    assert harness.local_tools.calls == []


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
async def test_a_modified_continuation_is_refused(change: Callable[[str], str]) -> None:
    harness = ApprovalHarness(calls(PAY))
    paused = await harness.runner.run("pay")
    with pytest.raises(ContinuationRefused):
        await harness.runner.resume(change(paused.continuation), {"c1": "allow"})
    assert harness.local_tools.calls == []


async def test_a_continuation_sealed_for_another_purpose_is_refused() -> None:
    sealer = Sealer()
    harness = ApprovalHarness(calls(PAY), sealer=sealer)
    with pytest.raises(ContinuationRefused):
        await harness.runner.resume(sealer.seal("cursor", {}), {})
    with pytest.raises(ContinuationRefused):
        await harness.runner.resume(sealer.seal("agent-continuation", {"calls": 3}), {})


@pytest.mark.parametrize(
    ("answers", "message"),
    [({}, "c1"), ({"c2": "allow"}, "c2"), ({"c1": "yes"}, "allow or deny"), ({"c1": "allow", "id0": "allow"}, "id0")],
)
async def test_decisions_must_match_the_pending_calls_and_can_be_corrected(
    answers: dict[str, str], message: str
) -> None:
    harness = ApprovalHarness(calls("now", PAY), text_answer("x"))
    paused = await harness.runner.run("pay")
    with pytest.raises(ContinuationRefused, match=message):
        await harness.runner.resume(paused.continuation, answers)
    assert harness.local_tools.calls == []
    assert (await harness.runner.resume(paused.continuation, {"c1": "allow"})).status == "finished"


async def test_another_process_with_the_same_key_can_resume() -> None:
    key = bytes(range(32))
    harness = ApprovalHarness(calls(PAY), text_answer("paid"), sealer=Sealer([key]))
    paused = await harness.runner.run("pay")
    other = ApprovalHarness(text_answer("x"))
    with pytest.raises(ContinuationRefused):
        await other.runner.resume(paused.continuation, {"c1": "allow"})
    assert (await harness.new_runner().resume(paused.continuation, {"c1": "allow"})).assistant_text == "paid"


async def test_a_tool_removed_during_the_pause_does_not_run() -> None:
    key = bytes(range(32))
    harness = ApprovalHarness(calls(PAY), text_answer("x"), sealer=Sealer([key]))
    paused = await harness.runner.run("pay")
    result = await harness.new_runner("now").resume(paused.continuation, {"c1": "allow"})
    assert harness.local_tools.calls == []
    assert "TOOL_NOT_ALLOWED" in result.history[2]["content"]


async def test_a_policy_that_now_denies_overrides_the_approval() -> None:
    decisions: tuple[Callable[[PolicyRequest], Decision], ...] = (
        lambda request: Confirm(request.digest, 1060.0, "Sure?"),
        lambda request: Deny("Not any more"),
    )
    harness = ApprovalHarness(calls(PAY), text_answer("x"), decide=scripted_policy(*decisions))
    paused = await harness.runner.run("pay")
    assert paused.pending[0].reason == "Sure?"
    await harness.runner.resume(paused.continuation, {"c1": "allow"})
    assert harness.local_tools.calls == []


async def test_a_rejection_overrides_a_policy_that_now_allows() -> None:
    decisions: tuple[Callable[[PolicyRequest], Decision], ...] = (
        lambda request: Confirm(request.digest, 1060.0),
        lambda request: Allow(),
    )
    harness = ApprovalHarness(calls(PAY), text_answer("x"), decide=scripted_policy(*decisions))
    paused = await harness.runner.run("pay")
    await harness.runner.resume(paused.continuation, {"c1": "deny"})
    assert harness.local_tools.calls == []


async def test_a_confirmation_of_another_call_is_ignored() -> None:
    harness = ApprovalHarness(calls(PAY), text_answer("x"), decide=lambda request: Confirm("another digest", 1060.0))
    result = await harness.runner.run("pay")
    assert result.status == "finished"
    assert harness.local_tools.calls == []
    assert "TOOL_POLICY_ERROR" in result.history[2]["content"]


async def test_calls_that_cannot_run_need_no_confirmation() -> None:
    harness = ApprovalHarness(calls(ModelToolCall("c", "pay", "{oops")), text_answer("x"))
    assert (await harness.runner.run("pay")).status == "finished"


async def test_a_continuation_is_encrypted() -> None:
    harness = ApprovalHarness(calls(PAY))
    paused = await harness.runner.run("CANARY")
    assert "CANARY" not in paused.continuation
    assert paused.continuation.isascii()


async def test_arguments_of_any_size_are_restored_exactly() -> None:
    wanted = ModelToolCall(
        "c1", "pay", '{"a": 123456789012345678901234567890, "b": 1.5, "c": {"d": [null, "\\u0000é"]}}'
    )
    harness = ApprovalHarness(calls(wanted), text_answer("x"))
    paused = await harness.runner.run("pay")
    await harness.runner.resume(paused.continuation, {"c1": "allow"})
    expected = {"a": 123456789012345678901234567890, "b": 1.5, "c": {"d": [None, "\x00é"]}}
    assert harness.local_tools.calls == [("pay", expected, "c1")]
