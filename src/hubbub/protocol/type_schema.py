"""JSON Schema 2020-12 for types, with their definitions kept in one place.

`SchemaWriter` describes what msgspec decodes, pydantic describes its own models, and
here both share one `$defs`. Not for functions: `hubbub.protocol.schema` puts these pieces
together.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hubbub.protocol import foreign
from hubbub.protocol.schema_writer import Schema, SchemaWriter

_REFERENCE = "#/$defs/"
_NOTES = ("title", "description", "examples", "deprecated", "default")


def describe(types: Sequence[Any], mode: foreign.Mode) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schema of each type and the definitions that they refer to.

    Raises:
        TypeError: msgspec cannot decode one of the types; the message says why.
    """
    models: dict[type[Any], Schema] = {}

    def hook(kind: type[Any]) -> Schema:
        if foreign.is_model(kind):
            return models.setdefault(kind, {"type": "object"})
        if foreign.is_path(kind):
            return {"type": "string", "format": "path"}
        raise NotImplementedError

    writer = SchemaWriter(types, hook, is_input=mode == "validation")
    schemas, components = writer.schemas(), writer.definitions()
    if models:
        references, definitions = foreign.describe_models(models, mode, "")
        if definitions.keys() & components.keys():
            references, definitions = foreign.describe_models(models, mode, "pydantic.")
        models.update(references)
        # Once more, now that the hook knows how the models are referred to.
        schemas, components = writer.schemas(), writer.definitions() | definitions
    return schemas, components


def inline(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replace a reference at the root of a schema by a copy of what it refers to."""
    while (name := _referred(schema)) in definitions:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions[name], **rest}
    return schema


def needed(schema: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    """Those definitions that a schema refers to, directly or through others."""
    found: set[str] = set()
    waiting = list(_references(schema))
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found.add(name)
            waiting.extend(_references(definitions[name]))
    return {name: definition for name, definition in definitions.items() if name in found}


def with_notes_last(schema: Schema) -> Schema:
    """Order keys as people write them: constraints first, then annotations."""
    rules = {key: value for key, value in schema.items() if key not in _NOTES and not key.startswith("x-")}
    notes = {key: schema[key] for key in _NOTES if key in schema}
    extensions = {key: value for key, value in schema.items() if key.startswith("x-")}
    return rules | notes | extensions


def _referred(schema: Schema) -> str:
    reference = schema.get("$ref")
    return reference.removeprefix(_REFERENCE) if isinstance(reference, str) else ""


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if name := _referred(node):
            yield name
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
