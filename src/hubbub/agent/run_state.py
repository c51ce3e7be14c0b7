"""Where a run stands between two answers of its model: all that is needed to go on, as plain data.

A run that waits for a person is sealed into text with this and opened again later, maybe
by another process with the same key. Nobody else can read or change it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from hubbub import bounds
from hubbub.agent.calls import ToolCall
from hubbub.agent.model import Message
from hubbub.errors import ContinuationRefused
from hubbub.ports import Sealer

_PURPOSE = "agent-continuation"


class CallTrace(msgspec.Struct, frozen=True):
    """What became of one call."""

    id: str
    name: str
    ok: bool
    error_codes: list[str]
    elapsed_ms: float


class TurnTrace(msgspec.Struct):
    """One answer of the model and what followed."""

    elapsed_ms: float
    finish_reason: str = ""
    usage: dict[str, Any] | None = None
    calls: list[CallTrace] = []
    ignored_calls: int = 0
    """Calls that were too many, or made although no tools were shown."""


class RunState(msgspec.Struct, kw_only=True):
    """One run."""

    run_id: str
    messages: list[Message]
    """The conversation, without the system prompt."""
    max_turns: int
    context: dict[str, str] = {}
    turns: int = 0
    calls: int = 0
    """Calls made so far, also failed and refused ones."""
    outcomes: dict[str, bool] = {}
    """By tool: whether its last call went well."""
    has_success: bool = False
    is_nudged: bool = False
    """Whether the model was already asked for a final answer."""
    trace: list[TurnTrace] = []


class PendingCall(msgspec.Struct, frozen=True):
    """A call that a person has to say yes or no to."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    expiry: float
    """Seconds since 1970."""
    reason: str = ""
    server_id: str | None = None


class Paused(msgspec.Struct):
    """A run that waits."""

    id: str
    state: RunState
    calls: list[ToolCall]
    exposed: list[str]
    """What the model was shown when it made these calls."""
    pending: list[PendingCall]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run, so far or for good."""

    status: Literal["finished", "paused"]
    run_id: str
    assistant_text: str = ""
    history: Sequence[Message] = ()
    """The whole conversation, to be given to the next run."""
    trace: Sequence[TurnTrace] = ()
    pending: Sequence[PendingCall] = ()
    """If paused: what waits for a person."""
    continuation: str = ""
    """If paused: what `resume` takes."""


class Shelf:
    """Puts paused runs away and takes each up again once.

    Which were taken up is remembered here only: processes that share a key have to see
    to it between them that a text reaches one of them.
    """

    def __init__(self, sealer: Sealer, clock: Callable[[], float] = time.time) -> None:
        self._sealer = sealer
        self._clock = clock
        self._spent: dict[str, float] = {}

    def put(self, paused: Paused) -> str:
        """The run as text."""
        lifetime_s = max(0.0, min(item.expiry for item in paused.pending) - self._clock())
        # As JSON, because that is what it is made of: other forms have smaller integers.
        return self._sealer.seal(_PURPOSE, msgspec.json.encode(paused), lifetime_s=lifetime_s)

    def read(self, continuation: str) -> Paused:
        """The run of a text.

        Raises: ContinuationRefused.
        """
        try:
            paused = msgspec.json.decode(self._sealer.open(_PURPOSE, continuation), type=Paused)
        except (ValueError, TypeError):
            raise ContinuationRefused(
                "This run cannot be resumed: it was not paused here, was changed, or waited too long"
            ) from None
        if any(item.expiry <= self._clock() for item in paused.pending):
            raise ContinuationRefused("This run waited too long to be resumed; start again")
        if paused.id in self._spent:
            raise ContinuationRefused("This run was already resumed; its calls are not made twice")
        return paused

    def spend(self, paused: Paused) -> None:
        """From now on the run cannot be taken up again."""
        now = self._clock()
        self._spent = {key: expiry for key, expiry in self._spent.items() if expiry > now}
        if len(self._spent) >= bounds.PAUSED_RUNS:
            raise ContinuationRefused("Too many runs are being resumed at once; try again later")
        self._spent[paused.id] = min(item.expiry for item in paused.pending)


def check_answers(pending: Sequence[PendingCall], answers: Mapping[str, str]) -> None:
    """Refuse answers that do not fit the questions.

    Raises: ContinuationRefused.
    """
    known = {item.call_id for item in pending}
    for call_id, answer in answers.items():
        if call_id not in known:
            raise ContinuationRefused(f"No call {call_id!r} waits for an answer")
        if answer not in ("allow", "deny"):
            raise ContinuationRefused(f"The answer to {call_id!r} is allow or deny, not {answer!r}")
    if missing := sorted(known - set(answers)):
        raise ContinuationRefused(f"These calls wait for an answer too: {', '.join(missing)}")
