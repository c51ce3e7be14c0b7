"""The part of a catalog that one view shows."""

from __future__ import annotations

from functools import cached_property

from hubbub.hub.catalog import Catalog, Item, NamedItems, UriItems
from hubbub.hub.shared_names import find_owners, use_owned_names
from hubbub.server.views import View
from hubbub.settings.hub import ViewSettings


class CatalogView:
    """The part of a catalog that one front shows: chosen servers, names that match patterns, or read-only tools.

    A value for one catalog and one view; without settings it shows everything. Lists, calls, reads, searches and
    subscriptions all look up items here, so that the view restricts them alike.
    """

    def __init__(self, catalog: Catalog, settings: ViewSettings | None = None) -> None:
        self.catalog = catalog
        self._settings = settings
        self._servers = None if settings is None or settings.servers is None else frozenset(settings.servers)
        view_settings = ViewSettings() if settings is None else settings
        self._tool_view = View(view_settings.include, view_settings.exclude, view_settings.read_only)
        self._prompt_view = View(view_settings.include, view_settings.exclude)
        self.descriptions = view_settings.descriptions

    def has_server(self, server: str) -> bool:
        """Whether anything of this server may be shown."""
        return self._servers is None or server in self._servers

    @cached_property
    def offering_servers(self) -> frozenset[str]:
        """The servers that have at least one item here."""
        kinds = (self.tools, self.prompts, self.resources, self.templates)
        return frozenset(item.server for items in kinds for item in items.values())

    def find_tool(self, name: str) -> Item | None:
        """The tool that a name means, listed or not."""
        item = self._tool_owners.get(name) or self.catalog.tools.callable.get(name)
        return item if item is None or self._settings is None or self._shows(item, self._tool_view) else None

    def find_prompt(self, name: str) -> Item | None:
        """The prompt that a name means."""
        item = self._prompt_owners.get(name) or self.catalog.prompts.callable.get(name)
        return item if item is None or self._settings is None or self._shows(item, self._prompt_view) else None

    def shows_tool(self, item: Item) -> bool:
        """Whether the view shows a tool."""
        return self._settings is None or self._shows(item, self._tool_view)

    def shows_prompt(self, item: Item) -> bool:
        """Whether the view shows a prompt."""
        return self._settings is None or self._shows(item, self._prompt_view)

    def shows_resource(self, item: Item) -> bool:
        """Whether the view shows a resource or template."""
        return self.has_server(item.server)

    def alternatives(self, name: str, kind: NamedItems) -> list[str]:
        """The shown names that an ambiguous name may stand for."""
        return [other for other in kind.ambiguous.get(name, ()) if self._is_shown(other, kind)]

    @cached_property
    def tools(self) -> dict[str, Item]:
        """Every tool by its name here."""
        found = self._select_names(self.catalog.tools, self._tool_view)
        return use_owned_names(found, self._tool_owners, self.shows_tool, self.descriptions)

    @cached_property
    def prompts(self) -> dict[str, Item]:
        """Every prompt by its name here."""
        found = self._select_names(self.catalog.prompts, self._prompt_view)
        return use_owned_names(found, self._prompt_owners, self.shows_prompt, {})

    @cached_property
    def resources(self) -> dict[str, Item]:
        """Every listed resource by its URI here."""
        return self._select_uris(self.catalog.resources)

    @cached_property
    def templates(self) -> dict[str, Item]:
        """Every resource template by its URI template here."""
        return self._select_uris(self.catalog.templates)

    @cached_property
    def _tool_owners(self) -> dict[str, Item]:
        return find_owners(self.catalog.tools)

    @cached_property
    def _prompt_owners(self) -> dict[str, Item]:
        return find_owners(self.catalog.prompts)

    def _shows(self, item: Item, view: View) -> bool:
        return self.has_server(item.server) and view.names(item.name, item.qualified_name) and _is_allowed(item, view)

    def _is_shown(self, name: str, kind: NamedItems) -> bool:
        return (self.find_tool(name) if kind is self.catalog.tools else self.find_prompt(name)) is not None

    def _select_names(self, kind: NamedItems, view: View) -> dict[str, Item]:
        if self._settings is None:
            return kind.listed
        found, servers = view.choose(kind.listed, _qualified_name), self._servers
        return {
            name: item
            for name, item in found.items()
            if (servers is None or item.server in servers) and _is_allowed(item, view)
        }

    def _select_uris(self, kind: UriItems) -> dict[str, Item]:
        found = kind.listed
        if self._servers is not None:
            found = {uri: item for uri, item in found.items() if item.server in self._servers}
        return use_owned_names(found, find_owners(kind), self.shows_resource, {})


def _qualified_name(item: Item) -> str:
    return item.qualified_name


def _is_allowed(item: Item, view: View) -> bool:
    """Whether the view does not exclude the item's unprefixed name and, if it is read-only, the tool is too."""
    # An excluded name stays excluded when a collision with another server gives it a prefix.
    if item.preferred_name != item.name and view.leaves_out(item.preferred_name):
        return False
    return not view.read_only or ((hints := item.annotations) is not None and hints.read_only_hint is True)
