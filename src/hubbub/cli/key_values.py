"""Parses `key=value` words as the arguments of a tool, according to its schema.

    days=3 city=Oslo     an integer and a text, according to the schema
    tags=a tags=b        a list, like tags='["a","b"]'
    filter:='{"a":1}'    JSON, independent of the schema

No I/O. The server validates the arguments as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.settings import format_suggestion

_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TYPE_DESCRIPTIONS: Final = {
    "array": "a list, as JSON",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object, as JSON",
}
_MAX_SHOWN_DEPTH: Final = 3
_NO_VALUE: Final = object()


def read_arguments(words: Sequence[str], schema: Any) -> dict[str, Any]:
    """Parse the words.

    Raises:
        SettingsError: a word is not `key=value`, or does not fit its type.
    """
    schema = schema if isinstance(schema, Mapping) else {}
    known = _properties(schema, schema)
    arguments: dict[str, Any] = {}
    lists: set[str] = set()
    for word in words:
        key, value, is_json = _split(word, known)
        if key not in known and schema.get("additionalProperties") is False:
            raise SettingsError(f"unknown argument {key!r}{format_suggestion(key, known)}")
        property_schema = known.get(key)
        is_list = not is_json and "array" in _types(property_schema, schema) and not value.lstrip().startswith("[")
        if key in arguments and not (is_list and key in lists):
            raise SettingsError(f"{key} is given twice")
        if is_json:
            arguments[key] = _parse_json(key, value)
        elif is_list and "string" not in _types(property_schema, schema):
            lists.add(key)
            item = _item_schema(property_schema, schema)
            arguments.setdefault(key, []).append(read_value(key, value, item, schema))
        else:
            arguments[key] = read_value(key, value, property_schema, schema)
    return arguments


def read_object(text: str | bytes, origin: str) -> dict[str, Any]:
    """Parse a JSON object with all arguments.

    Raises: SettingsError.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SettingsError(f"{origin} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise SettingsError(f"""{origin} must be a JSON object, as '{{"key": "value"}}'""")
    return value


def describe_arguments(schema: Any) -> str:
    """Describe the arguments of a schema in one line: `city: string, days?: integer`."""
    if not isinstance(schema, Mapping):
        return ""
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {type_name(property_schema, schema)}"
        for name, property_schema in _properties(schema, schema).items()
    )


def type_name(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Name the type of a value, for people."""
    resolved = _resolve(schema, root)
    choices = resolved.get("enum")
    if depth > _MAX_SHOWN_DEPTH:
        return "any"
    if isinstance(choices, list) and choices:
        return "|".join(str(choice) for choice in choices)
    types = [
        f"{type_name(resolved['items'], root, depth + 1)}[]" if each == "array" and "items" in resolved else each
        for each in _types(schema, root)
    ]
    return "|".join(types) or "any"


def list_parameters(schema: Any) -> list[tuple[str, str, bool, str]]:
    """Name, type, whether it is required, and description of each argument."""
    if not isinstance(schema, Mapping):
        return []
    required = schema.get("required")
    parameters = []
    for name, property_schema in _properties(schema, schema).items():
        description = _resolve(property_schema, schema).get("description")
        is_required = isinstance(required, list) and name in required
        parameters.append(
            (name, type_name(property_schema, schema), is_required, description if isinstance(description, str) else "")
        )
    return parameters


def _split(word: str, known: Mapping[str, Any]) -> tuple[str, str, bool]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        keys = f" (arguments: {', '.join(known)})" if known else ""
        raise SettingsError(f"{word!r} must look like key=value{keys}")
    is_json = key.endswith(":") and key not in known
    return (key[:-1], value, True) if is_json else (key, value, False)


def read_value(key: str, text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """Parse the value of one argument; references in its schema are resolved in `root`.

    Raises: SettingsError.
    """
    types = _types(schema, root)
    if not types:
        return _parse_any(text)
    for kind in types:
        value = _parse_kind(text, kind)
        if value is not _NO_VALUE:
            return value
    if "string" in types:
        return text
    raise SettingsError(
        f"{key} must be {' or '.join(_TYPE_DESCRIPTIONS.get(kind, kind) for kind in types)}, not {text[:80]!r}"
    )


def _parse_kind(text: str, kind: str) -> Any:
    if kind == "string" or kind not in _TYPE_DESCRIPTIONS:
        return _NO_VALUE
    if kind == "boolean":
        return _BOOLEANS.get(text.strip().lower(), _NO_VALUE)
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NO_VALUE
    fits = {
        "array": isinstance(value, list),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "null": value is None,
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "object": isinstance(value, dict),
    }
    return value if fits[kind] else _NO_VALUE


def _parse_any(text: str) -> Any:
    """Parse a value without a schema: JSON if it is valid, else text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def _parse_json(key: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SettingsError(f"{key} is not JSON: {error}") from None


# -- reading schemas, which may contain anything -----------------------------------


def _properties(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    properties = _resolve(schema, root).get("properties")
    return dict(properties) if isinstance(properties, Mapping) else {}


def _item_schema(schema: Any, root: Mapping[str, Any]) -> Any:
    resolved = _resolve(schema, root)
    if "items" in resolved:
        return resolved["items"]
    for branch in _branches(resolved):
        if "items" in (resolved_branch := _resolve(branch, root)):
            return resolved_branch["items"]
    return {}


def _types(schema: Any, root: Mapping[str, Any], seen: set[int] | None = None) -> list[str]:
    """The JSON types that a value may have; none if the schema does not say, or only refers to itself."""
    resolved = _resolve(schema, root)
    named = resolved.get("type")
    listed = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    types = [each for each in listed if isinstance(each, str)]
    seen = set() if seen is None else seen  # Each schema is looked at once, however many refer to it.
    if not types and id(resolved) not in seen and len(seen) < bounds.SCHEMA_ALTERNATIVES:
        seen.add(id(resolved))
        for branch in _branches(resolved):
            types += _types(branch, root, seen)
    if not types:
        constants = [resolved["const"]] if "const" in resolved else []
        choices = resolved["enum"] if isinstance(resolved.get("enum"), list) else constants
        types = [_type_of(choice) for choice in choices]
    return list(dict.fromkeys(types))


def _branches(schema: Mapping[str, Any]) -> list[Any]:
    return [branch for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list) for branch in schema[key]]


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(bounds.SCHEMA_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        schema = _resolve_pointer(root, reference)
    return {}


def _resolve_pointer(root: Any, reference: str) -> Any:
    for step in filter(None, reference.lstrip("#").split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        root = root.get(name) if isinstance(root, Mapping) else None
    return root
