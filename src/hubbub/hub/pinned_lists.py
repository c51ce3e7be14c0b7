"""Applies pins to the lists of a hub: definitions that are not approved are left out of the snapshots.

What a snapshot does not contain is in no list, search or error message, and cannot be called, read or completed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from hubbub.errors import DefinitionError
from hubbub.governance.definitions import Kind, Listing
from hubbub.governance.pins import NOTHING_WITHHELD, PinGate, Pins, WithheldNames
from hubbub.hub.config import STATUS_URI
from hubbub.hub.file_watch import FileWatch
from hubbub.hub.known_names import UpstreamNames
from hubbub.hub.snapshot import Entry, Snapshot
from hubbub.protocol.calls import Caller
from hubbub.protocol.uri_template import UriTemplate

if TYPE_CHECKING:
    from hubbub.hub.gateway import Gateway

_LISTS: Final[dict[Kind, str]] = {"tool": "tools", "prompt": "prompts", "template": "templates"}
_CHANGE_KINDS: Final[dict[Kind, str]] = {"tool": "tools", "prompt": "prompts", "template": "resources"}


class PinnedLists:
    """The snapshots of all upstreams without what is withheld."""

    def __init__(self, pins: PinGate) -> None:
        self.pins = pins
        self._given: dict[str, Snapshot] = {}
        self._sources: dict[str, Snapshot] = {}
        self._shown: dict[str, Snapshot] = {}
        self._withheld: Mapping[str, WithheldNames] = {}
        self._templates: dict[str, tuple[tuple[str, UriTemplate | None], ...]] = {}
        """The withheld resource templates, by server."""

    def apply(self, snapshots: dict[str, Snapshot], sources: dict[str, Snapshot]) -> dict[str, Snapshot]:
        """Review these snapshots, and return them without the definitions that are withheld.

        `sources` are the snapshots of the upstreams that they were made from.
        """
        self._given, self._sources = snapshots, sources
        self._withheld = self.pins.review({id: _make_listing(snapshot) for id, snapshot in snapshots.items()})
        self._shown = {id: _without(snapshot, self._withheld.get(id)) for id, snapshot in snapshots.items()}
        self._templates = {
            id: tuple((name, _parse_template(name)) for name in withheld.of_kind("template"))
            for id, withheld in self._withheld.items()
        }
        return self._shown

    def is_current(self, id: str, snapshot: Snapshot) -> bool:
        """Whether this is the snapshot of an upstream that was reviewed last."""
        return self._sources.get(id) is snapshot

    def shown(self, id: str, snapshot: Snapshot) -> Snapshot:
        """The last reviewed snapshot of an upstream without what is withheld; of an unknown one, nothing."""
        return self._shown.get(id) or Snapshot(revision=snapshot.revision, capabilities=snapshot.capabilities)

    def reserved_names(self) -> dict[str, UpstreamNames]:
        """Names of definitions that were approved before they changed: no other server may take them meanwhile."""
        return {
            id: UpstreamNames(
                tuple(sorted(withheld.formerly_approved.get("tool", ()))),
                tuple(sorted(withheld.formerly_approved.get("prompt", ()))),
            )
            for id, withheld in self._withheld.items()
        }

    def withholds_uri(self, server: str, uri: str) -> bool:
        """Whether a URI belongs to a withheld resource template of a server."""
        return any(
            uri == name or (template is not None and template.match(uri) is not None)
            for name, template in self._templates.get(server, ())
        )

    def changes_since(self, before: Mapping[str, WithheldNames]) -> Iterator[tuple[str, str]]:
        """The kinds of lists that differ from an earlier review, with their server."""
        for id in {**before, **self._withheld}:
            old, new = before.get(id, NOTHING_WITHHELD), self._withheld.get(id, NOTHING_WITHHELD)
            for kind, change in _CHANGE_KINDS.items():
                if old.of_kind(kind) != new.of_kind(kind):
                    yield change, id

    @property
    def withheld(self) -> Mapping[str, WithheldNames]:
        """The outcome of the last review, by server."""
        return self._withheld

    def problems(self, id: str, caller: Caller) -> list[str]:
        """Problems of one upstream, for `hub.status`."""
        snapshot = self._given.get(id)
        if snapshot is None:
            return []
        visible = {
            (kind, entry.name)
            for kind, name in _LISTS.items()
            for entry in getattr(snapshot, name)
            if caller.holds(entry.scopes)
        }
        return self.pins.problems(id, lambda kind, name: (kind, name) in visible)


def _make_listing(snapshot: Snapshot) -> Listing | None:
    if snapshot.revision is None:
        return None
    return Listing(
        tools={entry.name: entry.members for entry in snapshot.tools},
        prompts={entry.name: entry.members for entry in snapshot.prompts},
        templates={entry.name: entry.members for entry in snapshot.templates},
        instructions=snapshot.instructions,
    )


def _without(snapshot: Snapshot, withheld: WithheldNames | None) -> Snapshot:
    if withheld is None:
        return snapshot
    kept: dict[str, tuple[Entry, ...]] = {
        name: tuple(entry for entry in getattr(snapshot, name) if entry.name not in withheld.of_kind(kind))
        for kind, name in _LISTS.items()
    }
    instructions = None if withheld.of_kind("instructions") else snapshot.instructions
    return replace(snapshot, **kept, instructions=instructions)


def _parse_template(text: str) -> UriTemplate | None:
    try:
        return UriTemplate(text)
    except DefinitionError:
        return None


def use_pins(hub: Gateway, pins: Pins) -> None:
    """Apply pins to a hub that does not run yet; while it runs, its lock file is watched if `reload` is set."""
    pinned = hub.pinned = PinnedLists(pins)
    pins.on_change = lambda: _apply_lock(hub, pinned)
    pins.refresh = lambda: _connect_and_review(hub)
    hub.invalidate_catalog()
    hub.lifespans.append(lambda: _watch_lock_file(hub, pins))


async def _connect_and_review(hub: Gateway) -> None:
    await hub.wait_connected()
    _ = hub.catalog


def _apply_lock(hub: Gateway, pinned: PinnedLists) -> None:
    """Apply another lock: notify clients of lists that change. Calls in flight go on."""
    before = pinned.withheld
    hub.invalidate_catalog()
    _ = hub.catalog
    for kind, server in pinned.changes_since(before):
        hub.notifier.publish_list(kind, server)
    for front in hub.fronts.values():
        front.resource_updated(STATUS_URI)


@asynccontextmanager
async def _watch_lock_file(hub: Gateway, pins: Pins) -> AsyncIterator[None]:
    if not hub.config.hub.reload:
        yield
        return
    task = asyncio.create_task(_reload_on_change(pins))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _reload_on_change(pins: Pins) -> None:
    async for _ in FileWatch((pins.path,)).changes():
        await pins.reload()
