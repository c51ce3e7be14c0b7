"""The tools of one agent: what its model sees, and therefore what it can call.

Made by `hubbub.agent.tools_builder`. One value answers both questions, so that no tool can
be called that was not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hubbub.agent.definition import Definition


class Catalog:
    """Definitions by name, sorted; cannot be changed."""

    __slots__ = ("_definitions", "_exposed")

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        self._definitions = tuple(sorted(definitions, key=lambda definition: definition.name))
        self._exposed = {item.name: item for item in self._definitions if item.exposed_to_model}

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """All of them, with those that the model is not shown."""
        return self._definitions

    @property
    def exposed(self) -> tuple[Definition, ...]:
        """Those that the model is shown."""
        return tuple(self._exposed.values())

    def openai_tools(self) -> list[dict[str, Any]]:
        """What the model is shown, as a chat endpoint takes it."""
        return [definition.openai() for definition in self._exposed.values()]

    def get(self, name: str) -> Definition | None:
        """The shown tool of this name. Some models write dots where they were given underscores."""
        return self._exposed.get(name) or self._exposed.get(name.replace(".", "_"))

    def __contains__(self, name: object) -> bool:
        return name in self._exposed

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._exposed)

    def __repr__(self) -> str:
        return f"Catalog({len(self._exposed)} tools)"

    def narrowed(self, names: Iterable[str]) -> Catalog:
        """Only the shown tools among these names."""
        wanted = frozenset(names)
        return Catalog(item for item in self._exposed.values() if item.name in wanted)
