"""Finds the invalid part of a setting's value, and describes what it must be instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from hubbub.settings.fields import SECRET_SOURCE_FORM, list_settings
from hubbub.settings.secret import Secret
from hubbub.suggestions import find_closest, format_suggestion

Convert = Callable[[Any, Any], Any]
"""Converts a value to an annotation; raises `ValueError` if it is invalid."""

SECRET_SOURCE_ADVICE: Final = (
    'must say where the secret is, such as { env = "NAME" } or { file = "secret.txt" }; '
    "the secret itself does not belong in this file"
)
_SHOWN_CHARACTERS: Final = 80
_LISTS: Final = (tuple, list, frozenset, set)
_SPACES: Final = re.compile(r"[\s,]+")
_PLACE: Final = re.compile(r" - at `\$.*`$")
"""How messages of msgspec end."""
_TYPE_TEXTS: Final[dict[Any, str]] = {int: "a whole number", bool: "true or false", float: "a number", str: "text"}


class InvalidValue(NamedTuple):
    """The part of a value that its setting does not allow."""

    path: tuple[str, ...]
    """Where it is in the value; empty for the value itself."""
    problem: str
    """What follows its name in a message: `must be a list, such as ["a"]`."""


def find_invalid_value(annotation: Any, value: Any, convert: Convert) -> InvalidValue:
    """Find the first invalid part of a value that `convert` has refused."""
    members, metas = _unwrap(annotation)
    if len(members) != 1:
        return InvalidValue((), _describe_union(members, metas, value))
    kind = members[0]
    origin = get_origin(kind) or kind
    if origin is dict and isinstance(value, dict):
        items, annotations = value.items(), [(get_args(kind) or (str, Any))[1]] * len(value)
    elif origin in _LISTS and isinstance(value, list | tuple):
        items, annotations = dict(enumerate(value)).items(), [(get_args(kind) or (Any,))[0]] * len(value)
    elif _is_struct(kind) and isinstance(value, dict):
        return _find_in_table(kind, value, convert)
    else:
        return InvalidValue((), _describe(kind, metas, value, convert))
    for (key, item), item_annotation in zip(items, annotations, strict=True):
        if not _fits(item_annotation, item, convert):
            invalid = find_invalid_value(item_annotation, item, convert)
            return InvalidValue((str(key), *invalid.path), invalid.problem)
    return InvalidValue((), _describe(kind, metas, value, convert))


def _find_in_table(kind: type[msgspec.Struct], table: dict[str, Any], convert: Convert) -> InvalidValue:
    settings = {setting.key: setting for setting in list_settings(kind)}
    for key, value in table.items():
        if key not in settings:
            return InvalidValue((key,), f"is not a setting{format_suggestion(key, settings)}")
        if not _fits(settings[key].annotation, value, convert):
            invalid = find_invalid_value(settings[key].annotation, value, convert)
            return InvalidValue((key, *invalid.path), invalid.problem)
    for key, setting in settings.items():
        if setting.default is msgspec.NODEFAULT and key not in table:
            return InvalidValue((), f"needs {key!r}: {setting.description}")
    try:
        convert(table, kind)
    except ValueError as error:  # `__post_init__` refuses combinations of values.
        text = _PLACE.sub("", str(error))
        name, _, problem = text.partition(" ")
        return InvalidValue((name,), problem) if name in table else InvalidValue((), f"is not valid: {text}")
    return InvalidValue((), "is not valid")


def _fits(annotation: Any, value: Any, convert: Convert) -> bool:
    try:
        convert(value, annotation)
    except (ValueError, UnicodeEncodeError):
        return False
    return True


def _unwrap(annotation: Any) -> tuple[list[Any], list[msgspec.Meta]]:
    """Return the types that a value may have, without None, and what `Annotated` says about them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *details = get_args(annotation)
        members, metas = _unwrap(inner)
        return members, [*metas, *(detail for detail in details if isinstance(detail, msgspec.Meta))]
    if origin in (Union, UnionType):
        unwrapped = [_unwrap(member) for member in get_args(annotation) if member is not NoneType]
        return [kind for members, _ in unwrapped for kind in members], [
            meta for _, metas in unwrapped for meta in metas
        ]
    return [annotation], []


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _describe_union(members: Sequence[Any], metas: Sequence[msgspec.Meta], value: Any) -> str:
    form = _find_extra(metas, "form")
    if form is not None:
        return f"must look like {form}{_format_value(value)}"
    choices = [str(choice) for member in members if get_origin(member) is Literal for choice in get_args(member)]
    texts = [_TYPE_TEXTS[member] for member in members if member in _TYPE_TEXTS]
    return f"must be {' or '.join([*choices, *texts])}{_format_value(value)}"


def _describe(kind: Any, metas: Sequence[msgspec.Meta], value: Any, convert: Convert) -> str:
    origin = get_origin(kind) or kind
    if kind is Secret:
        return "must be text"
    if _is_struct(kind):
        return SECRET_SOURCE_ADVICE if _find_extra(metas, "form") == SECRET_SOURCE_FORM else "must be a section"
    if origin is dict:
        return "must be a section, or a table such as { NAME = VALUE }"
    if origin in _LISTS:
        return _describe_list(kind, value)
    if origin is Literal:
        return describe_choices([str(choice) for choice in get_args(kind)], value)
    expected = _describe_bounds(kind, metas, value) if _fits(kind, value, convert) else _TYPE_TEXTS.get(kind)
    if expected is not None:
        return f"must be {expected}{_format_value(value)}"
    return f"must look like {_find_extra(metas, 'form') or 'TEXT'}{_format_value(value)}"


def describe_choices(choices: Sequence[str], value: Any) -> str:
    """Describe a setting that has a fixed set of values."""
    closest = find_closest(str(value), choices)
    suggestion = "" if closest is None else f"; did you mean {closest!r}?"
    return f"must be one of {', '.join(choices)}{_format_value(value)}{suggestion}"


def _describe_list(kind: Any, value: Any) -> str:
    items, _ = _unwrap((get_args(kind) or (str,))[0])
    if _is_struct(items[0]):
        return "must be an array of tables"
    if isinstance(value, list | tuple):
        return "must not be empty"
    if not isinstance(value, str):
        return f"must be a list{_format_value(value)}"
    words = [word for word in _SPACES.split(value[:_SHOWN_CHARACTERS]) if word]
    return f"must be a list, such as {msgspec.json.encode(words or ['a']).decode().replace(',', ', ')}"


def _describe_bounds(kind: Any, metas: Sequence[msgspec.Meta], value: Any) -> str | None:
    expected = _find_extra(metas, "expected")
    if expected is not None:
        return str(expected)
    if kind is str:
        shortest = next((meta.min_length for meta in metas if meta.min_length is not None), 0)
        return "at least one character" if isinstance(value, str) and len(value) < shortest else None
    bounds = {name: getattr(meta, name) for meta in metas for name in ("ge", "gt", "le", "lt")}
    bounds |= {name: getattr(meta, name) for meta in metas for name in bounds if getattr(meta, name) is not None}
    if bounds.get("ge") is not None and bounds.get("le") is not None:
        return f"from {bounds['ge']} to {bounds['le']}"
    words = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
    texts = [f"{word} {bounds[name]}" for name, word in words.items() if bounds.get(name) is not None]
    return " and ".join(texts) or None


def _find_extra(metas: Sequence[msgspec.Meta], name: str) -> Any:
    return next((meta.extra[name] for meta in metas if meta.extra and meta.extra.get(name) is not None), None)


def _format_value(value: Any) -> str:
    return f", not {str(value)[:_SHOWN_CHARACTERS]!r}"
