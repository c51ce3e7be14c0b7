"""Prompts: functions that write messages for a model from text arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from hubbub.errors import ArgumentsInvalid, InvalidParams, ToolError
from hubbub.protocol.calls import Call
from hubbub.protocol.content import CONTENT_TYPES, Text
from hubbub.protocol.docstrings import read_docstring
from hubbub.protocol.results import Icon, PromptArgument, PromptEntry, PromptMessage, PromptReply
from hubbub.protocol.schema import Arguments
from hubbub.protocol.scopes import required_scopes
from hubbub.protocol.signatures import check_function, default_name, function_doc
from hubbub.server.context import Context
from hubbub.server.handlers import Handler

if TYPE_CHECKING:
    from hubbub.server.server import Server


class Prompt:
    """One prompt. The function returns text, content, messages, or a list of these."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        scopes: Collection[str] = (),
    ) -> None:
        check_function(function)
        self.function = function
        self.name = name or default_name(function)
        self.scopes = required_scopes(scopes, self.name)
        """Scopes that a caller needs; the prompt is hidden from others."""
        prompt_description = (
            description if description is not None else read_docstring(function_doc(function)).description
        )
        self._arguments = Arguments.from_function(function, skip=(Context,), from_text=True)
        injected = self._arguments.injected
        self._handler = Handler(function, next((key for key, kind in injected.items() if kind is Context), None))
        properties = self._arguments.schema["properties"]
        required = self._arguments.schema.get("required", [])
        self.argument_names = list(properties)
        self.entry = PromptEntry(
            self.name,
            prompt_description or UNSET,
            [
                PromptArgument(key, value.get("description", UNSET), required=key in required)
                for key, value in properties.items()
            ],
            title if title is not None else UNSET,
            icons if icons is not None else UNSET,
        )

    @property
    def may_request_input(self) -> bool:
        """Whether the prompt may ask the caller something before it returns."""
        return self._handler.context_name is not None

    async def get(self, values: dict[str, str], call: Call, server: Server) -> PromptReply:
        """Return the messages for these arguments."""
        value = await self._handler.call(self._decode_arguments(values), call, server)
        items = value if isinstance(value, list) else [value]
        return PromptReply(messages=[_make_message(item) for item in items], description=self.entry.description)

    def _decode_arguments(self, values: dict[str, str]) -> dict[str, Any]:
        required = [argument.name for argument in self.entry.arguments or [] if argument.required is True]
        missing = [name for name in required if name not in values]
        unknown = [name for name in values if name not in self.argument_names]
        if missing or unknown:
            problem = f"missing {missing}" if missing else f"unknown {unknown}"
            known = self.argument_names
            raise InvalidParams(f"Invalid params for prompt {self.name!r}: {problem}; the arguments are {known}")
        try:
            return self._arguments.decode(msgspec.json.encode(values))
        except ArgumentsInvalid as error:
            raise InvalidParams(f"Invalid params for prompt {self.name!r}: {error.message}") from error


def _make_message(item: Any) -> PromptMessage:
    if isinstance(item, PromptMessage):
        return PromptMessage(item.role, item.content)  # a copy: shaping must not change the function's object
    if isinstance(item, CONTENT_TYPES):
        return PromptMessage("user", item)
    if isinstance(item, str):
        return PromptMessage("user", Text(item))
    raise ToolError(f"A prompt must return text, content or messages, not {type(item).__name__}")
