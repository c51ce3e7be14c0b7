"""Completion: suggestions for the arguments of prompts and resource templates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.protocol.params import CompleteParams
from hubbub.protocol.results import CompleteReply, Completion
from hubbub.server.threads import Threads, run_in_thread

Suggest = Callable[..., Any]


class Completions:
    """The completion functions of a server, by prompt or template and argument."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Suggest] = {}

    def add(self, reference: str, argument: str, suggest: Suggest) -> None:
        """Let `suggest(value)`, or `suggest(value, others)`, complete an argument of a prompt or template.

        Raises:
            DefinitionError: it is an asynchronous generator.
        """
        if inspect.isasyncgenfunction(suggest):
            raise DefinitionError(
                f"{suggest!r} is an asynchronous generator; write a function that returns a list of strings"
            )
        self._functions[reference, argument] = suggest

    def __len__(self) -> int:
        return len(self._functions)

    async def complete(self, params: CompleteParams, threads: Threads, owner: str = "") -> CompleteReply:
        """Return suggestions for a partial value; none if the argument has no completion function."""
        reference = params.ref.name if params.ref.type == "ref/prompt" else params.ref.uri
        suggest = self._functions.get((reference, params.argument.name))
        if suggest is None:
            return CompleteReply(completion=Completion([], total=0, has_more=False))
        suggest_values = partial(suggest, *_arguments(suggest, params))
        if inspect.iscoroutinefunction(suggest):
            values = await suggest_values()
        else:
            values = await run_in_thread(threads, suggest_values, {}, owner)
            values = await values if inspect.isawaitable(values) else values
        return _reply(values)


def _arguments(suggest: Suggest, params: CompleteParams) -> tuple[Any, ...]:
    takes_context = len(inspect.signature(suggest).parameters) > 1
    value = params.argument.value
    return (value, params.context.arguments) if takes_context else (value,)


def _reply(values: Iterable[str]) -> CompleteReply:
    found = [str(value) for value in values]
    returned = found[: bounds.COMPLETION_VALUES]
    return CompleteReply(completion=Completion(returned, total=len(found), has_more=len(found) > len(returned)))
