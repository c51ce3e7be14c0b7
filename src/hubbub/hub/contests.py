"""Names and URIs that several servers have, for callers who see only one of them.

Names are assigned once for all callers, so two tools of the same name both have prefixes. To a caller who may see only
one of them, the others must not show: this caller lists and calls it by the name that it would have without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec.structs import replace

from hubbub.governance.decision import Target
from hubbub.protocol.results import ToolAnnotations

if TYPE_CHECKING:
    from hubbub.hub.catalog import Item

_HARMLESS: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


class Contest(NamedTuple):
    """What has the same name or URI."""

    items: tuple[Item, ...]
    absent: tuple[Target, ...] = ()
    """What else has it: of servers that were not reached yet, withheld until it is approved, or (without a name) a
    server whose prefix the name has."""

    def select(self, sees: Callable[[Item], bool], may_exist: Callable[[Target], bool]) -> Contest:
        """The part that a caller sees."""
        return Contest(tuple(filter(sees, self.items)), tuple(filter(may_exist, self.absent)))

    @property
    def sole(self) -> Item | None:
        """The item that has the name for itself; None if there are others, or none."""
        return self.items[0] if len(self.items) == 1 and not self.absent else None


class Contested(Protocol):
    """A part of a catalog."""

    @property
    def listed(self) -> Mapping[str, Item]: ...
    @property
    def callable(self) -> Mapping[str, Item]: ...
    @property
    def contests(self) -> Mapping[str, Contest]: ...


def may_be_shown(shows: Callable[[Target], bool], target: Target) -> bool:
    """Whether a policy may show what is not listed now: the hints of a tool are not known then."""
    if target.kind != "tool":
        return shows(target)
    return shows(target) or shows(replace(target, annotations=_HARMLESS))


def find_sole_items(part: Contested) -> dict[str, Item]:
    """The items that have a contested name for themselves in this part of a catalog, by that name."""
    found = {name: contest.sole for name, contest in part.contests.items()}
    return {name: item for name, item in found.items() if item is not None and part.callable.get(name) in (None, item)}


def use_sole_names(
    shown: dict[str, Item],
    sole: Mapping[str, Item],
    shows: Callable[[Item], bool],
    descriptions: Mapping[str, str],
) -> dict[str, Item]:
    """List items under the names that they have for themselves; `shows`: whether a view shows an item.

    An item may have no other name than that: of two whose settings rule out prefixes, one is not listed.
    """
    if not sole:
        return shown
    names = {item: name for name, item in sole.items()}
    listed = {names.get(item, name): item for name, item in shown.items()}
    listed |= {name: item for name, item in sole.items() if name not in listed and shows(item)}
    return {
        name: item if name == item.name else item.rename(name, descriptions.get(item.name, item.description))
        for name, item in listed.items()
    }
