"""Why arguments were refused, said so that a model can correct them.

Reads the errors of msgspec and pydantic and words them as `path: what is
wrong`, naming the arguments that exist. `hubbub.protocol.schema` calls it when
a decoder has failed, so nothing here is on the fast path.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hubbub.bounds import PROBLEM_CHARACTERS, PROBLEMS
from hubbub.errors import ArgumentsInvalid
from hubbub.protocol.foreign import model_problems

# Compiled when the first arguments are refused.
_PLACE = r" - at (`key` in )?`\$([^`]*)`$"
_FIELD = r"(?s)Object (contains unknown|missing required) field `(.*)`$"


def refused(error: Exception, schema: dict[str, Any]) -> ArgumentsInvalid:
    """Make the error to raise from what a decoder raised."""
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
    return ArgumentsInvalid("; ".join(map(_shortened, list(problems)[:PROBLEMS])))


def path_of(parts: Sequence[str | int]) -> str:
    """Write a place inside the arguments as `days`, `cities[2].name`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.removeprefix(".")


def _problems(error: msgspec.ValidationError, schema: dict[str, Any]) -> list[str]:
    message = str(error)
    place = re.search(_PLACE, message)
    path = place[2].removeprefix(".") if place else ""
    if of_model := model_problems(error.__cause__):
        return [_placed((path + "." + path_of(parts)).strip(".").replace(".[", "["), text) for parts, text in of_model]
    if place:
        message = message[: place.start()]
    if error.__cause__ is not None:  # A ValueError of the user's own: her words.
        return [_placed(path, message)]
    if field := re.match(_FIELD, message):
        return [_field_problem(field[1], field[2], path, schema)]
    key = "a key: " if place and place[1] else ""
    return [_placed(path, key + message[:1].lower() + message[1:] + _choices(message, path, schema))]


def _field_problem(what: str, name: str, path: str, schema: dict[str, Any]) -> str:
    unknown = what == "contains unknown"
    if path:
        return f"{path}: {'unknown' if unknown else 'missing required'} field `{name}`"
    names = ", ".join(schema["properties"])
    takes = f"allowed arguments: {names}" if names else "there are no arguments"
    return f"{'unknown' if unknown else 'missing required'} argument `{name[:64]}`; {takes}"


def _choices(message: str, path: str, schema: dict[str, Any]) -> str:
    if not message.startswith("Invalid enum value"):
        return ""
    candidates = [schema]
    for step in re.findall(r"[^.\[\]]+|\[\w*\]", path):
        inside = [_inside(candidate, step) for candidate in candidates]
        candidates = [form for described in inside if described is not None for form in _forms(described, schema)]
    choices = next((candidate["enum"] for candidate in candidates if "enum" in candidate), ())
    return f"; allowed values: {', '.join(map(repr, choices))}" if choices else ""


def _inside(described: dict[str, Any], step: str) -> dict[str, Any] | None:
    found = described.get("items") if step.startswith("[") else described.get("properties", {}).get(step)
    return found if isinstance(found, dict) else None


def _forms(described: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """What a value may look like, with references followed once."""
    definitions = schema.get("$defs", {})
    return [
        definitions.get(candidate.get("$ref", "").rpartition("/")[2], candidate)
        for candidate in (described, *described.get("anyOf", ()))
    ]


def _placed(path: str, message: str) -> str:
    return f"{path or 'arguments'}: {message}"


def _shortened(text: str) -> str:
    return text if len(text) <= PROBLEM_CHARACTERS else text[: PROBLEM_CHARACTERS - 1] + "…"
