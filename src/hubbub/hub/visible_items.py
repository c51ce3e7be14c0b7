"""What callers of a view see: by their scopes, and by the decisions of the policy."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Protocol

from hubbub.governance.decision import Action, Target
from hubbub.hub.catalog import Item
from hubbub.hub.catalog_view import CatalogView
from hubbub.hub.list_pages import ListPages
from hubbub.hub.search import SearchIndex


class Shows(Protocol):
    """Whether the policy shows a target to some callers."""

    def __call__(self, target: Target, action: Action = "list") -> bool:
        """Return whether `action` would find it."""


def show_all(target: Target, action: Action = "list") -> bool:
    """Show everything, because there is no policy."""
    return True


class VisibleItems:
    """The part of a view that callers see who have the same scopes and for whom the policy decides alike."""

    def __init__(self, catalog_view: CatalogView, pages: ListPages, shows: Shows) -> None:
        self.catalog_view = catalog_view
        self.pages = pages
        self.shows = shows

    @cached_property
    def index(self) -> SearchIndex:
        """Search index of all tools that a search may find."""
        tools = [item for item in self.catalog_view.tools.values() if self.shows(item.target, "search")]
        return SearchIndex(tools, self.catalog_view.descriptions)


class HeldScopes(NamedTuple):
    """The scopes of a caller that any item requires."""

    held: frozenset[str]
    with_step_up: frozenset[str]
    """With those that it can ask for: enough to see a tool."""

    def covers(self, item: Item) -> bool:
        """Whether an item exists for the caller."""
        return item.scopes <= (self.with_step_up if item.kind == "tool" else self.held)
