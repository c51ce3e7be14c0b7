"""Elicitation forms: the flat schema of a type that a person fills in, and decoding of the answer."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hubbub.errors import DefinitionError, InvalidParams, MissingCapability
from hubbub.protocol import pydantic_support
from hubbub.protocol.calls import Caller
from hubbub.protocol.schema_writer import Schema
from hubbub.protocol.type_schema import describe_types, inline_reference

T = TypeVar("T")
_ROOT_KEYWORDS = ("type", "properties", "required")
_SCALAR_TYPES = ("string", "number", "integer", "boolean")
_FORMATS = ("date", "date-time", "email", "uri")


def supports_forms(caller: Caller) -> bool:
    """Whether a client can show forms to a user."""
    declared = caller.capabilities.get("elicitation")
    return caller.revision.elicitation != "none" and caller.can("elicitation") and not _has_only_urls(declared)


def require_form_support(caller: Caller) -> None:
    """Check that the client can show forms to a user.

    Raises:
        MissingCapability: the client does not support elicitation, or only URLs.
    """
    if not supports_forms(caller):
        declared = caller.capabilities.get("elicitation")
        raise MissingCapability({"elicitation": {"form": {}} if _has_only_urls(declared) else {}})


def _has_only_urls(declared: Any) -> bool:
    # `elicitation` without a mode means forms, the only mode in its first revision.
    return isinstance(declared, dict) and "url" in declared and "form" not in declared


def form_schema(form: Any) -> Schema:
    """The schema of a form, given as a dataclass, TypedDict, Struct or model.

    Raises:
        DefinitionError: a field is more than text, a number, yes or no, or a choice.
    """
    (schema,), definitions = describe_types([form], "validation")
    root = inline_reference(schema, definitions)
    if root.get("type") != "object":
        raise DefinitionError(f"A form must be a type with named fields, not {form!r}")
    flattened = {key: root[key] for key in _ROOT_KEYWORDS if key in root}
    flattened["properties"] = {
        name: _flatten_field(name, field, definitions) for name, field in root["properties"].items()
    }
    return flattened


def decode_form(content: msgspec.Raw | bytes, form: type[T]) -> T:
    """Decode a filled-in form.

    Raises:
        InvalidParams: the content does not match the form.
    """
    try:
        return msgspec.json.decode(content, type=form, dec_hook=pydantic_support.decode_hook)
    except Exception as error:  # User-defined validators may raise anything.
        raise InvalidParams(f"The response does not match the form: {error}") from None


def _flatten_field(name: str, schema: Schema, definitions: dict[str, Schema]) -> Schema:
    flattened = _flatten_type(schema, definitions)
    if flattened.get("type") == "array":
        items = _flatten_type(flattened.get("items", {}), definitions)
        is_allowed = "enum" in items or "anyOf" in items
        flattened["items"] = items
    else:
        is_allowed = flattened.get("type") in _SCALAR_TYPES
    if not is_allowed or not _is_text_choice(flattened.get("items", flattened)):
        raise DefinitionError(f"Field `{name}` of a form must be a string, a number, a boolean or a choice of strings")
    if flattened.get("format") not in _FORMATS:
        flattened.pop("format", None)
    return flattened


def _flatten_type(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Reduce a field to one type without null: a person cannot enter null, and `required` shows what is optional."""
    target = inline_reference(schema, definitions)
    flattened = dict(target)
    if "$ref" in schema and "title" not in schema:
        flattened.pop("title", None)  # A class name is not a label.
    members = [member for member in flattened.get("anyOf", ()) if member != {"type": "null"}]
    if len(members) == 1:
        del flattened["anyOf"]
        flattened = {**_flatten_type(members[0], definitions), **flattened}
    if "enum" in flattened:
        flattened["enum"] = [value for value in flattened["enum"] if value is not None]
        flattened.setdefault("type", "string")
    if flattened.get("default", ...) is None:
        del flattened["default"]
    return flattened


def _is_text_choice(schema: Schema) -> bool:
    return all(isinstance(value, str) for value in schema.get("enum", ()))
