"""What a run asks of a model and what it gets, whatever endpoint is behind it.

Messages and tools are in the OpenAI shape. `hubbub.agent.chat` is the `Model` for
endpoints that speak it over HTTP; tests and applications may bring their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

Message: TypeAlias = dict[str, Any]
OnText: TypeAlias = Callable[[str], Awaitable[None] | None]
"""Takes the model's text piece by piece."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a model."""

    messages: list[Message]
    tools: list[dict[str, Any]] = []
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None


class WantedCall(msgspec.Struct, frozen=True):
    """A tool call as the model wrote it."""

    id: str = ""
    name: str = ""
    arguments: Any = None
    """Text as a rule; some endpoints send an object."""


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model."""

    text: str = ""
    calls: tuple[WantedCall, ...] = ()
    finish_reason: str = ""
    usage: Mapping[str, Any] | None = None


class Model(Protocol):
    """Answers."""

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelAnswer:
        """Answer a request; with `on_text`, as it is written.

        Raises: ModelError.
        """
