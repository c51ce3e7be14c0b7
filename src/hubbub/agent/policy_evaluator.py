"""Asks the policy about the calls of one answer, before any of them runs.

Each call may run, is blocked with an envelope for the model, or waits for approval. A policy that raises or returns an
invalid decision never allows a call.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from hubbub.agent.calls import ToolCall
from hubbub.agent.envelope import ToolEnvelope, error_envelope, make_problem
from hubbub.agent.errors import PolicyFailed
from hubbub.agent.events import Events, shorten
from hubbub.agent.frozen import freeze
from hubbub.agent.options import PolicyErrorMode
from hubbub.agent.registry import Registry
from hubbub.agent.run_state import PendingCall, RunState
from hubbub.security.policy import Allow, Confirm, Decide, Decision, Deny, PolicyRequest, call_digest
from hubbub.security.redact import redact

TOOL_NOT_ALLOWED: Final = "TOOL_NOT_ALLOWED"
TOOL_POLICY_DENIED: Final = "TOOL_POLICY_DENIED"
TOOL_POLICY_ERROR: Final = "TOOL_POLICY_ERROR"
POLICY_EXCEPTION: Final = "POLICY_EXCEPTION"
POLICY_INVALID_DECISION: Final = "POLICY_INVALID_DECISION"


class Permitted(msgspec.Struct, frozen=True):
    """The call may run."""


class Blocked(msgspec.Struct, frozen=True):
    """The call must not run; the model gets this envelope."""

    envelope: ToolEnvelope


Verdict: TypeAlias = Permitted | Blocked | PendingCall


class PolicyEvaluator:
    """Applies one policy to calls."""

    def __init__(self, decide: Decide, policy_error_mode: PolicyErrorMode = "deny") -> None:
        self._decide = decide
        self._policy_error_mode = policy_error_mode

    async def evaluate(
        self,
        calls: Sequence[ToolCall],
        exposed: Registry,
        state: RunState,
        events: Events,
        answers: Mapping[str, str] | None = None,
    ) -> list[Verdict]:
        """Return one verdict for each call; `answers` holds the person's decisions by call id."""
        return [await self._evaluate_call(call, exposed, state, events, (answers or {}).get(call.id)) for call in calls]

    async def _evaluate_call(
        self, call: ToolCall, exposed: Registry, state: RunState, events: Events, answer: str | None
    ) -> Verdict:
        if not call.is_known or call.name not in exposed:
            message = f"Unknown tool {call.name!r}; call only tools that you were given"
            return await _block(call, TOOL_NOT_ALLOWED, message, events)
        if not call.arguments.is_usable:
            return Blocked(error_envelope(call.name, make_problem(call.arguments.code, call.arguments.message)))
        try:
            request = self._make_request(call, exposed, state)
            result = self._decide(request)
            decision = await result if inspect.isawaitable(result) else result
        except Exception as error:  # A policy that raises does not allow the call.
            return await self._policy_failed(call, POLICY_EXCEPTION, error, events)
        return await self._apply_decision(call, request, decision, answer, events)

    async def _apply_decision(
        self, call: ToolCall, request: PolicyRequest, decision: Decision, answer: str | None, events: Events
    ) -> Verdict:
        match decision:
            case Allow():
                # The person was asked before the policy allowed it, and refused.
                if answer != "deny":
                    return Permitted()
            case Deny():
                return await _block(call, TOOL_POLICY_DENIED, decision.reason, events, outcome="deny")
            case Confirm() if decision.digest == request.digest:
                if answer == "allow":
                    return Permitted()
                if answer is None:
                    return PendingCall(
                        call.id,
                        call.name,
                        call.arguments.value,
                        request.digest,
                        decision.expiry,
                        decision.reason,
                        request.server_id,
                    )
            case _:
                return await self._policy_failed(call, POLICY_INVALID_DECISION, None, events)
        return await _block(call, TOOL_POLICY_DENIED, "The user refused this call", events, outcome="refused")

    async def _policy_failed(self, call: ToolCall, code: str, error: Exception | None, events: Events) -> Verdict:
        detail = "" if error is None else f"{type(error).__name__}: {redact(str(error))}"
        await events.emit("policy_error", stage="call", tool=call.name, reason=code, message=shorten(detail))
        if self._policy_error_mode == "raise":
            raise PolicyFailed(f"The policy failed to decide about {call.name} ({code})") from error
        message = "The policy failed to decide, so the call was blocked"
        return await _block(call, TOOL_POLICY_ERROR, message, events, outcome="error", reason_codes=[code])

    def _make_request(self, call: ToolCall, exposed: Registry, state: RunState) -> PolicyRequest:
        definition = exposed.get(call.name)
        origin = definition.origin if definition else None
        return PolicyRequest(
            tool=call.name,
            # A policy must not be able to change what it was asked about.
            arguments=freeze(call.arguments.value),
            digest=call_digest(call.name, call.arguments.value),
            call_id=call.id,
            run_id=state.run_id,
            server_id=origin.server_id if origin else None,
            remote_tool_name=origin.remote_tool_name if origin else None,
            annotations=definition.annotations if definition else None,
            context=state.context,
        )


async def _block(
    call: ToolCall, code: str, message: str, events: Events, *, outcome: str = "", reason_codes: Sequence[str] = ()
) -> Blocked:
    await events.emit("tool_call_blocked", call_id=call.id, tool=call.name, code=code)
    policy = {"outcome": outcome, "reason_codes": list(reason_codes)} if outcome else None
    return Blocked(error_envelope(call.name, make_problem(code, message), data={"policy": policy} if policy else None))
