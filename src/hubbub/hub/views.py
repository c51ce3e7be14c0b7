"""What one front shows of the catalog: chosen servers, names by pattern, or only what only reads.

A value for one catalog and one view. Whatever it does not show cannot be found in it, so
that lists, calls, reads, searches and subscriptions obey alike.
"""

from __future__ import annotations

from functools import cached_property

from hubbub.hub.catalog import Addressed, Catalog, Item, Named
from hubbub.server.views import View
from hubbub.settings.hub import ViewSettings


class Shown:
    """A catalog as seen through a view; None is the view that shows everything."""

    def __init__(self, catalog: Catalog, settings: ViewSettings | None = None) -> None:
        self.catalog = catalog
        self._settings = settings
        self._servers = None if settings is None or settings.servers is None else frozenset(settings.servers)
        chosen = ViewSettings() if settings is None else settings
        self._tools = View(chosen.include, chosen.exclude, chosen.read_only)
        self._prompts = View(chosen.include, chosen.exclude)
        self.descriptions = chosen.descriptions

    def has(self, server: str) -> bool:
        """Whether anything of this server may be shown."""
        return self._servers is None or server in self._servers

    def tool(self, name: str) -> Item | None:
        """The tool that a name means, listed or not."""
        item = self.catalog.tools.callable.get(name)
        return item if item is None or self._settings is None or self._shows(item, self._tools) else None

    def prompt(self, name: str) -> Item | None:
        """The prompt that a name means."""
        item = self.catalog.prompts.callable.get(name)
        return item if item is None or self._settings is None or self._shows(item, self._prompts) else None

    def alternatives(self, name: str, kind: Named) -> list[str]:
        """The names that could be meant by one that is not clear."""
        return [other for other in kind.ambiguous.get(name, ()) if self._is_shown(other, kind)]

    @cached_property
    def tools(self) -> dict[str, Item]:
        """Every tool by its name here."""
        return self._named(self.catalog.tools, self._tools)

    @cached_property
    def prompts(self) -> dict[str, Item]:
        """Every prompt by its name here."""
        return self._named(self.catalog.prompts, self._prompts)

    @cached_property
    def resources(self) -> dict[str, Item]:
        """Every listed resource by its URI here."""
        return self._addressed(self.catalog.resources)

    @cached_property
    def templates(self) -> dict[str, Item]:
        """Every template of resources."""
        return self._addressed(self.catalog.templates)

    def _shows(self, item: Item, view: View) -> bool:
        return self.has(item.server) and view.names(item.name, item.qualified) and _may_be_used(item, view)

    def _is_shown(self, name: str, kind: Named) -> bool:
        return (self.tool(name) if kind is self.catalog.tools else self.prompt(name)) is not None

    def _named(self, kind: Named, view: View) -> dict[str, Item]:
        if self._settings is None:
            return kind.listed
        found, servers = view.choose(kind.listed, _qualified), self._servers
        return {
            name: item
            for name, item in found.items()
            if (servers is None or item.server in servers) and _may_be_used(item, view)
        }

    def _addressed(self, kind: Addressed) -> dict[str, Item]:
        if self._servers is None:
            return kind.listed
        return {uri: item for uri, item in kind.listed.items() if item.server in self._servers}


def _qualified(item: Item) -> str:
    return item.qualified


def _may_be_used(item: Item, view: View) -> bool:
    """Whether its own name is not left out, and it only reads if that is all that may be done."""
    # What is left out stays so, also when another server comes with the same name and both get longer ones.
    if item.wanted != item.name and view.leaves_out(item.wanted):
        return False
    return not view.read_only or ((hints := item.annotations) is not None and hints.read_only_hint is True)
