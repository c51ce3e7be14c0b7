"""Many servers as one: owns the upstreams, the catalog of what they have, and the fronts that show it.

Connects to nothing before somebody asks. A list waits for servers that have not been tried
yet, all at once and within a bound; those that come later are announced as changes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.client.watching import Change
from hubbub.hub.catalog import Catalog, build
from hubbub.hub.config import STATUS_URI, HubConfig, UpstreamConfig
from hubbub.hub.entries import Health, came_through
from hubbub.hub.front import Front
from hubbub.hub.listing import LISTS
from hubbub.hub.making import make_upstream
from hubbub.hub.names import SEPARATOR, Rule, prefix_of
from hubbub.hub.own import is_status_of
from hubbub.hub.reload import ReloadState
from hubbub.hub.snapshot import Snapshot
from hubbub.hub.subscriptions import Subscriptions, Watched
from hubbub.hub.succession import Succession
from hubbub.hub.upstream import Upstream
from hubbub.ports import Peer, Sealer
from hubbub.protocol.model import Caller, Note
from hubbub.security.sealed import Sealer as KeyedSealer
from hubbub.server.audience import PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED
from hubbub.settings.hub import HubSettings

logger = logging.getLogger("hubbub.hub")

Make: TypeAlias = Callable[[UpstreamConfig, HubSettings, Sealer], Upstream]
_NOTES = {"tools": TOOLS_CHANGED, "prompts": PROMPTS_CHANGED, "resources": RESOURCES_CHANGED}


class Hub:
    """Servers behind one endpoint."""

    def __init__(
        self,
        config: HubConfig,
        *,
        make_upstream: Make = make_upstream,
        wrap: Callable[[Upstream], Peer] = lambda upstream: upstream,
        dress: Callable[[Front], None] = lambda front: None,
    ) -> None:
        """`wrap` puts something around each upstream's calls, `dress` adds to what each front has of its own."""
        self.config = config
        self.id = secrets.token_hex(8)
        """By which the hub knows itself, should it be among its own servers."""
        self.sealer = _HubSealer()
        self.upstreams: dict[str, Upstream] = {}
        """In the order of the config."""
        self.peers: dict[str, Peer] = {}
        """The same, inside whatever changes or counts their calls."""
        self.problems: list[str] = []
        """What went wrong with the hub itself, for `hub.status`."""
        self.reloading: ReloadState | None = None
        """How the files were last read again, if they are."""
        self.companions: list[Callable[[], AbstractAsyncContextManager[None]]] = []
        """What is open while the hub runs."""
        self._make = make_upstream
        self._wrap = wrap
        self._dress = dress
        self._wrappers: list[Callable[[Peer], Peer]] = []
        self._catalog: Catalog | None = None
        self._told: set[str] = set()
        self._tried: set[str] = set()
        self._refreshes: dict[Upstream, asyncio.Task[None]] = {}
        self._awaited: set[str] = set()
        self._leaving: dict[Upstream, asyncio.Task[None]] = {}
        """Those that finish their last calls."""
        self._is_running = False
        self._only: Caller | None = None
        for upstream in config.upstreams:
            self._add(self._made(upstream, config.hub))
        self.subscriptions = Subscriptions(self.upstreams, self._watched)
        self.fronts: dict[str, Front] = {}
        """By the name of the view; the one without a name shows everything."""
        self.views: dict[str, Front] = {}
        """The same without that one."""
        self._add_front("")
        for name in config.views:
            self._add_front(name)

    @property
    def main(self) -> Front:
        """The front that shows everything."""
        return self.fronts[""]

    @property
    def catalog(self) -> Catalog:
        """What all upstreams have, as of now."""
        if self._catalog is None:
            snapshots = {id: self._others(up.snapshot) for id, up in self.upstreams.items() if not self._is(up)}
            self._catalog = build(self.config, snapshots)
            self._tell_collisions(self._catalog)
            for front in self.fronts.values():
                front.outdated()
        return self._catalog

    def _is(self, upstream: Upstream) -> bool:
        """Whether an upstream is this very hub, whose lists would grow with every look at them."""
        if not any(is_status_of(entry, self.id) for entry in upstream.snapshot.tools):
            return False
        if upstream.id not in self._told:
            self._told.add(upstream.id)
            self.problems.append(f"{upstream.id}: is this hub itself, and not shown")
            logger.warning("server_left_out", extra={"server": upstream.id, "reason": "it is this hub itself"})
        return True

    def _others(self, snapshot: Snapshot) -> Snapshot:
        """What a server has, but for what it has from this hub, as another hub has that is a client of ours."""
        lists = {name: getattr(snapshot, name) for name in LISTS}
        kept = {name: tuple(one for one in found if not came_through(one, self.id)) for name, found in lists.items()}
        changed = {name: found for name, found in kept.items() if len(found) != len(lists[name])}
        return msgspec.structs.replace(snapshot, **changed) if changed else snapshot

    def health(self, server: str) -> Health:
        """How the upstream of an entry is doing."""
        name = Raw(msgspec.json.encode(server))
        upstream = self.upstreams.get(server)
        if upstream is None:
            return Health(name, self.id)
        state = upstream.state
        return Health(name, self.id, state.is_stale, state.reason if state.is_stale else None)

    # -- connecting ------------------------------------------------------------------

    async def connected(self, most_s: float | None = None) -> None:
        """Wait until every upstream was tried once, all at the same time and within the bound."""
        if len(self._tried) < len(self.upstreams):
            await self._try([id for id in self.upstreams if id not in self._tried], most_s)

    async def connected_for(self, name: str) -> None:
        """Wait for whoever may have something of this name, if it was not tried yet."""
        named = [
            config.id
            for config in self.config.upstreams
            if name.startswith(prefix_of(config.id, Rule(prefix_text=config.prefix_text)) + SEPARATOR)
            or name.startswith(prefix_of(config.id, Rule()) + SEPARATOR)
        ]
        if len(named) == 1 and named[0] not in self._tried:
            await self._try(named)
        else:
            await self.connected()

    async def _try(self, ids: list[str], most_s: float | None = None) -> None:
        seconds = self.config.hub.list_s if most_s is None else min(most_s, self.config.hub.list_s)
        upstreams = [self.upstreams[id] for id in ids]
        for upstream in upstreams:
            if upstream not in self._refreshes:
                self._refreshes[upstream] = asyncio.get_running_loop().create_task(self._refresh(upstream))
        self._awaited.update(ids)
        try:
            await asyncio.wait([self._refreshes[upstream] for upstream in upstreams], timeout=seconds)
        finally:
            self._awaited.difference_update(ids)

    async def _refresh(self, upstream: Upstream) -> None:
        try:
            await upstream.refresh()
        finally:
            del self._refreshes[upstream]
            if self.upstreams.get(upstream.id) is upstream:
                self._tried.add(upstream.id)
                self._catalog = None

    # -- hearing ---------------------------------------------------------------------

    def _heard(self, upstream: Upstream, change: Change) -> None:
        if self.upstreams.get(upstream.id) is not upstream:
            return
        if change.kind == "resource":
            for uri in self.subscriptions.shown_as(Watched(upstream.id, change.uri)):
                for front in self.fronts.values():
                    if front.has(upstream.id):
                        front.resource_updated(uri, scope=change.scope)
            return
        self._catalog = None
        if upstream.id not in self._awaited:  # whoever waits for its lists need not be told to fetch them
            self._publish(change.kind, upstream.id)

    def _scope_ended(self, scope: str) -> None:
        for upstream in self.upstreams.values():
            upstream.end_scope(scope)

    def _state_changed(self, upstream: Upstream) -> None:
        for front in self.fronts.values():
            front.pages.forget()
            if front.has(upstream.id):
                front.resource_updated(STATUS_URI)

    def _publish(self, kind: str, server: str) -> None:
        for front in self.fronts.values():
            if front.has(server):
                front.audience.publish(Note(_NOTES[kind]))

    def _watched(self) -> set[str]:
        return {uri for front in self.fronts.values() for uri in front.audience.watched()}

    def _tell_collisions(self, catalog: Catalog) -> None:
        for collision in catalog.collisions:
            if collision.name not in self._told:
                self._told.add(collision.name)
                servers, listed = ", ".join(collision.servers), ", ".join(filter(None, collision.listed))
                logger.warning("several_have_it", extra={"item": collision.name, "servers": servers, "listed": listed})

    # -- changing --------------------------------------------------------------------

    def wrap_fronts(self, wrapper: Callable[[Peer], Peer]) -> None:
        """Put something around every call of every front, those to come included."""
        self._wrappers.append(wrapper)
        for front in self.fronts.values():
            front.peer = wrapper(front.peer)

    def dedicate(self, caller: Caller) -> None:
        """There is only this one client: what it can be asked is said on the first session with each server."""
        self._only = caller
        for upstream in self.upstreams.values():
            upstream.dedicate(caller)

    def use_sealer(self, sealer: Sealer) -> None:
        """Seal with this from now on."""
        self.sealer.sealer = sealer

    def _add(self, upstream: Upstream) -> None:
        self.upstreams[upstream.id] = upstream
        self.peers[upstream.id] = self._wrap(upstream)
        upstream.on_change = self._heard
        upstream.on_state = self._state_changed

    def _made(self, config: UpstreamConfig, settings: HubSettings) -> Upstream:
        upstream = self._make(config, settings, self.sealer)
        if self._only is not None:
            upstream.dedicate(self._only)
        return upstream

    def _add_front(self, name: str) -> None:
        front = Front(self, name)
        self._dress(front)
        front.on_scope_end(self._scope_ended)
        for wrapper in self._wrappers:
            front.peer = wrapper(front.peer)
        self.fronts[name] = front
        if name:
            self.views[name] = front

    async def apply(self, config: HubConfig) -> None:
        """Become the hub of another config. Whatever is reached as before stays connected.

        What changed or went gets no more calls, and is parted with once those in flight are done.

        Raises:
            HubbubError: something cannot be made; then nothing has changed.
        """
        made = await self._make_what_differs(config)
        gone = self._swap(config, made)
        for view in self._change_views(config):
            await view.close()
        for id in made:
            await self.subscriptions.renew(id)
        for front in self.fronts.values():
            for note in _NOTES.values():
                front.audience.publish(Note(note))
        for upstream in gone:
            self._leaving[upstream] = asyncio.get_running_loop().create_task(self._part(upstream))

    async def _part(self, upstream: Upstream) -> None:
        """Let it finish what it has begun, then forget it."""
        await upstream.close()
        del self._leaving[upstream]
        for id, peer in self.peers.items():
            if isinstance(peer, Succession) and peer.leaving is upstream:
                self.peers[id] = peer.new

    async def _make_what_differs(self, config: HubConfig) -> dict[str, Upstream]:
        """The upstreams that cannot stay as they are, ready to be asked. Those whose predecessors were in use are
        connected before they take over, so that nothing is missing in between."""
        known = {upstream.id: upstream for upstream in self.config.upstreams}
        limits_differ = config.hub.limits_of_servers != self.config.hub.limits_of_servers
        made: dict[str, Upstream] = {}
        try:
            for upstream in config.upstreams:
                old = known.get(upstream.id)
                if old is None or limits_differ or not old.is_reached_like(upstream):
                    made[upstream.id] = self._made(upstream, config.hub)
                    if self._is_running:
                        await made[upstream.id].start()
            used = [upstream for id, upstream in made.items() if id in self._tried and id in self.upstreams]
            await asyncio.gather(*(upstream.refresh() for upstream in used))
        except BaseException:
            for useless in made.values():
                await useless.close(0)
            raise
        return made

    def _swap(self, config: HubConfig, made: Mapping[str, Upstream]) -> list[Upstream]:
        """Let the new ones take their places, all at once; those who lost theirs."""
        before = dict(self.upstreams)
        self.upstreams.clear()  # in place: others look into it
        for upstream in config.upstreams:
            if upstream.id in made:
                old = self.peers.get(upstream.id)
                self._add(made[upstream.id])
                if old is not None:
                    self.peers[upstream.id] = Succession(self.peers[upstream.id], old, before[upstream.id])
                else:
                    self._tried.discard(upstream.id)
            else:
                self.upstreams[upstream.id] = before[upstream.id]
        for id in before.keys() - self.upstreams.keys():
            del self.peers[id]
            self._tried.discard(id)
        self.config, self._catalog = config, None
        return [upstream for id, upstream in before.items() if self.upstreams.get(id) is not upstream]

    def _change_views(self, config: HubConfig) -> list[Front]:
        """Have a front for each view; those whose view is gone."""
        gone = [name for name in self.views if name not in config.views]
        for name in config.views:
            if name not in self.fronts:
                self._add_front(name)
        for front in self.fronts.values():
            front.tools.lists_safe_names = config.lists_safe_names
            front.outdated()
        for name in gone:
            del self.fronts[name]
        return [self.views.pop(name) for name in gone]

    # -- running ---------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Be there for callers; part with every server afterwards."""
        try:
            self._is_running = True
            for upstream in self.upstreams.values():
                await upstream.start()
            async with AsyncExitStack() as stack:
                for companion in self.companions:
                    await stack.enter_async_context(companion())
                yield
        finally:
            self._is_running = False
            for task in list(self._refreshes.values()):
                task.cancel()
            await self.subscriptions.close()
            for front in self.fronts.values():
                await front.close()
            leaving = dict(self._leaving)
            for task in leaving.values():
                task.cancel()
            await asyncio.gather(*leaving.values(), return_exceptions=True)
            ending = (upstream.close(0) for upstream in (*self.upstreams.values(), *leaving))
            await asyncio.gather(*ending, return_exceptions=True)


class _HubSealer:
    """The sealer that was offered last; upstreams keep this one."""

    def __init__(self) -> None:
        self.sealer: Sealer = KeyedSealer()

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        """The record as text that nobody else can read or change."""
        return self.sealer.seal(purpose, record, lifetime_s=lifetime_s)

    def open(self, purpose: str, text: str) -> Any:
        """The record of a text that we sealed for the same purpose."""
        return self.sealer.open(purpose, text)
