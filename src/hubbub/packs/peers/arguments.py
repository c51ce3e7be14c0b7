"""Arguments as this pack's tools take them: read kindly, as callers of the contract expect.

A number that makes no sense is the usual one, one that is too large is the largest, words
can be yes and no. Only a name that nobody knows, and what a tool cannot do without, is
refused. Pure; every tool of the pack reads its arguments through `Arguments`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from hubbub.errors import ArgumentsInvalid, ToolError, ToolFailure
from hubbub.packs.peers.javascript import number
from hubbub.packs.peers.names import sanitise

Choice = TypeVar("Choice", bound=str)

_WHOLE: Final = re.compile(r"\s*([+-]?[0-9]{1,17})", re.ASCII)
_YES: Final = frozenset(("1", "true", "yes", "y", "on"))
_NO: Final = frozenset(("0", "false", "no", "n", "off"))
_OF_ARGUMENTS: Final = (
    "required",
    "unsupported fields",
    "must be an object",
    "invalid",
    "unknown session_id",
    "unknown transfer_id",
    "ambiguous target",
)
"""Words that make a failure a `validation_error`; clients of the contract know no other rule."""


def refused(message: str) -> ToolFailure:
    """The failure with that message, of the type that the contract gives it: its words decide."""
    lowered = message.lower()
    kind = ArgumentsInvalid if any(words in lowered for words in _OF_ARGUMENTS) else ToolError
    return kind(message)


class Target(msgspec.Struct, frozen=True):
    """For whom something is meant."""

    given: str | Mapping[str, Any] | None = None
    """As the caller wrote it."""
    name: str | None = None
    """A stream id or a uuid; None: everybody."""


EVERYBODY: Final = Target()


class Arguments:
    """What a caller gave to one tool."""

    def __init__(self, tool: str, given: Mapping[str, Any], known: Collection[str], owner: str = "") -> None:
        """Take the arguments.

        Raises: ArgumentsInvalid, if there is one that the tool does not know.
        """
        unknown = [name for name in given if name not in known]
        if unknown:
            raise refused(f"{tool} received unsupported fields: {', '.join(unknown)[:500]}")
        self._given = given
        self.owner = owner
        """Who calls: what one caller opened is not there for others."""

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def __getitem__(self, name: str) -> Any:
        """As it came; None if it was left out."""
        return self._given.get(name)

    def demand(self, name: str) -> Any:
        """Something of any kind, also null, that must be there.

        Raises: ArgumentsInvalid.
        """
        if name not in self._given:
            raise refused(f"{name} is required")
        return self._given[name]

    def text(self, name: str) -> str | None:
        """A text as it is; None if it is null or was left out.

        Raises: ToolError, if it is something else.
        """
        value = self._given.get(name)
        if value is not None and not isinstance(value, str):
            raise refused(f"{name} must be a string")
        return value

    def needed_text(self, name: str) -> str:
        """A text that must be there and say something.

        Raises: ArgumentsInvalid, ToolError.
        """
        value = self.text(name)
        if value is None or not value.strip():
            raise refused(f"{name} is required")
        return value

    def count(self, name: str, default: int, cap: int, *, least: int = 1) -> int:
        """A whole number from `least` to `cap`: the largest if it is larger, the usual one if it makes no sense."""
        found = whole(self._given.get(name))
        return default if found is None or found < least else min(found, cap)

    def flag(self, name: str, default: bool) -> bool:
        """Yes or no, also in words; the usual one if it is neither."""
        word = _written(self._given.get(name)).strip().lower()
        return True if word in _YES else False if word in _NO else default

    def identifier(self, name: str) -> str | None:
        """A name as rooms and streams have it; None if nothing of it is left."""
        value = self._given.get(name)
        return None if value is None else sanitise(_written(value)) or None

    def identifiers(self, name: str, default: Sequence[str]) -> tuple[str, ...]:
        """Several of these; the usual ones if it is no list.

        Raises: ArgumentsInvalid, if nothing is left of those that are given: an empty list means something else.
        """
        value = self._given.get(name)
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, list):
            return tuple(default)
        found = tuple(filter(None, (sanitise(_written(item)) for item in value)))
        if value and not found:
            raise refused(f"invalid {name}: they are made of letters, digits and _")
        return found

    def choice(self, name: str, choices: Sequence[Choice], default: Choice) -> Choice:
        """One of several words.

        Raises: ToolError, if it is another.
        """
        value = self._given.get(name)
        if value is None or value == "":
            return default
        found = next((choice for choice in choices if choice == value), None)
        if found is None:
            raise refused(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}")
        return found

    def target(self) -> Target:
        """Whom `target` or `uuid` means.

        Raises: ToolError, if both are there.
        """
        target, uuid = self._given.get("target"), self.text("uuid")
        if target not in (None, "") and uuid:
            raise refused("provide target or uuid, not both")
        if isinstance(target, dict):
            name = next((target[key] for key in ("uuid", "streamID", "stream_id") if target.get(key)), None)
            return Target(target, None if name is None else _written(name))
        name = uuid or (None if target is None else _written(target).strip() or None)
        return EVERYBODY if name is None else Target(name, name)


def whole(value: object) -> int | None:
    """The whole number at the start of what is written, as `parseInt` finds it."""
    match = _WHOLE.match(_written(value))
    return None if match is None else int(match[1])


def _written(value: object) -> str:
    """A value as text, as JavaScript writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return number(value) if isinstance(value, int | float) else ""
