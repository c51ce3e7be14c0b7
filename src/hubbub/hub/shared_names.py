"""Names and URIs that several servers have, for callers who do not see all of these servers.

Names are assigned once for all callers, so two tools of the same name both have prefixes. To a caller who may see only
one of them, the other must not show: this caller lists and calls it by the name that it would have without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec.structs import replace

from hubbub.governance.decision import Target
from hubbub.protocol.results import ToolAnnotations

if TYPE_CHECKING:
    from hubbub.hub.catalog import Item

_READ_ONLY_HINTS: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


class SharedName(NamedTuple):
    """What has the same name or URI."""

    items: tuple[Item, ...]
    keepers: tuple[Item, ...] = ()
    """Those that cannot get a prefix: the first of them has the name."""
    absent: tuple[Target, ...] = ()
    """What else has it: of servers that were not reached yet, withheld until it is approved, with this name as its
    prefixed one, or (without a name) a server whose prefix the name has."""

    def select(self, sees: Callable[[Item], bool], may_exist: Callable[[Target], bool]) -> SharedName:
        """The part that a caller sees."""
        items, keepers = tuple(filter(sees, self.items)), tuple(filter(sees, self.keepers))
        return SharedName(items, keepers, tuple(filter(may_exist, self.absent)))

    @property
    def owner(self) -> Item | None:
        """The item that has the name; None if all get prefixes."""
        if len(self.items) != 1 and not self.keepers:
            return None
        owner = self.keepers[0] if self.keepers else self.items[0]
        return None if any(target.name or target.server != owner.server for target in self.absent) else owner


class CatalogPart(Protocol):
    """A part of a catalog."""

    @property
    def shared_names(self) -> Mapping[str, SharedName]: ...


def may_show_unlisted(shows: Callable[[Target], bool], target: Target) -> bool:
    """Whether a policy may show what is not listed now: the hints of a tool are not known then."""
    if target.kind != "tool":
        return shows(target)
    return shows(target) or shows(replace(target, annotations=_READ_ONLY_HINTS))


def find_owners(part: CatalogPart) -> dict[str, Item]:
    """The items that have a shared name in this part of a catalog, by that name."""
    return {name: owner for name, shared in part.shared_names.items() if (owner := shared.owner) is not None}


def use_owned_names(
    shown: dict[str, Item],
    owners: Mapping[str, Item],
    shows: Callable[[Item], bool],
    descriptions: Mapping[str, str],
) -> dict[str, Item]:
    """List the owners of shared names under these; `shows`: whether a view shows an item.

    An item may have no other name than that: of two whose settings rule out prefixes, one is not listed.
    """
    if not owners:
        return shown
    names = {item: name for name, item in owners.items()}
    listed = {names.get(item, name): item for name, item in shown.items()}
    listed |= {name: item for name, item in owners.items() if name not in listed and shows(item)}
    return {
        name: item if name == item.name else item.rename(name, descriptions.get(item.name, item.description))
        for name, item in listed.items()
    }
