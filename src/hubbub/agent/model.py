"""The interface between a run and a model, independent of the endpoint.

Messages and tools are in the OpenAI format. `hubbub.agent.chat` is the `Model` for endpoints that use it over HTTP;
tests and applications may implement their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

Message: TypeAlias = dict[str, Any]
OnText: TypeAlias = Callable[[str], Awaitable[None] | None]
"""Called with each part of the model's text."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model."""

    messages: list[Message]
    tools: list[dict[str, Any]] = []
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None


class ModelToolCall(msgspec.Struct, frozen=True):
    """A tool call as the model wrote it."""

    id: str = ""
    name: str = ""
    arguments: Any = None
    """Usually JSON text; some endpoints send an object."""


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model."""

    text: str = ""
    calls: tuple[ModelToolCall, ...] = ()
    finish_reason: str = ""
    usage: Mapping[str, Any] | None = None


class Model(Protocol):
    """A model that answers requests."""

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelResponse:
        """Answer a request; `on_text` is called with each part of the text as it is generated.

        Raises: ModelError.
        """
