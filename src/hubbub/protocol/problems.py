"""Error messages for refused arguments, written so that a model can correct them.

Formats the errors of msgspec and pydantic as `path: what is wrong` and names the
arguments that exist. `hubbub.protocol.schema` calls it when a decoder has failed, so
nothing here is on the fast path.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hubbub import bounds
from hubbub.errors import ArgumentsInvalid
from hubbub.nearest import nearest
from hubbub.protocol.foreign import model_problems

_NAME_CHARACTERS = 64
# Compiled when the first arguments are refused.
_PLACE = r" - at (`key` in )?`\$([^`]*)`$"
_FIELD = r"(?s)Object (contains unknown|missing required) field `(.*)`$"


def refused(error: Exception, schema: dict[str, Any]) -> ArgumentsInvalid:
    """Convert the exception of a decoder to the error to raise."""
    if isinstance(error, msgspec.ValidationError):
        return told(_problems(error, schema))
    if isinstance(error, UnicodeDecodeError):
        return told(["the arguments are not valid UTF-8"])
    if isinstance(error, RecursionError):
        return told(["the arguments are nested too deep"])
    if isinstance(error, msgspec.DecodeError):
        return told([f"the arguments are not valid JSON ({error})"])
    return told([f"the arguments cannot be read ({type(error).__name__}: {error})"])


def told(problems: Iterable[str]) -> ArgumentsInvalid:
    """Join the first few problems into one error."""
    return ArgumentsInvalid("; ".join(map(_shortened, list(problems)[: bounds.PROBLEMS])))


def path_of(parts: Sequence[str | int]) -> str:
    """Write a place inside the arguments as `days`, `cities[2].name`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.removeprefix(".")


def _problems(error: msgspec.ValidationError, schema: dict[str, Any]) -> list[str]:
    message = str(error)
    place = re.search(_PLACE, message)
    path = place[2].removeprefix(".") if place else ""
    if of_model := model_problems(error.__cause__):
        return [_model_problem(path, parts, text, schema) for parts, text in of_model]
    if place:
        message = message[: place.start()]
    if error.__cause__ is not None:  # A ValueError of a user-defined validator: keep its message.
        return [_placed(path, message)]
    if field := re.match(_FIELD, message):
        return [_field_problem(field[1], field[2], path, schema)]
    key = "a key: " if place and place[1] else ""
    return [_placed(path, key + message[:1].lower() + message[1:] + _choices(message, path, schema))]


def _model_problem(path: str, parts: Sequence[str | int], text: str | None, schema: dict[str, Any]) -> str:
    if text is None:
        around = _joined(path, parts[:-1])
        return unknown_field(around, str(parts[-1]), _members_at(around, schema))
    return _placed(_joined(path, parts), text)


def _joined(path: str, parts: Sequence[str | int]) -> str:
    return (path + "." + path_of(parts)).strip(".").replace(".[", "[")


def _field_problem(what: str, name: str, path: str, schema: dict[str, Any]) -> str:
    unknown = what == "contains unknown"
    if path and unknown:
        return unknown_field(path, name, _members_at(path, schema))
    if path:
        return f"{path}: missing required field `{name}`"
    names = ", ".join(schema["properties"])
    takes = f"allowed arguments: {names}" if names else "there are no arguments"
    return f"{'unknown' if unknown else 'missing required'} argument `{name[:_NAME_CHARACTERS]}`; {takes}"


def unknown_field(path: str, name: str, known: Iterable[str]) -> str:
    """Name an unknown member of a nested object, and the most similar known one."""
    return f"{path}.{name[:_NAME_CHARACTERS]}: unknown field{nearest(name[:_NAME_CHARACTERS], known)}"


def _choices(message: str, path: str, schema: dict[str, Any]) -> str:
    if not message.startswith("Invalid enum value"):
        return ""
    choices = next((form["enum"] for form in _at(path, schema) if "enum" in form), ())
    return f"; allowed values: {', '.join(map(repr, choices))}" if choices else ""


def _members_at(path: str, schema: dict[str, Any]) -> list[str]:
    return [name for form in _at(path, schema) for name in form.get("properties", ())]


def _at(path: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of the schema for a path, if they can be found."""
    candidates = [schema]
    for step in re.findall(r"[^.\[\]]+|\[[\w.]*\]", path):
        inside = [_inside(candidate, step) for candidate in candidates]
        candidates = [form for described in inside if described is not None for form in _forms(described, schema)]
    return candidates


def _inside(described: dict[str, Any], step: str) -> dict[str, Any] | None:
    if step == "[...]":  # a value of a mapping
        found = described.get("additionalProperties")
    elif step.startswith("["):
        found = described.get("items")
    else:
        found = described.get("properties", {}).get(step)
    return found if isinstance(found, dict) else None


def _forms(described: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a value may match, with references followed once."""
    definitions = schema.get("$defs", {})
    return [
        definitions.get(candidate.get("$ref", "").rpartition("/")[2], candidate)
        for candidate in (described, *described.get("anyOf", ()))
    ]


def _placed(path: str, message: str) -> str:
    return f"{path or 'arguments'}: {message}"


def _shortened(text: str) -> str:
    return text if len(text) <= bounds.PROBLEM_CHARACTERS else text[: bounds.PROBLEM_CHARACTERS - 1] + "…"
