"""Parses answers of OpenAI-compatible endpoints, complete or streamed, into `ModelResponse`.

Endpoints differ: one call instead of a list, the old `function_call`, content in parts, chunks without an index. All of
these are accepted; anything else is an error. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hubbub.agent.errors import ModelError, ModelInvalidResponse
from hubbub.agent.model import ModelResponse, ModelToolCall

DONE = b"[DONE]"


def parse_response(body: bytes) -> ModelResponse:
    """Parse a complete response body.

    Raises: ModelError.
    """
    answer = _decode_object(body)
    choice = _first_choice(answer)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise invalid_answer("has no message")
    return ModelResponse(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        calls=_calls(message),
        finish_reason=str(choice.get("finish_reason") or ""),
        usage=_usage(answer),
    )


class ResponseAssembler:
    """Assembles a streamed answer from its chunks."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}
        self._finish_reason = ""
        self._usage: Mapping[str, Any] | None = None
        self._has_started = False

    def add(self, data: bytes) -> str:
        """Add the next chunk; return its text.

        Raises: ModelError.
        """
        chunk = _decode_object(data)
        self._usage = _usage(chunk) or self._usage
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return ""
        choice = _first_choice(chunk)
        self._has_started = True
        self._finish_reason = str(choice.get("finish_reason") or self._finish_reason)
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        for call in _as_list(delta.get("tool_calls")):
            self._add_call(call)
        if isinstance(delta.get("function_call"), Mapping):
            self._add_call({"index": 0, "function": delta["function_call"]})
        text = _text(delta.get("content")) or _text(delta.get("refusal"))
        if text:
            self._text.append(text)
        return text

    def answer(self) -> ModelResponse:
        """Return the complete answer.

        Raises: ModelError, if no chunk had an answer.
        """
        if not self._has_started:
            raise invalid_answer("is an empty stream")
        calls = tuple(ModelToolCall(item.id, item.name, item.arguments) for item in self._calls)
        return ModelResponse(
            text="".join(self._text), calls=calls, finish_reason=self._finish_reason, usage=self._usage
        )

    @property
    def is_finished(self) -> bool:
        """Whether the endpoint has sent a finish reason."""
        return bool(self._finish_reason)

    def _add_call(self, call: Mapping[str, Any]) -> None:
        function = call.get("function")
        function = function if isinstance(function, Mapping) else {}
        partial = self._partial_call(call, function)
        partial.id = partial.id or _text(call.get("id"))
        partial.name = partial.name or _text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            partial.parts.append(arguments)
        elif arguments is not None:
            partial.complete_arguments = arguments

    def _partial_call(self, call: Mapping[str, Any], function: Mapping[str, Any]) -> _PartialCall:
        index = call.get("index")
        if isinstance(index, int) and index in self._by_index:
            return self._by_index[index]
        # Without an index, a new name or id begins a new call.
        if not isinstance(index, int) and self._calls and not (call.get("id") or function.get("name")):
            return self._calls[-1]
        partial = _PartialCall()
        self._calls.append(partial)
        if isinstance(index, int):
            self._by_index[index] = partial
        return partial


class _PartialCall:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.parts: list[str] = []
        self.complete_arguments: Any = None

    @property
    def arguments(self) -> Any:
        return self.complete_arguments if self.complete_arguments is not None else "".join(self.parts)


def invalid_answer(problem: str) -> ModelError:
    """Make the error for an invalid answer."""
    return ModelInvalidResponse(f"The model's answer {problem}")


def _decode_object(data: bytes) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise invalid_answer("is not JSON") from None
    if not isinstance(value, dict):
        raise invalid_answer("is not an object")
    error = value.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        raise ModelError(str(message))
    return value


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise invalid_answer("has no choices")
    return choices[0]


def _calls(message: Mapping[str, Any]) -> tuple[ModelToolCall, ...]:
    found = []
    for call in _as_list(message.get("tool_calls")):
        function = call.get("function")
        function = function if isinstance(function, Mapping) else {}
        found.append(ModelToolCall(_text(call.get("id")), _text(function.get("name")), function.get("arguments")))
    old = message.get("function_call")
    if not found and isinstance(old, Mapping):
        found.append(ModelToolCall("", _text(old.get("name")), old.get("arguments")))
    return tuple(found)


def _as_list(value: Any) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, Mapping)]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [item.get("text") if isinstance(item, Mapping) else item for item in value]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _usage(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    usage = answer.get("usage")
    return usage if isinstance(usage, dict) else None
