"""Adapts tools of MCP servers for models, under local names: `mcp_<server_id>__<tool>`.

A local name has only letters, digits, `_` and `-`, and a maximum length; a shortened name ends with a digest, so that
it stays unique. Two names that still collide are reported, never silently merged. A server's descriptions are
untrusted text: cleaned, bounded and labelled with the id of the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.agent.definition import NO_PARAMETERS, Definition, ToolOrigin
from hubbub.agent.untrusted_text import clean_text
from hubbub.errors import DefinitionError, SettingsError
from hubbub.protocol.results import ToolEntry
from hubbub.protocol.schema_data import check_schema_size
from hubbub.protocol.tool_names import tool_key


class AdaptedTools(msgspec.Struct, frozen=True):
    """The tools of some servers, adapted."""

    definitions: tuple[Definition, ...]
    """Sorted by name."""
    mapping: Mapping[str, ToolOrigin]
    """Maps local names to the origins of the tools."""
    skipped: Mapping[str, tuple[str, ...]]
    """By server: why some of its tools were left out."""


def check_name_limit(limit: int) -> int:
    """Return the limit for local names, if it is in the allowed range.

    Raises: SettingsError.
    """
    low, high = bounds.MODEL_NAME_CHARACTERS, bounds.TOOL_KEY_CHARACTERS
    if type(limit) is not int or not low <= limit <= high:
        raise SettingsError(f"`name_limit` must be an integer from {low} to {high}, not {limit!r}")
    return limit


def adapt_tool(server_id: str, entry: ToolEntry, limit: int) -> Definition:
    """Convert one tool of a server to a definition.

    Raises:
        DefinitionError: its name or its schema cannot be used.
    """
    if not entry.name.strip():
        raise DefinitionError("the name is empty")
    if len(entry.name) > bounds.REMOTE_NAME_CHARACTERS:
        raise DefinitionError(
            f"the name has {len(entry.name)} characters; at most {bounds.REMOTE_NAME_CHARACTERS} are allowed"
        )
    annotations = None if entry.annotations is UNSET else entry.annotations
    title = entry.title if entry.title is not UNSET else (annotations.title if annotations else UNSET)
    return Definition(
        name=tool_key(server_id, entry.name, limit),
        description=_label_description(server_id, entry),
        parameters=_schema(entry.input_schema) or NO_PARAMETERS,
        title=None if title is UNSET else clean_text(title, bounds.TITLE_CHARACTERS),
        annotations=annotations,
        output_schema=_usable_output_schema(_schema(entry.output_schema)),
        origin=ToolOrigin(server_id, entry.name),
    )


def adapt_tools(tools: Mapping[str, Iterable[ToolEntry]], limit: int) -> AdaptedTools:
    """Convert the tools of many servers; a tool that its server lists twice counts once.

    Raises:
        DefinitionError: tools of two servers would have the same local name. Within one server, the first keeps it.
        SettingsError: the limit is out of range.
    """
    check_name_limit(limit)
    found: dict[str, Definition] = {}
    skipped: dict[str, tuple[str, ...]] = {}
    for server_id, entries in tools.items():
        problems = []
        for entry in entries:
            try:
                definition = adapt_tool(server_id, entry, limit)
            except DefinitionError as error:
                problems.append(f"{clean_text(entry.name, bounds.TITLE_CHARACTERS)!r}: {error.message}")
                continue
            first = found.setdefault(definition.name, definition)
            if first.origin != definition.origin:
                problems.append(_describe_collision(first, definition))
        if problems:
            skipped[server_id] = tuple(problems)
    definitions = tuple(found[name] for name in sorted(found))
    mapping = {item.name: item.origin for item in definitions if item.origin is not None}
    return AdaptedTools(definitions, MappingProxyType(mapping), MappingProxyType(skipped))


def _describe_collision(first: Definition, second: Definition) -> str:
    """Describe why the second tool is skipped: a collision within one server must not affect other servers.

    Raises:
        DefinitionError: the tools are of two servers, so only the user can resolve the collision.
    """
    assert first.origin is not None
    assert second.origin is not None
    if first.origin.server_id == second.origin.server_id:
        one, other = (
            clean_text(each.remote_tool_name, bounds.TITLE_CHARACTERS) for each in (first.origin, second.origin)
        )
        return f"{other!r}: its local name {first.name!r} is already used by {one!r}"
    raise DefinitionError(
        f"Two tools would have the local name {first.name!r}: {_describe_origin(first.origin)} and "
        f"{_describe_origin(second.origin)};"
        " give one of the servers another id, or raise `name_limit`"
    )


def _describe_origin(origin: ToolOrigin) -> str:
    return f"{clean_text(origin.remote_tool_name, bounds.TITLE_CHARACTERS)!r} of {origin.server_id!r}"


def _label_description(server_id: str, entry: ToolEntry) -> str:
    text = "" if entry.description is UNSET else entry.description
    return f"{clean_text(text, bounds.DESCRIPTION_CHARACTERS)} (MCP: {server_id})".strip()


def _schema(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _usable_output_schema(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return an output schema, or None if it is out of bounds, so that results are not validated."""
    try:
        check_schema_size(schema)
    except DefinitionError:
        return None
    return schema
