"""Builds the catalog of tools that a model sees: an application's own and those of MCP servers.

`ToolsBuilder.build(own, mcp_definitions=snapshot.definitions)` filters, checks the limits of providers, and returns
the `Catalog`, which is used both to show tools and to run them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hubbub import bounds
from hubbub.agent.catalog import Catalog
from hubbub.agent.definition import NO_PARAMETERS, Definition
from hubbub.errors import DefinitionError
from hubbub.server.views import View

_NAMED_DUPLICATES = 10
_NAMED_BIGGEST = 5


class ToolsBuilder:
    """Builds catalogs."""

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
    ) -> Catalog:
        """Build the catalog.

        `allow` and `deny` are shell-style patterns for local names, as a list or comma-separated: unset `allow`
        allows all, an empty one none, and `deny` wins. A `view` filters further. A definition may also be given in
        the OpenAI format.

        Raises:
            DefinitionError: two tools have the same name, or there are more than a model may be shown.
        """
        every = [_definition(item) for item in (*definitions, *mcp_definitions)]
        _check_duplicates(every)
        filters = [View(("*",) if allow is None else _patterns(allow), _patterns(deny))]
        if view is not None:
            filters.append(view)
        catalog = Catalog(item for item in every if all(one.shows(item) for one in filters))
        _check_limits(catalog, max_tools, max_bytes)
        return catalog


def _definition(given: Any) -> Definition:
    if isinstance(given, Definition):
        return given
    function = given.get("function", given) if isinstance(given, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise DefinitionError('A tool is a Definition or {"type": "function", "function": {"name": ...}}')
    return Definition(
        function["name"], str(function.get("description") or ""), function.get("parameters") or NO_PARAMETERS
    )


def _patterns(given: Sequence[str] | str) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip())


def _check_duplicates(definitions: Sequence[Definition]) -> None:
    counts = Counter(definition.name for definition in definitions)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        more = f" and {len(twice) - _NAMED_DUPLICATES} more" if len(twice) > _NAMED_DUPLICATES else ""
        raise DefinitionError(f"More than one tool is called {', '.join(twice[:_NAMED_DUPLICATES])}{more}")


def _check_limits(catalog: Catalog, max_tools: int, max_bytes: int) -> None:
    sizes = {item.name: len(msgspec.json.encode(item.openai())) for item in catalog.exposed}
    if len(sizes) > max_tools:
        raise DefinitionError(
            f"{len(sizes)} tools are more than the {max_tools} that a model may be shown; narrow them with `allow` or"
            f" `deny`. {_biggest(sizes)}"
        )
    # The array's own brackets and commas.
    total = sum(sizes.values()) + len(sizes) + 1
    if total > max_bytes:
        raise DefinitionError(
            f"The definitions take {total} bytes, more than the {max_bytes} that a model may be shown; narrow them with"
            f" `allow` or `deny`. {_biggest(sizes)}"
        )


def _biggest(sizes: Mapping[str, int]) -> str:
    biggest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:_NAMED_BIGGEST]
    return "The biggest: " + ", ".join(f"{name} ({size} bytes)" for name, size in biggest)
