"""The tools of one agent: what its model sees, and therefore what it can call.

Made by `hubbub.agent.tools_builder`. One value answers both questions, so that no tool can
be called that was not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hubbub.agent.definition import Definition


class Registry:
    """Immutable collection of definitions, sorted by name.

    `len`, iteration, `in` and `get` cover only the tools that the model is shown.
    """

    __slots__ = ("_definitions", "_exposed")

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        self._definitions = tuple(sorted(definitions, key=lambda definition: definition.name))
        self._exposed = {item.name: item for item in self._definitions if item.exposed_to_model}

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """All definitions, including those that the model is not shown."""
        return self._definitions

    @property
    def exposed(self) -> tuple[Definition, ...]:
        """The definitions that the model is shown."""
        return tuple(self._exposed.values())

    def openai_tools(self) -> list[dict[str, Any]]:
        """The shown tools in the format of chat endpoints."""
        return [definition.openai() for definition in self._exposed.values()]

    def get(self, name: str) -> Definition | None:
        """The shown tool of this name. Some models write dots where they were given underscores."""
        return self._exposed.get(name) or self._exposed.get(name.replace(".", "_"))

    def __contains__(self, item: object) -> bool:
        """Whether the model is shown this tool, given by name or as a definition."""
        if isinstance(item, Definition):
            return self._exposed.get(item.name) == item
        return isinstance(item, str) and self.get(item) is not None

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._exposed.values())

    def __len__(self) -> int:
        return len(self._exposed)

    def __repr__(self) -> str:
        return f"Catalog({len(self._exposed)} tools)"

    def narrowed(self, names: Iterable[str]) -> Registry:
        """Return a registry of only the shown tools with these names."""
        wanted = frozenset(names)
        return Registry(item for item in self._exposed.values() if item.name in wanted)
