"""Completion: suggestions for the arguments of prompts and resource templates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.protocol.params import CompleteParams
from hubbub.protocol.wire import CompleteReply, Completion
from hubbub.server.threads import Threads, run_in_thread

Suggest = Callable[..., Any]


class Completions:
    """The completion functions of a server, by prompt or template and argument."""

    def __init__(self) -> None:
        self._suggest: dict[tuple[str, str], Suggest] = {}

    def add(self, reference: str, argument: str, suggest: Suggest) -> None:
        """Let `suggest(value)`, or `suggest(value, others)`, complete an argument of a prompt or template.

        Raises:
            DefinitionError: it is an asynchronous generator.
        """
        if inspect.isasyncgenfunction(suggest):
            raise DefinitionError(
                f"{suggest!r} is an asynchronous generator; write a function that returns a list of strings"
            )
        self._suggest[reference, argument] = suggest

    def __len__(self) -> int:
        return len(self._suggest)

    async def complete(self, params: CompleteParams, threads: Threads, owner: str = "") -> CompleteReply:
        """Return suggestions for a partial value; none if the argument has no completion function."""
        reference = params.ref.name if params.ref.type == "ref/prompt" else params.ref.uri
        suggest = self._suggest.get((reference, params.argument.name))
        if suggest is None:
            return CompleteReply(completion=Completion([], total=0, has_more=False))
        suggestion = partial(suggest, *_arguments(suggest, params))
        if inspect.iscoroutinefunction(suggest):
            values = await suggestion()
        else:
            values = await run_in_thread(threads, suggestion, {}, owner)
            values = await values if inspect.isawaitable(values) else values
        return _reply(values)


def _arguments(suggest: Suggest, params: CompleteParams) -> tuple[Any, ...]:
    takes_others = len(inspect.signature(suggest).parameters) > 1
    value = params.argument.value
    return (value, params.context.arguments) if takes_others else (value,)


def _reply(values: Iterable[str]) -> CompleteReply:
    found = [str(value) for value in values]
    shown = found[: bounds.COMPLETION_VALUES]
    return CompleteReply(completion=Completion(shown, total=len(found), has_more=len(found) > len(shown)))
