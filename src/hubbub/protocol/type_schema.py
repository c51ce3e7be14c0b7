"""JSON Schema 2020-12 for types, with their definitions kept in one place.

`SchemaWriter` describes what msgspec decodes, pydantic describes its own models, and
here both share one `$defs`. Not for functions: `hubbub.protocol.schema` puts these pieces
together.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hubbub.protocol import pydantic_support
from hubbub.protocol.schema_writer import Schema, SchemaWriter

_REFERENCE_PREFIX = "#/$defs/"
_ANNOTATION_KEYWORDS = ("title", "description", "examples", "deprecated", "default")


def describe_types(types: Sequence[Any], mode: pydantic_support.Mode) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schema of each type and the definitions that they refer to.

    Raises:
        TypeError: msgspec cannot decode one of the types; the message says why.
    """
    models: dict[type[Any], Schema] = {}

    def hook(kind: type[Any]) -> Schema:
        if pydantic_support.is_model(kind):
            return models.setdefault(kind, {"type": "object"})
        if pydantic_support.is_path(kind):
            return {"type": "string", "format": "path"}
        raise NotImplementedError

    writer = SchemaWriter(types, hook, is_input=mode == "validation")
    schemas, components = writer.schemas(), writer.definitions()
    if models:
        references, definitions = pydantic_support.describe_models(models, mode, "")
        if definitions.keys() & components.keys():
            references, definitions = pydantic_support.describe_models(models, mode, "pydantic.")
        models.update(references)
        # Once more, now that the hook knows how the models are referred to.
        schemas, components = writer.schemas(), writer.definitions() | definitions
    return schemas, components


def inline_reference(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replace a reference at the root of a schema by a copy of what it refers to."""
    while (name := _reference_name(schema)) in definitions:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions[name], **rest}
    return schema


def select_definitions(schema: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    """Those definitions that a schema refers to, directly or through others."""
    found: set[str] = set()
    queue = list(_find_references(schema))
    while queue:
        name = queue.pop()
        if name in definitions and name not in found:
            found.add(name)
            queue.extend(_find_references(definitions[name]))
    return {name: definition for name, definition in definitions.items() if name in found}


def order_keywords(schema: Schema) -> Schema:
    """Order keys as people write them: constraints first, then annotations."""
    rules = {
        key: value for key, value in schema.items() if key not in _ANNOTATION_KEYWORDS and not key.startswith("x-")
    }
    notes = {key: schema[key] for key in _ANNOTATION_KEYWORDS if key in schema}
    extensions = {key: value for key, value in schema.items() if key.startswith("x-")}
    return rules | notes | extensions


def _reference_name(schema: Schema) -> str:
    reference = schema.get("$ref")
    return reference.removeprefix(_REFERENCE_PREFIX) if isinstance(reference, str) else ""


def _find_references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if name := _reference_name(node):
            yield name
        for value in node.values():
            yield from _find_references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _find_references(value)
