"""Parses the arguments of a tool call as models write them.

Models put them into code fences, encode them twice, or leave them out; these forms are repaired. Anything else is an
error that is returned to the model, so that it can try again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from hubbub import bounds
from hubbub.agent.nesting import is_deeper_than

ARGUMENTS_JSON_PARSE_ERROR: Final = "ARGUMENTS_JSON_PARSE_ERROR"
ARGUMENTS_TOO_LARGE: Final = "ARGUMENTS_TOO_LARGE"

Status = Literal["ok", "blank", "repaired", "invalid", "too_large"]

_FENCE: Final = re.compile(r"```[ \t]*\w*[ \t]*\r?\n?(.*?)\s*```", re.DOTALL)


class Arguments(msgspec.Struct, frozen=True):
    """Parsed arguments, or the reason why they cannot be used."""

    value: dict[str, Any]
    """Empty if they could not be parsed."""
    status: Status
    bytes: int
    """Size as received."""
    message: str = ""
    """Why they cannot be used."""

    @property
    def is_usable(self) -> bool:
        """Whether a tool can be called with them."""
        return self.status in ("ok", "blank", "repaired")

    @property
    def code(self) -> str:
        """The error code, if they cannot be used."""
        return ARGUMENTS_TOO_LARGE if self.status == "too_large" else ARGUMENTS_JSON_PARSE_ERROR


def parse_arguments(raw: Any, max_bytes: int) -> Arguments:
    """Read the arguments of one call. Never raises."""
    if raw is None:
        return Arguments({}, "blank", 0)
    if isinstance(raw, Mapping):
        return _from_object(raw, max_bytes)
    if not isinstance(raw, str):
        return Arguments({}, "invalid", 0, f"The arguments must be a JSON object, not {_type_name(raw)}")
    size = len(raw.encode(errors="replace"))
    if size > max_bytes:
        return _too_large(size, max_bytes)
    if not raw.strip():
        return Arguments({}, "blank", size)
    return _from_text(raw, size)


def _from_object(mapping: Mapping[str, Any], max_bytes: int) -> Arguments:
    try:
        encoded = msgspec.json.encode(dict(mapping))
        value = msgspec.json.decode(encoded)
    except (TypeError, ValueError, RecursionError) as error:
        return Arguments({}, "invalid", 0, f"The arguments cannot be encoded as JSON: {error}")
    if len(encoded) > max_bytes:
        return _too_large(len(encoded), max_bytes)
    return _check_depth(value, "ok", len(encoded))


def _from_text(raw: str, size: int) -> Arguments:
    value, problem = _decode(raw)
    if problem is None and isinstance(value, dict):
        return _check_depth(value, "ok", size)
    if problem is not None and (fenced := _FENCE.fullmatch(raw.strip())):
        value, problem = _decode(fenced[1])
    if isinstance(value, str):
        inner = value.strip()
        fenced = _FENCE.fullmatch(inner)
        value, problem = _decode(fenced[1] if fenced else inner) if inner else ({}, None)
    if problem is not None:
        return Arguments({}, "invalid", size, f"The arguments are not valid JSON: {problem}")
    if not isinstance(value, dict):
        return Arguments({}, "invalid", size, f"The arguments must be a JSON object, not {_type_name(value)}")
    return _check_depth(value, "repaired", size)


def _check_depth(value: dict[str, Any], status: Status, size: int) -> Arguments:
    if is_deeper_than(value, bounds.TOOL_OUTPUT_DEPTH):
        return Arguments({}, "invalid", size, f"The arguments are nested deeper than {bounds.TOOL_OUTPUT_DEPTH} levels")
    return Arguments(value, status, size)


def _decode(text: str) -> tuple[Any, str | None]:
    try:
        return msgspec.json.decode(text.encode()), None
    except RecursionError:
        return None, "nested too deep"
    except (ValueError, UnicodeEncodeError) as error:
        return None, str(error)


def _too_large(size: int, max_bytes: int) -> Arguments:
    return Arguments({}, "too_large", size, f"The arguments have {size} bytes; send at most {max_bytes}")


def _type_name(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
