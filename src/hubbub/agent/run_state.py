"""The state of a run between two answers of its model, as plain data.

A run that waits for approval is sealed into text and opened again later, possibly by another process with the same
key. Without the key it can be neither read nor changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from hubbub import bounds
from hubbub.agent.calls import ToolCall
from hubbub.agent.errors import ContinuationRefused
from hubbub.agent.model import Message
from hubbub.ports import Sealer

_SEAL_PURPOSE = "agent-continuation"


class CallTrace(msgspec.Struct, frozen=True):
    """The outcome of one call."""

    id: str
    name: str
    ok: bool
    error_codes: list[str]
    elapsed_ms: float


class TurnTrace(msgspec.Struct):
    """One answer of the model, and the calls that it led to."""

    elapsed_ms: float
    finish_reason: str = ""
    usage: dict[str, Any] | None = None
    calls: list[CallTrace] = []
    ignored_calls: int = 0
    """Calls above the limit, or made although no tools were shown."""


class RunState(msgspec.Struct, kw_only=True):
    """The state of one run."""

    run_id: str
    messages: list[Message]
    """The conversation, without the system prompt."""
    max_turns: int
    context: dict[str, str] = {}
    turns: int = 0
    calls: int = 0
    """Calls made so far, including failed and refused ones."""
    outcomes: dict[str, bool] = {}
    """By tool: whether its last call succeeded."""
    has_success: bool = False
    is_nudged: bool = False
    """Whether the model was already asked for a final answer."""
    trace: list[TurnTrace] = []


class PendingCall(msgspec.Struct, frozen=True):
    """A call that waits for a person's approval."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    expiry: float
    """Unix time."""
    reason: str = ""
    server_id: str | None = None


class PausedRun(msgspec.Struct):
    """A run that waits for approval."""

    id: str
    state: RunState
    calls: list[ToolCall]
    exposed: list[str]
    """Names of the tools that the model was shown when it made these calls."""
    pending: list[PendingCall]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run that has ended or is paused."""

    status: Literal["finished", "paused"]
    run_id: str
    assistant_text: str = ""
    history: Sequence[Message] = ()
    """The whole conversation, to pass to the next run."""
    trace: Sequence[TurnTrace] = ()
    pending: Sequence[PendingCall] = ()
    """If paused: the calls that wait for approval."""
    continuation: str = ""
    """If paused: the argument of `resume`."""


class PausedRuns:
    """Seals paused runs into text, and opens each of them once.

    Resumed runs are remembered only here: processes that share a key must make sure that a run is resumed only once.
    """

    def __init__(self, sealer: Sealer, clock: Callable[[], float] = time.time) -> None:
        self._sealer = sealer
        self._clock = clock
        self._resumed: dict[str, float] = {}

    def seal_run(self, paused: PausedRun) -> str:
        """Seal a run into text, which is valid until the first of its calls expires."""
        lifetime_s = max(0.0, min(item.expiry for item in paused.pending) - self._clock())
        # As JSON, because the values come from JSON: other encodings have smaller integers.
        return self._sealer.seal(_SEAL_PURPOSE, msgspec.json.encode(paused), lifetime_s=lifetime_s)

    def open_run(self, continuation: str) -> PausedRun:
        """Open the text of a paused run.

        Raises: ContinuationRefused.
        """
        try:
            paused = msgspec.json.decode(self._sealer.open(_SEAL_PURPOSE, continuation), type=PausedRun)
        except (ValueError, TypeError):
            raise ContinuationRefused(
                "This run cannot be resumed: its continuation is invalid, was changed or has expired; start a new run"
            ) from None
        if any(item.expiry <= self._clock() for item in paused.pending):
            raise ContinuationRefused("This run expired before it was resumed; start a new run")
        if paused.id in self._resumed:
            raise ContinuationRefused("This run was already resumed; a run can be resumed only once")
        return paused

    def mark_resumed(self, paused: PausedRun) -> None:
        """Mark a run as resumed, so that it cannot be resumed again."""
        now = self._clock()
        self._resumed = {key: expiry for key, expiry in self._resumed.items() if expiry > now}
        if len(self._resumed) >= bounds.PAUSED_RUNS:
            raise ContinuationRefused("Too many runs are being resumed at once; try again later")
        self._resumed[paused.id] = min(item.expiry for item in paused.pending)


def check_answers(pending: Sequence[PendingCall], answers: Mapping[str, str]) -> None:
    """Check that the answers fit the pending calls.

    Raises: ContinuationRefused.
    """
    known = {item.call_id for item in pending}
    for call_id, answer in answers.items():
        if call_id not in known:
            raise ContinuationRefused(f"`answers` has an unknown call {call_id!r}; pending: {', '.join(sorted(known))}")
        if answer not in ("allow", "deny"):
            raise ContinuationRefused(f"The answer to {call_id!r} must be allow or deny, not {answer!r}")
    if missing := sorted(known - set(answers)):
        raise ContinuationRefused(f"`answers` must also have the pending calls {', '.join(missing)}")
