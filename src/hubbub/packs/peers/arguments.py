"""Lenient parsing of tool arguments, as clients of the contract expect. Pure; all tools of the pack use `Arguments`.

Invalid numbers fall back to the default, large ones are clamped, and yes/no strings are accepted as booleans. Only
unknown names, missing required arguments and targets without the name of a peer are refused.

The contract's clients expect `validation_error` (`ArgumentsInvalid`) where something is missing, unknown, ambiguous or
"invalid", and `tool_error` (`ToolError`) for the rest, a value of the wrong type included.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from hubbub import ArgumentsInvalid, ToolError
from hubbub.packs.peers.js_json import format_number
from hubbub.packs.peers.names import sanitize
from hubbub.packs.peers.owner import LOCAL, Owner

Choice = TypeVar("Choice", bound=str)

_INTEGER: Final = re.compile(r"\s*([+-]?[0-9]{1,17})", re.ASCII)
_TRUE_WORDS: Final = frozenset(("1", "true", "yes", "y", "on"))
_FALSE_WORDS: Final = frozenset(("0", "false", "no", "n", "off"))
_PEER_KEYS: Final = ("uuid", "UUID", "streamID", "stream_id")
"""Keys of a `target` object that name the peer; the first one present wins."""


class Target(msgspec.Struct, frozen=True):
    """The recipient of a message or file."""

    given: str | Mapping[str, Any] | None = None
    """As the caller wrote it."""
    name: str | None = None
    """A stream id or a uuid; None means every peer."""


EVERY_PEER: Final = Target()


class Arguments:
    """The arguments of one tool call."""

    def __init__(self, tool: str, given: Mapping[str, Any], known: Collection[str], owner: Owner = LOCAL) -> None:
        """Check the names of the arguments.

        Raises: ArgumentsInvalid, if one is unknown to the tool.
        """
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ArgumentsInvalid(f"{tool} received unsupported fields: {', '.join(unknown)[:500]}")
        self._given = given
        self.owner = owner
        """The caller, which determines the sessions that it may use."""

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def __getitem__(self, name: str) -> Any:
        """Return the value unchanged; None if the argument was left out."""
        return self._given.get(name)

    def require(self, name: str) -> Any:
        """Return a required value of any type, null included.

        Raises: ArgumentsInvalid, if it was left out.
        """
        if name not in self._given:
            raise ArgumentsInvalid(f"{name} is required")
        return self._given[name]

    def text(self, name: str) -> str | None:
        """Return a string unchanged; None if it is null or was left out.

        Raises: ToolError, if it is not a string.
        """
        value = self._given.get(name)
        if value is not None and not isinstance(value, str):
            raise ToolError(f"{name} must be a string")
        return value

    def required_text(self, name: str) -> str:
        """Return a required string that is not blank.

        Raises: ArgumentsInvalid, ToolError.
        """
        value = self.text(name)
        if value is None or not value.strip():
            raise ArgumentsInvalid(f"{name} is required")
        return value

    def count(self, name: str, default: int, maximum: int, *, minimum: int = 1) -> int:
        """Return an integer; one above `maximum` is clamped, an invalid one or one below `minimum` is `default`."""
        found = parse_int(self._given.get(name))
        return default if found is None or found < minimum else min(found, maximum)

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean, also from words such as "yes" and "off"; `default` if it is neither."""
        word = _to_text(self._given.get(name)).strip().lower()
        return True if word in _TRUE_WORDS else False if word in _FALSE_WORDS else default

    def strict_flag(self, name: str, default: bool) -> bool:
        """Return a boolean for a setting where falling back to the default would be a risk.

        Raises: ArgumentsInvalid, if it is neither true nor false.
        """
        value = self._given.get(name)
        word = _to_text(value).strip().lower()
        if value is not None and word not in _TRUE_WORDS | _FALSE_WORDS:
            raise ArgumentsInvalid(f"invalid {name}: it must be true or false")
        return self.flag(name, default)

    def identifier(self, name: str) -> str | None:
        """Return a room name or stream id, sanitised; None if no valid character is left."""
        value = self._given.get(name)
        return None if value is None else sanitize(_to_text(value)) or None

    def identifiers(self, name: str, default: Sequence[str]) -> tuple[str, ...]:
        """Return several identifiers, given as a list or separated by commas; `default` if left out.

        Raises: ArgumentsInvalid, if it is anything else, or if no identifier is left after sanitising: an empty
            list means "every peer".
        """
        value = self._given.get(name)
        if value is None:
            return tuple(default)
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, list):
            raise ArgumentsInvalid(f"invalid {name}: it must be a list of stream ids")
        found = tuple(filter(None, (sanitize(_to_text(item)) for item in value)))
        if value and not found:
            raise ArgumentsInvalid(f"invalid {name}: it contains no valid stream id; use letters, digits and _")
        return found

    def choice(self, name: str, choices: Sequence[Choice], default: Choice) -> Choice:
        """Return one of `choices`.

        Raises: ToolError, if it is another value.
        """
        value = self._given.get(name)
        if value is None or value == "":
            return default
        found = next((choice for choice in choices if choice == value), None)
        if found is None:
            raise ToolError(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}")
        return found

    def target(self) -> Target:
        """Return the peer that `target` or `uuid` names.

        An empty string counts as left out. Any other target without the name of a peer is refused: sending
        to every peer instead would disclose the message.

        Raises: ArgumentsInvalid, ToolError.
        """
        target, uuid = self._given.get("target"), (self.text("uuid") or "").strip()
        if isinstance(target, str):
            target = target.strip()
        if target not in (None, "") and uuid:
            raise ToolError("provide target or uuid, not both")
        if isinstance(target, dict):
            return Target(target, _read_peer_name(target))
        if target is not None and not isinstance(target, str):
            raise ArgumentsInvalid(
                "invalid target: it must be the stream id or uuid of a peer, or an object with one of them"
            )
        name = uuid or target or None
        return EVERY_PEER if name is None else Target(name, name)


def _read_peer_name(target: Mapping[str, Any]) -> str:
    """Return the peer that an object names; its other fields (`type`, `preference`, `allowFallback`) select a channel.

    Raises: ArgumentsInvalid.
    """
    for key in _PEER_KEYS:
        name = target.get(key)
        if name is None:
            continue
        if not isinstance(name, str) or not name.strip():
            raise ArgumentsInvalid(f"invalid target: {key} must be a non-empty string")
        return name.strip()
    raise ArgumentsInvalid(
        f"invalid target: the object has no {', '.join(_PEER_KEYS[:-1])} or {_PEER_KEYS[-1]}; add one of them, "
        "or leave target out to send to every peer"
    )


def parse_int(value: object) -> int | None:
    """Return the integer at the start of a value's text, as JavaScript's `parseInt` does."""
    match = _INTEGER.match(_to_text(value))
    return None if match is None else int(match[1])


def _to_text(value: object) -> str:
    """Convert a value to text as JavaScript does."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return format_number(value) if isinstance(value, int | float) else ""
