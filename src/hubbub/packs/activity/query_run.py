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
from hubbub.packs.activity.browsers import NOTE, UNCONFIRMED
from hubbub.packs.activity.events import Event, in_utc
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.query_functions import FUNCTIONS
from hubbub.packs.activity.query_language import RESULT, Apply, Expression, Many, Name, Statement, Table, Value
from hubbub.packs.activity.sources import Sources

_CONSTANTS: Final = {"true": True, "TRUE": True, "false": False, "FALSE": False}
_ASKING: Final = ("query_bucket", "query_bucket_eventcount", "find_bucket")


class Run:
    """The evaluation of one query."""

    def __init__(self, sources: Sources, period: Period) -> None:
        self._sources = sources
        self._period = period
        self._deadline = time.monotonic() + limits.EVENTS_S
        self._names: dict[str, Any] = {
            **_CONSTANTS,
            "STARTTIME": in_utc(period.start),
            "ENDTIME": in_utc(period.end),
        }
        self._asked: dict[str, list[Event]] = {}
        self.is_cut = False
        """Whether a bucket has more events in the period than were read; only the newest are used."""

    async def result(self, statements: list[Statement]) -> Any:
        """Evaluate the statements and return the value of `RETURN`.

        Raises: SourceFailure, BadRequest.
        """
        try:
            async with asyncio.timeout(limits.EVENTS_S):
                for statement in statements:
                    if statement.target in _CONSTANTS:
                        raise BadRequest(f"{statement.target} cannot be assigned to")
                    self._names[statement.target] = await self._value(statement.expression)
        except TimeoutError:
            raise self._too_long() from None
        return self._names[RESULT]

    async def notes(self) -> list[str]:
        """Return what may be missing from the buckets that were read, and why."""
        if not self._asked:
            return []
        events = (event for found in self._asked.values() for event in found)
        notes = [NOTE] if any(event.text("title") == UNCONFIRMED for event in events) else []
        return notes + await self._sources.stopped_watchers(self._asked, self._period.end)

    async def _value(self, expression: Expression) -> Any:
        match expression:
            case Value():
                return expression.value
            case Name():
                if expression.name not in self._names:
                    raise BadRequest(f"there is no variable {expression.name!r}; assign to it first")
                return self._names[expression.name]
            case Many():
                return [await self._value(item) for item in expression.items]
            case Table():
                return {_key(await self._value(key)): await self._value(item) for key, item in expression.pairs}
            case Apply():
                return await self._apply(expression)

    async def _apply(self, call: Apply) -> Any:
        arguments = [await self._value(argument) for argument in call.arguments]
        if time.monotonic() > self._deadline:
            raise self._too_long()
        asking: dict[str, Callable[..., Awaitable[Any]]] = {
            "query_bucket": self._events,
            "query_bucket_eventcount": self._count,
            "find_bucket": self._find,
        }
        if call.function in asking:
            return await _checked(call.function, asking[call.function], arguments)
        function = FUNCTIONS.get(call.function)
        if function is None:
            known = ", ".join(sorted([*FUNCTIONS, *_ASKING]))
            raise BadRequest(f"there is no function {call.function!r}; there are {known}")
        work = partial(_guarded, call.function, function, arguments)
        result = await asyncio.to_thread(work)
        if isinstance(result, list) and len(result) > limits.EVENTS:
            raise BadRequest(f"{call.function} makes more than {limits.EVENTS} events; ask for less")
        return result

    async def _events(self, bucket: Any) -> list[Event]:
        if not isinstance(bucket, str):
            raise BadRequest("query_bucket takes the id of a bucket")
        if bucket not in self._asked:
            found = await self._sources.events_of(bucket, self._period.start, self._period.end)
            self._asked[bucket] = found.events
            self.is_cut = self.is_cut or found.is_cut
        return self._asked[bucket]

    async def _count(self, bucket: Any) -> int:
        return len(await self._events(bucket))

    async def _find(self, prefix: Any, hostname: Any = None) -> str:
        if not isinstance(prefix, str):
            raise BadRequest("find_bucket takes what the id of a bucket begins with")
        return (await self._sources.catalogue()).find(prefix, hostname)

    def _too_long(self) -> BadRequest:
        return BadRequest(f"the query takes longer than {limits.EVENTS_S:g} s; ask for a shorter period")


def _key(value: Any) -> str:
    """Return a value as a key of an object. Lists are refused: their text may be extremely long."""
    if not isinstance(value, str | int | float):
        raise BadRequest("a key of an object is a text or a number")
    return str(value)


async def _checked(name: str, function: Callable[..., Awaitable[Any]], arguments: list[Any]) -> Any:
    try:
        return await function(*arguments)
    except TypeError:
        raise _wrong(name) from None


def _guarded(name: str, function: Callable[..., Any], arguments: list[Any]) -> Any:
    """Call a function and report unsuitable arguments, which it does not check itself, as the caller's error."""
    try:
        return function(*arguments)
    except (TypeError, AttributeError, KeyError, ValueError, IndexError, OverflowError, msgspec.ValidationError):
        raise _wrong(name) from None


def _wrong(name: str) -> BadRequest:
    return BadRequest(f"{name} was given what it cannot use: too many or too few values, or of the wrong kind")


class Telling:
    """Converts a result to JSON values, up to a limit: a short query can produce very many values."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._left = limits.VALUES
        self._events_left = limits.ROWS
        self.is_cut = False
        """Whether values were left out."""

    def tell(self, value: Any) -> Any:
        """Convert a value, as far as the limit allows."""
        self._left -= 1
        if isinstance(value, Event):
            data = self.tell(value.data)
            start = value.timestamp.astimezone(self._zone).isoformat(timespec="milliseconds")
            return {"timestamp": start, "duration": round(value.duration, 3), "data": data}
        if isinstance(value, dict):
            return {key: self.tell(item) for key, item in value.items() if self._has_room(item)}
        if isinstance(value, list | tuple):
            return [self.tell(item) for item in value if self._has_room(item)]
        return value

    def _has_room(self, item: Any) -> bool:
        if isinstance(item, Event):
            self._events_left -= 1
        if self._left <= 0 or self._events_left < 0:
            self.is_cut = True
            return False
        return True
