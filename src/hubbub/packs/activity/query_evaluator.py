"""Evaluate a query locally, on events that have passed the privacy rules.

ActivityWatch could evaluate it, but the rules cannot be applied to its results: a sum of times no longer shows which
apps it includes. So ActivityWatch is only asked for events. Each step is limited in events and time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from functools import partial
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.browsers import UNCONFIRMED, UNCONFIRMED_NOTE
from hubbub.packs.activity.events import Event, format_utc
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.filtered_sources import FilteredSources
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.query_functions import FUNCTIONS
from hubbub.packs.activity.query_language import (
    RESULT_VARIABLE,
    Constant,
    Expression,
    FunctionCall,
    ListLiteral,
    ObjectLiteral,
    Statement,
    Variable,
)

_CONSTANTS: Final = {"true": True, "TRUE": True, "false": False, "FALSE": False}
_BUCKET_FUNCTIONS: Final = ("query_bucket", "query_bucket_eventcount", "find_bucket")


class QueryEvaluator:
    """The evaluation of one query."""

    def __init__(self, sources: FilteredSources, period: Period) -> None:
        self._sources = sources
        self._period = period
        self._deadline = time.monotonic() + limits.EVENTS_TIMEOUT_S
        self._variables: dict[str, Any] = {
            **_CONSTANTS,
            "STARTTIME": format_utc(period.start),
            "ENDTIME": format_utc(period.end),
        }
        self._events_by_bucket: dict[str, list[Event]] = {}
        self.is_cut = False
        """Whether a bucket has more events in the period than were read; only the newest are used."""

    async def evaluate(self, statements: list[Statement]) -> Any:
        """Evaluate the statements and return the value of `RETURN`.

        Raises: SourceFailure, BadRequest.
        """
        try:
            async with asyncio.timeout(limits.EVENTS_TIMEOUT_S):
                for statement in statements:
                    if statement.target in _CONSTANTS:
                        raise BadRequest(f"{statement.target} is a constant; assign to another name")
                    self._variables[statement.target] = await self._evaluate_expression(statement.expression)
        except TimeoutError:
            raise self._timeout_error() from None
        return self._variables[RESULT_VARIABLE]

    async def notes(self) -> list[str]:
        """Return what may be missing from the buckets that were read, and why."""
        if not self._events_by_bucket:
            return []
        events = (event for found in self._events_by_bucket.values() for event in found)
        notes = [UNCONFIRMED_NOTE] if any(event.text("title") == UNCONFIRMED for event in events) else []
        return notes + await self._sources.stopped_watchers(self._events_by_bucket, self._period.end)

    async def _evaluate_expression(self, expression: Expression) -> Any:
        match expression:
            case Constant():
                return expression.value
            case Variable():
                if expression.name not in self._variables:
                    raise BadRequest(f"unknown variable {expression.name!r}; assign to it first")
                return self._variables[expression.name]
            case ListLiteral():
                return [await self._evaluate_expression(item) for item in expression.items]
            case ObjectLiteral():
                return {
                    _to_key(await self._evaluate_expression(key)): await self._evaluate_expression(item)
                    for key, item in expression.pairs
                }
            case FunctionCall():
                return await self._call_function(expression)

    async def _call_function(self, call: FunctionCall) -> Any:
        arguments = [await self._evaluate_expression(argument) for argument in call.arguments]
        if time.monotonic() > self._deadline:
            raise self._timeout_error()
        bucket_functions: dict[str, Callable[..., Awaitable[Any]]] = {
            "query_bucket": self._read_events,
            "query_bucket_eventcount": self._count_events,
            "find_bucket": self._find_bucket,
        }
        if call.function in bucket_functions:
            return await _call_async(call.function, bucket_functions[call.function], arguments)
        function = FUNCTIONS.get(call.function)
        if function is None:
            known = ", ".join(sorted([*FUNCTIONS, *_BUCKET_FUNCTIONS]))
            raise BadRequest(f"unknown function {call.function!r}; known functions: {known}")
        work = partial(_call_guarded, call.function, function, arguments)
        result = await asyncio.to_thread(work)
        if isinstance(result, list) and len(result) > limits.EVENTS:
            raise BadRequest(f"{call.function} makes more than {limits.EVENTS} events; ask for a shorter period")
        return result

    async def _read_events(self, bucket: Any) -> list[Event]:
        if not isinstance(bucket, str):
            raise BadRequest("the argument of query_bucket must be the id of a bucket")
        if bucket not in self._events_by_bucket:
            found = await self._sources.bucket_events(bucket, self._period.start, self._period.end)
            self._events_by_bucket[bucket] = found.events
            self.is_cut = self.is_cut or found.is_cut
        return self._events_by_bucket[bucket]

    async def _count_events(self, bucket: Any) -> int:
        return len(await self._read_events(bucket))

    async def _find_bucket(self, prefix: Any, hostname: Any = None) -> str:
        if not isinstance(prefix, str):
            raise BadRequest("the first argument of find_bucket must be the beginning of a bucket id")
        return (await self._sources.bucket_index()).find_bucket(prefix, hostname)

    def _timeout_error(self) -> BadRequest:
        return BadRequest(f"the query takes longer than {limits.EVENTS_TIMEOUT_S:g} s; ask for a shorter period")


def _to_key(value: Any) -> str:
    """Return a value as a key of an object. Lists are refused: their text may be extremely long."""
    if not isinstance(value, str | int | float):
        raise BadRequest("the key of an object must be a text or a number")
    return str(value)


async def _call_async(name: str, function: Callable[..., Awaitable[Any]], arguments: list[Any]) -> Any:
    try:
        return await function(*arguments)
    except TypeError:
        raise _argument_error(name) from None


def _call_guarded(name: str, function: Callable[..., Any], arguments: list[Any]) -> Any:
    """Call a function and report unsuitable arguments, which it does not check itself, as the caller's error."""
    try:
        return function(*arguments)
    except (TypeError, AttributeError, KeyError, ValueError, IndexError, OverflowError, msgspec.ValidationError):
        raise _argument_error(name) from None


def _argument_error(name: str) -> BadRequest:
    return BadRequest(f"the arguments of {name} are wrong: too many, too few, or of the wrong type")


class ResultEncoder:
    """Converts a result to JSON values, up to a limit: a short query can produce very many values."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._values_left = limits.QUERY_VALUES
        self._events_left = limits.RESULT_ROWS
        self.is_cut = False
        """Whether values were left out."""

    def encode(self, value: Any) -> Any:
        """Convert a value, as far as the limit allows."""
        self._values_left -= 1
        if isinstance(value, Event):
            data = self.encode(value.data)
            start = value.timestamp.astimezone(self._zone).isoformat(timespec="milliseconds")
            return {"timestamp": start, "duration": round(value.duration, 3), "data": data}
        if isinstance(value, dict):
            return {key: self.encode(item) for key, item in value.items() if self._is_within_limit(item)}
        if isinstance(value, list | tuple):
            return [self.encode(item) for item in value if self._is_within_limit(item)]
        return value

    def _is_within_limit(self, item: Any) -> bool:
        if isinstance(item, Event):
            self._events_left -= 1
        if self._values_left <= 0 or self._events_left < 0:
            self.is_cut = True
            return False
        return True
