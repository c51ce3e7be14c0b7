"""Validates arguments and results of tools with the schemas of their definitions.

Untrusted schemas are compiled when first needed, with the bounds of `hubbub.protocol.schema_data`. A schema that cannot
be compiled is skipped, because the server that wrote it validates for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hubbub.agent.definition import Definition
from hubbub.agent.frozen import thaw
from hubbub.errors import ArgumentsInvalid, DefinitionError
from hubbub.protocol.schema_data import SchemaValidator


class SchemaChecks:
    """The compiled schemas of some tools."""

    def __init__(self) -> None:
        self._validators: dict[tuple[str, str], SchemaValidator | None] = {}

    def check_arguments(self, definition: Definition, arguments: Mapping[str, Any]) -> None:
        """Raise ArgumentsInvalid if the arguments do not match the input schema."""
        validator = self._validator(definition.name, "input", definition.parameters)
        if validator is not None:
            validator.validate(dict(arguments))

    def check_output(self, definition: Definition, structured: Any) -> None:
        """Raise ArgumentsInvalid if the structured content does not match the output schema."""
        if definition.output_schema is None:
            return
        if structured is None:
            raise ArgumentsInvalid("the structured content is missing")
        validator = self._validator(definition.name, "output", definition.output_schema)
        if validator is not None:
            validator.validate(structured)

    def _validator(self, name: str, side: str, schema: Mapping[str, Any]) -> SchemaValidator | None:
        key = (name, side)
        if key not in self._validators:
            try:
                self._validators[key] = SchemaValidator(thaw(schema))
            except DefinitionError:
                self._validators[key] = None
        return self._validators[key]
