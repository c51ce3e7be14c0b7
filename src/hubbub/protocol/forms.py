"""Forms: types that a person fills in, as the flat schemas that elicitation allows."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hubbub.errors import DefinitionError, InvalidParams
from hubbub.protocol import foreign
from hubbub.protocol.type_schema import Schema, describe, inline

T = TypeVar("T")
_KEPT = ("type", "properties", "required")
_FLAT = ("string", "number", "integer", "boolean", "array")


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
    flat["properties"] = {
        name: _field(name, inline(field, definitions), field) for name, field in root["properties"].items()
    }
    return flat


def decode_form(content: msgspec.Raw | bytes, form: type[T]) -> T:
    """A filled-in form.

    Raises:
        InvalidParams: it was not filled in as asked.
    """
    try:
        return msgspec.json.decode(content, type=form, dec_hook=foreign.decode_foreign)
    except Exception as error:  # Validators of the user's may raise anything.
        raise InvalidParams(f"The form was not filled in as asked: {error}") from None


def _field(name: str, target: Schema, field: Schema) -> Schema:
    flat = {key: value for key, value in {**target, **field}.items() if key != "$ref"}
    if "enum" in flat:
        flat.setdefault("type", "string")
    if flat.get("type") not in _FLAT or (flat["type"] == "array" and "enum" not in flat.get("items", {})):
        raise DefinitionError(f"Field `{name}` of a form must be text, a number, yes or no, or a choice")
    return flat
