"""The tool loop: ask the model, run the tools that it calls, return the results to it, until it gives an answer.

    runner = ToolLoopRunner(registry, executor, chat=OpenAIChat(url, model="..."))
    result = await runner.run("What is on my disk?", on_event=print)

Runs are independent of each other and may be concurrent. A run that needs a person's approval returns as `paused`;
`resume` continues it, once.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.agent.calls import ToolCall, assistant_message, call_ids, parse_calls
from hubbub.agent.definition import Definition
from hubbub.agent.dispatcher import Dispatcher
from hubbub.agent.errors import MaxTurnsExceeded, ModelError, NoToolCalls, PolicyFailed, ToolCallsFailed, ToolUseError
from hubbub.agent.events import Events, OnEvent, shorten
from hubbub.agent.executor import Executor, Function, as_executor
from hubbub.agent.model import Message, Model, ModelRequest, ModelResponse, OnText
from hubbub.agent.options import LoopOptions
from hubbub.agent.policy_evaluator import PolicyEvaluator
from hubbub.agent.registry import Registry
from hubbub.agent.run_state import PausedRun, PausedRuns, PendingCall, RunResult, RunState, TurnTrace, check_answers
from hubbub.errors import InvalidParams, SettingsError
from hubbub.net.backoff import Backoff
from hubbub.ports import Sealer
from hubbub.security.policy import Decide, allow_all
from hubbub.security.redact import redact

Narrow: TypeAlias = Callable[[Sequence[Definition], Mapping[str, str]], "Iterable[str] | Awaitable[Iterable[str]]"]
"""Returns the names of the tools that the model is shown in this turn."""

_MAX_HIDDEN_NAMES = 20


class ToolLoopRunner:
    """Runs conversations of one model with one set of tools."""

    def __init__(
        self,
        registry: Registry,
        executor: Executor | Function | None = None,
        *,
        chat: Model,
        system: str | None = None,
        decide: Decide = allow_all,
        narrow: Narrow | None = None,
        options: LoopOptions | None = None,
        sealer: Sealer | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`sealer` seals paused runs; without one, only this runner can resume them.

        Raises:
            SettingsError: there are tools but no executor.
        """
        self._options = options or LoopOptions()
        if executor is None and len(registry) and self._options.tool_use_mode != "disabled":
            raise SettingsError('There are tools but no `executor`: pass one, or set `tool_use_mode="disabled"`')
        self._registry = registry
        self._chat = chat
        self._system = system
        self._narrow = narrow
        self._policy = PolicyEvaluator(decide, self._options.policy_error_mode)
        self._dispatcher = Dispatcher(None if executor is None else as_executor(executor), self._options)
        self._sleep = sleep
        self._paused_runs = PausedRuns(sealer or _default_sealer(clock), clock)

    async def run(
        self,
        user_text: str,
        history: Sequence[Message] = (),
        *,
        max_turns: int = bounds.MODEL_TURNS,
        on_event: OnEvent | None = None,
        on_text: OnText | None = None,
        context: Mapping[str, str] | None = None,
    ) -> RunResult:
        """Continue a conversation. `on_text` gets the model's text while it is generated.

        Raises:
            ToolUseError: too many turns, or an outcome that the options do not accept.
            ModelError: the model gave no answer.
        """
        if max_turns < 1:
            raise SettingsError(f"`max_turns` must be above 0, not {max_turns!r}")
        messages = [*copy.deepcopy(list(history))]
        if user_text.strip():
            messages.append({"role": "user", "content": user_text})
        elif not messages:
            raise InvalidParams("`user_text` and `history` are both empty; pass at least one of them")
        state = RunState(run_id=str(uuid.uuid4()), messages=messages, max_turns=max_turns, context=dict(context or {}))
        return await self._run_turns(state, Events(on_event, state.run_id, state.context), on_text)

    async def resume(
        self,
        continuation: str,
        answers: Mapping[str, str],
        *,
        on_event: OnEvent | None = None,
        on_text: OnText | None = None,
    ) -> RunResult:
        """Continue a paused run; `answers` has `allow` or `deny` for each pending call.

        Raises:
            ContinuationRefused: the run is not ours, too old or already resumed, or an answer is missing.
            ToolUseError, ModelError: as `run`.
        """
        paused = self._paused_runs.open_run(continuation)
        check_answers(paused.pending, answers)
        self._paused_runs.mark_resumed(paused)
        state = paused.state
        events = Events(on_event, state.run_id, state.context)
        events.turn = state.turns
        paused_result = await self._make_calls(
            paused.calls, self._registry.narrowed(paused.exposed), state, events, answers
        )
        return paused_result or await self._run_turns(state, events, on_text)

    # -- turns ---------------------------------------------------------------------

    async def _run_turns(self, state: RunState, events: Events, on_text: OnText | None) -> RunResult:
        while state.turns < state.max_turns:
            state.turns += 1
            events.turn = state.turns
            exposed = await self._select_tools(state, events)
            answer = await self._request_answer(state, exposed, events, on_text)
            if not answer.calls:
                if await self._needs_nudge(answer, state, events):
                    continue
                return await self._finish(answer, state, events)
            calls = parse_calls(
                answer.calls,
                exposed,
                call_ids(state.messages),
                first=state.calls + 1,
                max_bytes=self._options.max_argument_bytes,
            )
            state.messages.append(assistant_message(answer.text, calls))
            paused_result = await self._make_calls(calls, exposed, state, events)
            if paused_result is not None:
                return paused_result
        raise MaxTurnsExceeded(
            f"The model gave no final answer within {state.max_turns} turns (`max_turns`)", state.messages
        )

    async def _make_calls(
        self,
        calls: list[ToolCall],
        exposed: Registry,
        state: RunState,
        events: Events,
        answers: Mapping[str, str] | None = None,
    ) -> RunResult | None:
        """Run the calls, or return the paused run if some of them need approval."""
        try:
            verdicts = await self._policy.evaluate(calls, exposed, state, events, answers)
        except ToolUseError as error:
            error.history = state.messages[:-1]
            raise
        pending = [verdict for verdict in verdicts if isinstance(verdict, PendingCall)]
        if not pending:
            await self._dispatcher.run(calls, verdicts, state, events)
            return None
        paused = PausedRun(str(uuid.uuid4()), state, calls, [item.name for item in exposed.exposed], pending)
        await events.emit("confirmation_required", calls={item.call_id: item.tool for item in pending})
        return RunResult(
            status="paused",
            run_id=state.run_id,
            history=state.messages[:-1],
            trace=state.trace,
            pending=pending,
            continuation=self._paused_runs.seal_run(paused),
        )

    async def _select_tools(self, state: RunState, events: Events) -> Registry:
        """The tools that the model is shown, and may call, in this turn."""
        is_final_request = state.is_nudged and not self._options.empty_final_keeps_tools
        if self._options.tool_use_mode == "disabled" or is_final_request:
            return Registry()
        if self._narrow is None:
            return self._registry
        names = [definition.name for definition in self._registry.exposed]
        try:
            narrowed = self._narrow(self._registry.exposed, state.context)
            shown = set(await narrowed if inspect.isawaitable(narrowed) else narrowed)
            if unknown := shown - set(names):
                listed = ", ".join(sorted(map(str, unknown)))
                raise InvalidParams(f"The filter returned {len(unknown)} unknown tool names: {listed}")
        except Exception as error:  # A filter that raises must not show more tools.
            detail = f"{type(error).__name__}: {redact(str(error))}"
            await events.emit("policy_error", stage="exposure", message=shorten(detail))
            if self._options.policy_error_mode == "raise":
                raise PolicyFailed("The filter `narrow` failed to select tools", state.messages) from error
            shown = set()
        if len(shown) < len(names):
            hidden = [name for name in names if name not in shown]
            await events.emit("tools_filtered", before=len(names), after=len(shown), hidden=hidden[:_MAX_HIDDEN_NAMES])
        return self._registry.narrowed(shown)

    # -- one answer -------------------------------------------------------------------

    async def _request_answer(
        self, state: RunState, exposed: Registry, events: Events, on_text: OnText | None
    ) -> ModelResponse:
        fallbacks = self._options.fallback_retry_count if self._options.tool_use_mode == "relaxed" else 0
        tools, backoff = exposed.openai_tools(), Backoff()
        while True:
            try:
                return await self._send_request(state, tools, events, on_text)
            except ModelError as error:
                await events.emit("llm_request_error", code=error.code, status=error.status)
                wait_s = self._retry_wait_s(error, backoff)
                if wait_s is None and (fallbacks < 1 or error.status is None or not tools):
                    error.history = list(state.messages)
                    raise
            if wait_s is None:
                fallbacks, tools = fallbacks - 1, []
            await events.emit("llm_request_retry", tools=len(tools), wait_s=wait_s or 0.0)
            if wait_s is not None:
                await self._sleep(wait_s)

    def _retry_wait_s(self, error: ModelError, backoff: Backoff) -> float | None:
        """Seconds to wait before the same request is sent again; None: do not send it again.

        Only after an HTTP status: then no text was forwarded, and the endpoint has reported that it did nothing.
        """
        if not error.retryable or error.status is None or backoff.failures >= self._options.max_model_retries:
            return None
        wait_s = backoff.next_s()
        if error.retry_after_s is None:
            return wait_s
        return error.retry_after_s if error.retry_after_s <= bounds.MODEL_RETRY_MAX_S else None

    async def _send_request(
        self, state: RunState, tools: list[dict[str, Any]], events: Events, on_text: OnText | None
    ) -> ModelResponse:
        messages = [{"role": "system", "content": self._system}] if self._system else []
        messages += state.messages
        if state.is_nudged:
            messages.append({"role": "user", "content": self._options.empty_final_text})
        request = ModelRequest(
            messages=messages,
            tools=tools,
            tool_choice=self._options.tool_choice if tools else None,
            parallel_tool_calls=self._options.parallel_tool_calls if tools else None,
        )
        await events.emit("llm_request_start", messages=len(messages), tools=len(tools))
        started = time.monotonic()
        answer = await self._chat.complete(request, on_text=on_text)
        elapsed_ms = (time.monotonic() - started) * 1000
        usage = None if answer.usage is None else dict(answer.usage)
        accepted = answer.calls[: self._options.calls_per_turn] if tools else ()
        ignored = len(answer.calls) - len(accepted)
        state.trace.append(TurnTrace(elapsed_ms, answer.finish_reason, usage, ignored_calls=ignored))
        await events.emit(
            "llm_request_end",
            elapsed_ms=elapsed_ms,
            finish_reason=answer.finish_reason,
            tool_calls=len(accepted),
            ignored_calls=ignored,
            text_bytes=len(answer.text.encode(errors="replace")),
            usage=usage,
        )
        return msgspec.structs.replace(answer, calls=accepted)

    # -- the end ----------------------------------------------------------------------

    async def _needs_nudge(self, answer: ModelResponse, state: RunState, events: Events) -> bool:
        """Whether to ask once more, because the model gave no text after its calls."""
        if answer.text.strip() or not state.calls or state.is_nudged or not self._options.fix_empty_final:
            return False
        state.is_nudged = True
        await events.emit("fix_empty_final")
        return True

    async def _finish(self, answer: ModelResponse, state: RunState, events: Events) -> RunResult:
        state.messages.append(assistant_message(answer.text, ()))
        self._check_outcome(state)
        await events.emit(
            "final", turns=state.turns, calls=state.calls, text_bytes=len(answer.text.encode(errors="replace"))
        )
        return RunResult(
            status="finished",
            run_id=state.run_id,
            assistant_text=answer.text,
            history=state.messages,
            trace=state.trace,
        )

    def _check_outcome(self, state: RunState) -> None:
        is_enforced = self._options.tool_use_mode == "enforced"
        if is_enforced and not state.calls:
            raise NoToolCalls("The model answered without calling any tool", state.messages)
        failed_tools = sorted(name for name, is_ok in state.outcomes.items() if not is_ok)
        if self._options.tool_failure_policy == "fatal" and failed_tools:
            raise ToolCallsFailed(f"The last calls of these tools failed: {', '.join(failed_tools)}", state.messages)
        if is_enforced and not state.has_success:
            raise ToolCallsFailed("No tool call succeeded", state.messages)


def _default_sealer(clock: Callable[[], float]) -> Sealer:
    from hubbub.security.sealer import Sealer as RandomSealer

    return RandomSealer(clock=clock)
