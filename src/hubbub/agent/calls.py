"""The tool calls of one answer of a model, in order: ids made unique, names resolved, arguments read."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec

from hubbub import bounds
from hubbub.agent.arguments import Arguments, parse_arguments
from hubbub.agent.model import Message, ModelToolCall
from hubbub.agent.registry import Registry
from hubbub.protocol.tool_names import safe_name


class ToolCall(msgspec.Struct, frozen=True):
    """One call that a model requests."""

    id: str
    name: str
    """The name of the tool if it is known; otherwise what the model wrote, in characters that endpoints accept."""
    is_known: bool
    """Whether the model was shown a tool of that name."""
    arguments: Arguments

    def to_message(self) -> dict[str, Any]:
        """The call as a part of a message; arguments that cannot be parsed are left out."""
        text = msgspec.json.encode(self.arguments.value).decode()
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": text}}


def parse_calls(
    requested: Sequence[ModelToolCall], exposed: Registry, taken: Container[str], *, first: int, max_bytes: int
) -> list[ToolCall]:
    """Read the calls; `taken` holds the ids of earlier calls, and calls without an id are numbered from `first` on."""
    found: list[ToolCall] = []
    used: set[str] = set()
    for number, call in enumerate(requested, first):
        identifier = _unique_id(call.id.strip()[: bounds.CALL_ID_CHARACTERS] or f"tc_{number}", taken, used)
        used.add(identifier)
        definition = exposed.get(call.name.strip())
        name = definition.name if definition else safe_name(call.name, bounds.TOOL_KEY_CHARACTERS)
        arguments = parse_arguments(call.arguments, max_bytes)
        found.append(ToolCall(identifier, name, definition is not None, arguments))
    return found


def assistant_message(text: str, calls: Sequence[ToolCall]) -> Message:
    """The model's answer as a message of the conversation."""
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [call.to_message() for call in calls]
    return message


def call_ids(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """The ids of all calls in a conversation."""
    found: set[str] = set()
    for message in messages:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, Mapping):
                found.add(str(call.get("id", "")))
    return found


def _unique_id(requested: str, taken: Container[str], used: Container[str]) -> str:
    candidate, count = requested, 1
    while candidate in taken or candidate in used:
        count += 1
        candidate = f"{requested}__{count}"
    return candidate
