"""Callbacks for requests of a server: elicitation, sampling and roots.

A handler declares its capability; without it the server gets a "method not found" error.
The same handlers answer requests of legacy servers and `input_required` results of modern
servers.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.errors import InvalidParams, MethodNotFound
from hubbub.protocol.results import Root

ELICITATION = "elicitation/create"
SAMPLING = "sampling/createMessage"
ROOTS = "roots/list"


class ElicitationRequest(msgspec.Struct, rename="camel"):
    """A form to fill in, or a URL to open."""

    message: str = ""
    mode: str = "form"
    requested_schema: dict[str, Any] = {}
    url: str = ""
    elicitation_id: str | UnsetType = UNSET


class ElicitationAnswer(msgspec.Struct):
    """`action` is accept, decline or cancel; only an accepted form has content."""

    action: str
    content: dict[str, Any] | UnsetType = UNSET


class SamplingRequest(msgspec.Struct, rename="camel"):
    """A `sampling/createMessage` request of a server."""

    messages: list[dict[str, Any]] = []
    max_tokens: int = 0
    system_prompt: str | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    stop_sequences: list[str] = []
    model_preferences: dict[str, Any] = {}
    include_context: str | UnsetType = UNSET
    tools: list[dict[str, Any]] | UnsetType = UNSET
    tool_choice: dict[str, Any] | UnsetType = UNSET
    metadata: Any = UNSET


class SamplingAnswer(msgspec.Struct, rename="camel"):
    """The model's answer to a `SamplingRequest`."""

    content: Any
    model: str
    role: str = "assistant"
    stop_reason: str | UnsetType = "endTurn"


Elicit: TypeAlias = Callable[
    [ElicitationRequest], ElicitationAnswer | Mapping[str, Any] | Awaitable[ElicitationAnswer | Mapping[str, Any]]
]
Sample: TypeAlias = Callable[
    [SamplingRequest], SamplingAnswer | Mapping[str, Any] | Awaitable[SamplingAnswer | Mapping[str, Any]]
]
Roots: TypeAlias = Sequence[Root | str] | Callable[[], Sequence[Root | str] | Awaitable[Sequence[Root | str]]]


class Handlers:
    """The callbacks of one client."""

    def __init__(
        self, *, elicitation: Elicit | None = None, sampling: Sample | None = None, roots: Roots | None = None
    ) -> None:
        self._elicitation = elicitation
        self._sampling = sampling
        self._roots = roots

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities that follow from the handlers."""
        declared: dict[str, Any] = {}
        if self._elicitation is not None:
            declared["elicitation"] = {"form": {}}
        if self._sampling is not None:
            declared["sampling"] = {}
        if self._roots is not None:
            declared["roots"] = {}
        return declared

    async def answer(self, method: str, params: Raw) -> Any:
        """Answer a request of the server.

        Raises:
            MethodNotFound: there is no handler for it.
            InvalidParams: its parameters are invalid.
        """
        if method == ELICITATION and self._elicitation is not None:
            return await _await_if_needed(self._elicitation(_decode_params(params, ElicitationRequest)))
        if method == SAMPLING and self._sampling is not None:
            return await _await_if_needed(self._sampling(_decode_params(params, SamplingRequest)))
        if method == ROOTS and self._roots is not None:
            roots = self._roots() if callable(self._roots) else self._roots
            found = await _await_if_needed(roots)
            return {"roots": [Root(root) if isinstance(root, str) else root for root in found]}
        raise MethodNotFound(method)


def _decode_params(params: Raw, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(params, type=kind)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"Invalid params: {error}") from None


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
