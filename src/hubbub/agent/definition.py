"""A tool as a model is told of it, and where it comes from.

The same value decides what is shown and what may be called. Frozen all the way down, so
that a run cannot change what another sees. MCP tools are made by `hubbub.agent.adapt`,
an application's own are written by hand: `Definition("now", "The time", {...})`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from hubbub import bounds
from hubbub.agent.frozen import freeze, thaw
from hubbub.agent.untrusted import clean_schema
from hubbub.errors import DefinitionError
from hubbub.protocol.schema_data import check_bounds
from hubbub.protocol.wire import ToolAnnotations

_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{bounds.TOOL_KEY_CHARACTERS}}}")
NO_PARAMETERS: Final = freeze({"type": "object", "properties": {}})


class Origin(msgspec.Struct, frozen=True):
    """Whose tool it is."""

    server_id: str
    remote_tool_name: str


class Definition(msgspec.Struct, frozen=True):
    """One tool in the shape that OpenAI-compatible endpoints take.

    Raises:
        DefinitionError: the name or the parameters are such that no endpoint takes them.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = NO_PARAMETERS
    exposed_to_model: bool = True
    title: str | None = None
    annotations: ToolAnnotations | None = None
    """Hints of whoever wrote the tool; believe them only of servers you trust."""
    output_schema: Mapping[str, Any] | None = None
    origin: Origin | None = None
    """None for tools of the application itself."""

    def __post_init__(self) -> None:
        name = self.name.strip()
        if not _NAME.fullmatch(name):
            raise DefinitionError(
                f"A model knows tools by 1 to {bounds.TOOL_KEY_CHARACTERS} letters, digits, _ and - only,"
                f" unlike {self.name[:200]!r}"
            )
        if not isinstance(self.parameters, Mapping):
            raise DefinitionError(
                f"The parameters of {name} must be a JSON Schema, not {type(self.parameters).__name__}"
            )
        force_setattr(self, "name", name)
        force_setattr(self, "parameters", _parameters(self.parameters))
        if self.output_schema is not None:
            force_setattr(self, "output_schema", freeze(self.output_schema))

    def openai(self) -> dict[str, Any]:
        """The tool as a chat endpoint takes it; a fresh copy each time."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": thaw(self.parameters)},
        }


def _parameters(given: Mapping[str, Any]) -> Any:
    if given is NO_PARAMETERS:
        return given
    schema = thaw(given)
    check_bounds(schema)
    return freeze(clean_schema(schema, bounds.DESCRIPTION_CHARACTERS))
