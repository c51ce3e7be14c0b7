"""Builds the registry of tools that a model sees: an application's own and those of MCP servers.

`ToolsBuilder.build(own, mcp_definitions=snapshot.definitions)` filters, checks the limits of providers, and returns
the `Registry`, which is used both to show tools and to run them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hubbub import bounds
from hubbub.agent.definition import NO_PARAMETERS, Definition
from hubbub.agent.registry import Registry
from hubbub.errors import DefinitionError
from hubbub.server.views import View

_MAX_DUPLICATES_IN_ERROR = 10
_MAX_BIGGEST_IN_ERROR = 5


class ToolsBuilder:
    """Builds registries."""

    @staticmethod
    def build(
        definitions: Iterable[Definition | Mapping[str, Any]] = (),
        *,
        mcp_definitions: Iterable[Definition] = (),
        allow: Sequence[str] | str | None = None,
        deny: Sequence[str] | str = (),
        view: View | None = None,
        max_tools: int = bounds.TOOL_DEFINITIONS,
        max_bytes: int = bounds.TOOL_DEFINITION_BYTES,
    ) -> Registry:
        """Build the registry.

        `allow` and `deny` are shell-style patterns for local names, as a list or comma-separated: unset `allow`
        allows all, an empty one none, and `deny` wins. A `view` filters further. A definition may also be given in
        the OpenAI format.

        Raises:
            DefinitionError: two tools have the same name, or there are more than a model may be shown.
        """
        combined = [_parse_definition(item) for item in (*definitions, *mcp_definitions)]
        _check_duplicates(combined)
        filters = [View(("*",) if allow is None else _parse_patterns(allow), _parse_patterns(deny))]
        if view is not None:
            filters.append(view)
        registry = Registry(item for item in combined if all(tool_filter.shows(item) for tool_filter in filters))
        _check_limits(registry, max_tools, max_bytes)
        return registry


def _parse_definition(value: Any) -> Definition:
    if isinstance(value, Definition):
        return value
    function = value.get("function", value) if isinstance(value, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise DefinitionError('A tool must be a Definition or {"type": "function", "function": {"name": ...}}')
    return Definition(
        function["name"], str(function.get("description") or ""), function.get("parameters") or NO_PARAMETERS
    )


def _parse_patterns(patterns: Sequence[str] | str) -> tuple[str, ...]:
    parts = patterns.split(",") if isinstance(patterns, str) else patterns
    return tuple(part.strip() for part in parts if part.strip())


def _check_duplicates(definitions: Sequence[Definition]) -> None:
    counts = Counter(definition.name for definition in definitions)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        more = (
            f" and {len(duplicates) - _MAX_DUPLICATES_IN_ERROR} more"
            if len(duplicates) > _MAX_DUPLICATES_IN_ERROR
            else ""
        )
        raise DefinitionError(
            f"More than one tool has the name {', '.join(duplicates[:_MAX_DUPLICATES_IN_ERROR])}{more}"
        )


def _check_limits(registry: Registry, max_tools: int, max_bytes: int) -> None:
    sizes = {item.name: len(msgspec.json.encode(item.openai())) for item in registry.exposed}
    if len(sizes) > max_tools:
        raise DefinitionError(
            f"There are {len(sizes)} tools, but at most {max_tools} are allowed (`max_tools`); filter them with"
            f" `allow` or `deny`. {_describe_biggest(sizes)}"
        )
    # The array's own brackets and commas.
    total = sum(sizes.values()) + len(sizes) + 1
    if total > max_bytes:
        raise DefinitionError(
            f"The tool definitions have {total} bytes, but at most {max_bytes} are allowed (`max_bytes`);"
            f" filter them with `allow` or `deny`. {_describe_biggest(sizes)}"
        )


def _describe_biggest(sizes: Mapping[str, int]) -> str:
    biggest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:_MAX_BIGGEST_IN_ERROR]
    return "The biggest: " + ", ".join(f"{name} ({size} bytes)" for name, size in biggest)
