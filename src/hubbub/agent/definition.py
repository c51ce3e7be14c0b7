"""The definition of a tool for a model, and the origin of the tool.

The same value decides what is shown and what may be called. It is frozen at every level, so that a run cannot change
what another sees. `hubbub.agent.tool_adapter` makes the definitions of MCP tools; an application writes its own:
`Definition("now", "The time", {...})`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from hubbub import bounds
from hubbub.agent.frozen import freeze, thaw
from hubbub.agent.untrusted_text import clean_schema
from hubbub.errors import DefinitionError
from hubbub.protocol.results import ToolAnnotations
from hubbub.protocol.schema_data import check_schema_size

_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]+")
NO_PARAMETERS: Final = freeze({"type": "object", "properties": {}})


class ToolOrigin(msgspec.Struct, frozen=True):
    """The server that a tool belongs to, and its name there."""

    server_id: str
    remote_tool_name: str


class Definition(msgspec.Struct, frozen=True):
    """One tool in the format of OpenAI-compatible endpoints.

    Raises:
        DefinitionError: no endpoint accepts the name or the parameters.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = NO_PARAMETERS
    exposed_to_model: bool = True
    title: str | None = None
    annotations: ToolAnnotations | None = None
    """Hints of the tool's author; rely on them only for servers that you trust."""
    output_schema: Mapping[str, Any] | None = None
    origin: ToolOrigin | None = None
    """None for tools of the application itself."""

    def __post_init__(self) -> None:
        name = self.name.strip()
        if len(name) > bounds.TOOL_KEY_CHARACTERS or not _NAME_PATTERN.fullmatch(name):
            raise DefinitionError(
                f"Invalid tool name {self.name[:200]!r}: use 1 to {bounds.TOOL_KEY_CHARACTERS} letters, digits, _ and -"
            )
        if not isinstance(self.parameters, Mapping):
            raise DefinitionError(
                f"The parameters of {name} must be a JSON Schema, not {type(self.parameters).__name__}"
            )
        force_setattr(self, "name", name)
        force_setattr(self, "parameters", _clean_parameters(self.parameters))
        if self.output_schema is not None:
            force_setattr(self, "output_schema", freeze(self.output_schema))

    def openai(self) -> dict[str, Any]:
        """The tool in the format of chat endpoints; a new copy each time."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": thaw(self.parameters)},
        }


def _clean_parameters(parameters: Mapping[str, Any]) -> Any:
    if parameters is NO_PARAMETERS:
        return parameters
    schema = thaw(parameters)
    check_schema_size(schema)
    return freeze(clean_schema(schema, bounds.DESCRIPTION_CHARACTERS))
