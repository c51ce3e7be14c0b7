"""Fakes for tests of agents: a model and a client with scripted answers, tools, and an event recorder."""

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub import Definition, ModelRequest, ModelResponse, ModelToolCall, RunEvent, Text, ToolResult

ANY_OBJECT = {"type": "object"}


class ScriptedModel:
    """Returns the next of its answers each time, or raises it if it is an exception; records the requests."""

    def __init__(self, *answers: ModelResponse | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, *, on_text: Any = None) -> ModelResponse:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if on_text is not None and answer.text:
            on_text(answer.text)
        return answer


class ScriptedClient:
    """Returns one result or raises one exception for every call, and records the calls."""

    def __init__(self, outcome: Any = None, *, closes_badly: bool = False) -> None:
        self.outcome = ToolResult(content=[Text("done")]) if outcome is None else outcome
        self.calls: list[tuple[str, Any, float | None]] = []
        self.closed = 0
        self._closes_badly = closes_badly

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        self.calls.append((name, arguments, timeout_s))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        self.closed += 1
        if self._closes_badly:
            raise OSError("the pipe is gone")


class FakeTools:
    """An application's own tools: records calls, and returns or raises the outcome set for the tool."""

    def __init__(self, **outcomes: Any) -> None:
        self.outcomes = outcomes
        self.calls: list[tuple[str, Mapping[str, Any], str]] = []

    async def __call__(self, name: str, arguments: Mapping[str, Any], *, call_id: str) -> Any:
        self.calls.append((name, arguments, call_id))
        outcome = self.outcomes.get(name, {"said": name})
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.calls]


class EventRecorder:
    """An `on_event` handler that records events."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def __call__(self, event: RunEvent) -> None:
        self.events.append(event)

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def only(self, type: str) -> RunEvent:
        (event,) = [event for event in self.events if event.type == type]
        return event


def text_answer(text: str) -> ModelResponse:
    """Make an answer without calls, which ends a run."""
    return ModelResponse(text=text, finish_reason="stop")


def calls(*wanted: ModelToolCall | str, text: str = "") -> ModelResponse:
    """Make an answer that calls tools; a name stands for a call without arguments."""
    made = [
        ModelToolCall(f"id{number}", item, "{}") if isinstance(item, str) else item
        for number, item in enumerate(wanted)
    ]
    return ModelResponse(text=text, calls=tuple(made), finish_reason="tool_calls")


def definitions(*names: str) -> Sequence[Definition]:
    """Make definitions that accept any object."""
    return [Definition(name, f"Does {name}.", ANY_OBJECT) for name in names]
