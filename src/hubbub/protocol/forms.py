"""Elicitation forms: the flat schema of a type that a person fills in, and decoding of the answer."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hubbub.errors import DefinitionError, InvalidParams
from hubbub.protocol import foreign
from hubbub.protocol.schema_writer import Schema
from hubbub.protocol.type_schema import describe, inline

T = TypeVar("T")
_KEPT = ("type", "properties", "required")
_PLAIN = ("string", "number", "integer", "boolean")
_FORMATS = ("date", "date-time", "email", "uri")


def form_schema(form: Any) -> Schema:
    """The schema of a form, given as a dataclass, TypedDict, Struct or model.

    Raises:
        DefinitionError: a field is more than text, a number, yes or no, or a choice.
    """
    (schema,), definitions = describe([form], "validation")
    root = inline(schema, definitions)
    if root.get("type") != "object":
        raise DefinitionError(f"A form is a type with named fields, not {form!r}")
    flat = {key: root[key] for key in _KEPT if key in root}
    flat["properties"] = {name: _field(name, field, definitions) for name, field in root["properties"].items()}
    return flat


def decode_form(content: msgspec.Raw | bytes, form: type[T]) -> T:
    """Decode a filled-in form.

    Raises:
        InvalidParams: the content does not match the form.
    """
    try:
        return msgspec.json.decode(content, type=form, dec_hook=foreign.decode_foreign)
    except Exception as error:  # User-defined validators may raise anything.
        raise InvalidParams(f"The form was not filled in as asked: {error}") from None


def _field(name: str, schema: Schema, definitions: dict[str, Schema]) -> Schema:
    flat = _single(schema, definitions)
    if flat.get("type") == "array":
        items = _single(flat.get("items", {}), definitions)
        is_allowed = "enum" in items or "anyOf" in items
        flat["items"] = items
    else:
        is_allowed = flat.get("type") in _PLAIN
    if not is_allowed or not _is_text_choice(flat.get("items", flat)):
        raise DefinitionError(f"Field `{name}` of a form must be text, a number, yes or no, or a choice of texts")
    if flat.get("format") not in _FORMATS:
        flat.pop("format", None)
    return flat


def _single(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Reduce a field to one type without null: a person cannot enter null, and `required` shows what is optional."""
    target = inline(schema, definitions)
    flat = dict(target)
    if "$ref" in schema and "title" not in schema:
        flat.pop("title", None)  # A class name is not a label.
    members = [member for member in flat.get("anyOf", ()) if member != {"type": "null"}]
    if len(members) == 1:
        del flat["anyOf"]
        flat = {**_single(members[0], definitions), **flat}
    if "enum" in flat:
        flat["enum"] = [value for value in flat["enum"] if value is not None]
        flat.setdefault("type", "string")
    if flat.get("default", ...) is None:
        del flat["default"]
    return flat


def _is_text_choice(schema: Schema) -> bool:
    return all(isinstance(value, str) for value in schema.get("enum", ()))
