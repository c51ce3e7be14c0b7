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
from hubbub.protocol.pydantic_support import list_model_errors
from hubbub.suggestions import format_suggestion

_NAME_CHARACTERS = 64
# Compiled when the first arguments are refused.
_PATH_PATTERN = r" - at (`key` in )?`\$([^`]*)`$"
_FIELD_PATTERN = r"(?s)Object (contains unknown|missing required) field `(.*)`$"


def arguments_error(error: Exception, schema: dict[str, Any]) -> ArgumentsInvalid:
    """Convert the exception of a decoder to the error to raise."""
    if isinstance(error, msgspec.ValidationError):
        return join_problems(_list_problems(error, schema))
    if isinstance(error, UnicodeDecodeError):
        return join_problems(["the arguments are not valid UTF-8"])
    if isinstance(error, RecursionError):
        return join_problems(["the arguments are nested too deep"])
    if isinstance(error, msgspec.DecodeError):
        return join_problems([f"the arguments are not valid JSON ({error})"])
    return join_problems([f"the arguments cannot be decoded ({type(error).__name__}: {error})"])


def join_problems(problems: Iterable[str]) -> ArgumentsInvalid:
    """Join the first few problems into one error."""
    return ArgumentsInvalid("; ".join(map(_shorten, list(problems)[: bounds.PROBLEMS])))


def format_path(parts: Sequence[str | int]) -> str:
    """Write a place inside the arguments as `days`, `cities[2].name`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.removeprefix(".")


def _list_problems(error: msgspec.ValidationError, schema: dict[str, Any]) -> list[str]:
    message = str(error)
    location = re.search(_PATH_PATTERN, message)
    path = location[2].removeprefix(".") if location else ""
    if model_errors := list_model_errors(error.__cause__):
        return [_model_problem(path, parts, text, schema) for parts, text in model_errors]
    if location:
        message = message[: location.start()]
    if error.__cause__ is not None:  # A ValueError of a user-defined validator: keep its message.
        return [_prefix_path(path, message)]
    if field := re.match(_FIELD_PATTERN, message):
        return [_field_problem(field[1], field[2], path, schema)]
    key = "a key: " if location and location[1] else ""
    return [_prefix_path(path, key + message[:1].lower() + message[1:] + _format_choices(message, path, schema))]


def _model_problem(path: str, parts: Sequence[str | int], text: str | None, schema: dict[str, Any]) -> str:
    if text is None:
        parent_path = _join_path(path, parts[:-1])
        return describe_unknown_field(parent_path, str(parts[-1]), _members_at(parent_path, schema))
    return _prefix_path(_join_path(path, parts), text)


def _join_path(path: str, parts: Sequence[str | int]) -> str:
    return (path + "." + format_path(parts)).strip(".").replace(".[", "[")


def _field_problem(kind: str, name: str, path: str, schema: dict[str, Any]) -> str:
    unknown = kind == "contains unknown"
    if path and unknown:
        return describe_unknown_field(path, name, _members_at(path, schema))
    if path:
        return f"{path}: missing required field `{name}`"
    names = ", ".join(schema["properties"])
    allowed = f"allowed arguments: {names}" if names else "the tool takes no arguments"
    return f"{'unknown' if unknown else 'missing required'} argument `{name[:_NAME_CHARACTERS]}`; {allowed}"


def describe_unknown_field(path: str, name: str, known: Iterable[str]) -> str:
    """Name an unknown member of a nested object, and the most similar known one."""
    return f"{path}.{name[:_NAME_CHARACTERS]}: unknown field{format_suggestion(name[:_NAME_CHARACTERS], known)}"


def _format_choices(message: str, path: str, schema: dict[str, Any]) -> str:
    if not message.startswith("Invalid enum value"):
        return ""
    choices = next(
        (candidate_schema["enum"] for candidate_schema in _find_schemas(path, schema) if "enum" in candidate_schema), ()
    )
    return f"; allowed values: {', '.join(map(repr, choices))}" if choices else ""


def _members_at(path: str, schema: dict[str, Any]) -> list[str]:
    return [name for candidate_schema in _find_schemas(path, schema) for name in candidate_schema.get("properties", ())]


def _find_schemas(path: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of the schema for a path, if they can be found."""
    candidates = [schema]
    for step in re.findall(r"[^.\[\]]+|\[[\w.]*\]", path):
        children = [_child_schema(candidate, step) for candidate in candidates]
        candidates = [
            candidate_schema
            for subschema in children
            if subschema is not None
            for candidate_schema in _alternatives(subschema, schema)
        ]
    return candidates


def _child_schema(subschema: dict[str, Any], step: str) -> dict[str, Any] | None:
    if step == "[...]":  # a value of a mapping
        found = subschema.get("additionalProperties")
    elif step.startswith("["):
        found = subschema.get("items")
    else:
        found = subschema.get("properties", {}).get(step)
    return found if isinstance(found, dict) else None


def _alternatives(subschema: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a value may match, with references followed once."""
    definitions = schema.get("$defs", {})
    return [
        definitions.get(candidate.get("$ref", "").rpartition("/")[2], candidate)
        for candidate in (subschema, *subschema.get("anyOf", ()))
    ]


def _prefix_path(path: str, message: str) -> str:
    return f"{path or 'arguments'}: {message}"


def _shorten(text: str) -> str:
    return text if len(text) <= bounds.PROBLEM_CHARACTERS else text[: bounds.PROBLEM_CHARACTERS - 1] + "…"
