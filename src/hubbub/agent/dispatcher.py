"""Makes the calls of one answer and writes their results into the conversation, in the order of the calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from hubbub.agent import failures
from hubbub.agent.calls import ToolCall
from hubbub.agent.envelope import ToolEnvelope, as_envelope, error_envelope, list_error_codes, make_problem
from hubbub.agent.events import Events
from hubbub.agent.executor import Executor
from hubbub.agent.images import image_message, pop_images
from hubbub.agent.model import Message
from hubbub.agent.options import LoopOptions
from hubbub.agent.output_limit import LimitedOutput, limit_output
from hubbub.agent.policy_evaluator import Blocked, Verdict
from hubbub.agent.run_state import CallTrace, RunState


class Dispatcher:
    """Runs calls according to their verdicts."""

    def __init__(self, executor: Executor | None, options: LoopOptions) -> None:
        self._executor = executor
        self._options = options

    async def run(
        self, calls: Sequence[ToolCall], verdicts: Sequence[Verdict], state: RunState, events: Events
    ) -> None:
        """Run or refuse each call, and record the outcome in the state."""
        pairs = list(zip(calls, verdicts, strict=True))
        if self._options.runs_in_parallel:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run_call(call, verdict, events)) for call, verdict in pairs]
            outcomes = [task.result() for task in tasks]
        else:
            outcomes = [await self._run_call(call, verdict, events) for call, verdict in pairs]
        images: list[tuple[str, Sequence[Mapping[str, str]]]] = []
        for call, (limited, found, trace) in zip(calls, outcomes, strict=True):
            state.messages.append(_tool_message(call, limited))
            if found:
                images.append((call.name, found))
            state.outcomes[call.name] = trace.ok
            state.has_success = state.has_success or trace.ok
            state.trace[-1].calls.append(trace)
        if images:
            state.messages.append(image_message(images))
        state.calls += len(calls)

    async def _run_call(
        self, call: ToolCall, verdict: Verdict, events: Events
    ) -> tuple[LimitedOutput, Sequence[Mapping[str, str]], CallTrace]:
        if isinstance(verdict, Blocked):
            limited = limit_output(verdict.envelope, self._options.max_output_bytes)
            return limited, (), CallTrace(call.id, call.name, False, list_error_codes(limited.envelope), 0.0)
        await events.emit(
            "tool_call_start",
            call_id=call.id,
            tool=call.name,
            argument_bytes=call.arguments.bytes,
            parse_status=call.arguments.status,
        )
        started = time.monotonic()
        envelope, images = pop_images(await self._execute(call))
        limited = limit_output(envelope, self._options.max_output_bytes)
        elapsed_ms = (time.monotonic() - started) * 1000
        error_codes = list_error_codes(limited.envelope)
        is_ok = limited.envelope["ok"]
        await events.emit(
            "tool_call_end",
            call_id=call.id,
            tool=call.name,
            ok=is_ok,
            elapsed_ms=elapsed_ms,
            output_bytes=limited.bytes,
            output_replaced=limited.was_replaced,
            error_codes=error_codes,
            warning_codes=[warning["code"] for warning in limited.envelope["warnings"]],
        )
        return limited, images, CallTrace(call.id, call.name, is_ok, error_codes, elapsed_ms)

    async def _execute(self, call: ToolCall) -> ToolEnvelope:
        if self._executor is None:
            return error_envelope(
                call.name, make_problem(failures.TOOL_NOT_IMPLEMENTED, "The tool loop has no executor")
            )
        try:
            return as_envelope(call.name, await self._executor.call(call.name, call.arguments.value, call_id=call.id))
        except Exception as error:  # An executor of the application's own may raise anything.
            return error_envelope(call.name, failures.application_problem(error))


def _tool_message(call: ToolCall, limited: LimitedOutput) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": limited.text}
