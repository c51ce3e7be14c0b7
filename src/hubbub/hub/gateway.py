"""The core of a hub: owns the upstreams, the catalog of what they offer, and the fronts that show it.

Connects to no server before the first request. A list request waits for servers that were not tried
yet, concurrently and up to a time limit; servers that connect later are announced as list changes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.client.subscriptions import ChangeEvent
from hubbub.governance.decision import Target
from hubbub.hub.builtin_tools import is_status_tool
from hubbub.hub.catalog import Catalog, ListedNames, build_catalog
from hubbub.hub.change_notifier import ChangeNotifier
from hubbub.hub.config import HubConfig, UpstreamConfig
from hubbub.hub.forwarding.forwarded_call import accepts_client_requests
from hubbub.hub.forwarding.tenant_sessions import TenantSessions
from hubbub.hub.front import Front
from hubbub.hub.known_names import NO_KNOWN_NAMES, KnownNames, UpstreamNames
from hubbub.hub.list_entries import EntryMeta, passed_through
from hubbub.hub.list_fetcher import LIST_KINDS
from hubbub.hub.names import SEPARATOR, NamingRule, name_prefix
from hubbub.hub.reload import ReloadState
from hubbub.hub.result_offload import ResultOffload
from hubbub.hub.snapshot import Snapshot
from hubbub.hub.subscriptions import Subscriptions
from hubbub.hub.upstream import DrainingPeer, Upstream
from hubbub.hub.upstream_factory import make_upstream
from hubbub.ports import Peer, Sealer
from hubbub.protocol.calls import Caller, Principal
from hubbub.security.sealer import ReplaceableSealer
from hubbub.server.client_sessions import ClientGrants, ClientSessions
from hubbub.server.server import Server
from hubbub.server.shared_run import SharedRun
from hubbub.settings.hub import HubSettings

if TYPE_CHECKING:
    from hubbub.governance.governor import Governor
    from hubbub.hub.pinned_lists import PinnedLists
    from hubbub.hub.recorded_events import RecordedEvents
    from hubbub.hub.upstream_logins.upstream_logins import UpstreamLogins

logger = logging.getLogger("hubbub.hub")

MakeUpstream: TypeAlias = Callable[[UpstreamConfig, HubSettings, Sealer], Upstream]


class Gateway:
    """Servers behind one endpoint; `hubbub.Hub` is the public class."""

    client_grants: ClientGrants | None = None  # of the front door, if this server is an authorization server
    events: RecordedEvents | None = None  # records sessions, lists and secrets; None: nothing is recorded
    # None: no server has `per_user`
    upstream_logins: UpstreamLogins | None = None

    def __init__(
        self,
        config: HubConfig,
        *,
        make: MakeUpstream | None = None,
        known_names: KnownNames | None = None,
    ) -> None:
        """`known_names` stores the names that servers list between runs; None: store nothing."""
        self.config = config
        self.id = secrets.token_hex(8)
        """Identifies this hub in `_meta`, so that it is recognized among its own upstreams."""
        self.sealer = ReplaceableSealer()
        self.upstreams: dict[str, Upstream] = {}
        """By id, in the order of the config."""
        self.peers: dict[str, Peer] = {}
        """The upstreams by id, each wrapped in the peers that change or count its calls."""
        self.problems: list[str] = []
        """Problems of the hub itself, shown by `hub.status`."""
        self.reload_state: ReloadState | None = None
        """The outcome of the last reload of the settings files; None if they are not reloaded."""
        self.governor: Governor | None = None
        """Decides, limits and records what callers do; None: everyone may do everything, and nothing is recorded."""
        self.prepare_governance: Callable[[HubConfig], Callable[[], None]] | None = None
        """Checks changed settings of the governor, and returns a function that applies them."""
        self.pinned: PinnedLists | None = None
        """Withholds or reports definitions that are not approved; None: all are shown."""
        self.lifespans: list[Callable[[], AbstractAsyncContextManager[None]]] = []
        """Context managers that are open while the hub runs."""
        self.tenant_sessions = TenantSessions(config.governance.tenants)
        """Limits of the sessions of tenants, which all upstreams share."""
        self.client_sessions: list[ClientSessions] = []
        """The sessions of clients with this hub, for each HTTP endpoint."""
        self.restricted_views: dict[str, Server] = {}
        """Servers at the same address that only callers with a scope reach: see `hubbub.server.views`."""
        self._make = make or make_upstream
        self._results = ResultOffload(lambda: self.config.hub)
        self._wrappers: list[Callable[[Peer], Peer]] = []
        self.known_names = known_names
        self._catalog: Catalog | None = None
        self._listed_catalog: Catalog | None = None
        self._listed_names = ListedNames()
        self._reported: set[str] = set()
        self._tried_ids: set[str] = set()
        self._refreshes: dict[Upstream, asyncio.Task[None]] = {}
        self._awaited_ids: set[str] = set()
        self._draining: dict[Upstream, asyncio.Task[None]] = {}
        """Replaced upstreams that still finish their calls."""
        self.is_running = self._was_closed = self._expects_capable = False
        self._shared_run = SharedRun(f"hub {config.name!r}", self._open)
        self._sole_caller: Caller | None = None
        self.fronts: dict[str, Front] = {}
        """By the name of the view; the one with an empty name shows everything."""
        self.views: dict[str, Front] = {}
        """The fronts of the named views."""
        for upstream in config.upstreams:
            self._add(self._make_upstream(upstream, config.hub))
        self.subscriptions, self.notifier = Subscriptions(self.upstreams, self._watched_uris), ChangeNotifier(self)
        for name in ("", *config.views):
            self._add_front(name)

    @property
    def main_front(self) -> Front:
        """The front that shows everything."""
        return self.fronts[""]

    @property
    def catalog(self) -> Catalog:
        """What all upstreams offer at present."""
        if self._catalog is None:
            snapshots = {
                id: self._without_own_entries(up.snapshot)
                for id, up in self.upstreams.items()
                if not self._is_this_hub(up)
            }
            reserved: Mapping[str, UpstreamNames] = {}
            if self.events is not None:
                self.events.record_lists(snapshots)
            if self.pinned is not None:
                snapshots = self.pinned.apply(snapshots, {id: up.snapshot for id, up in self.upstreams.items()})
                reserved = self.pinned.reserved_names()
            self._catalog = build_catalog(self.config, snapshots, self._known_names, self._listed_names, reserved)
            self._log_collisions(self._catalog)
            for front in self.fronts.values():
                front.invalidate()
        return self._catalog

    def shown_snapshot(self, upstream: Upstream) -> Snapshot:
        """The lists of an upstream without definitions that are withheld until they are approved."""
        snapshot = upstream.snapshot
        if self.pinned is None:
            return snapshot
        if not self.pinned.is_current(upstream.id, snapshot):
            self._catalog = None
        _ = self.catalog  # reviews the snapshots, if one of them is new
        return self.pinned.shown(upstream.id, snapshot)

    def invalidate_catalog(self) -> None:
        """Build the catalog again at the next use."""
        self._catalog = None

    def remember_names(self, catalog: Catalog) -> None:
        """Record that a catalog was listed to a client: its names keep their meaning from now on."""
        if self._listed_catalog is not catalog:
            self._listed_catalog = catalog
            self._listed_names.add(catalog)

    def _known_names(self, config: UpstreamConfig) -> UpstreamNames:
        return NO_KNOWN_NAMES if self.known_names is None else self.known_names.load(config)

    def _save_names(self) -> None:
        """Save the names of the servers for the next run."""
        if self.known_names is not None:
            for config in self.config.upstreams:
                self.known_names.save(config, self.shown_snapshot(self.upstreams[config.id]))

    def _is_this_hub(self, upstream: Upstream) -> bool:
        """Whether an upstream is this hub itself, whose lists would grow each time they are read."""
        if not any(is_status_tool(entry, self.id) for entry in upstream.snapshot.tools):
            return False
        if upstream.id not in self._reported:
            self._reported.add(upstream.id)
            self.problems.append(f"{upstream.id}: this server is the hub itself, so its tools are not shown")
            logger.warning("server_skipped", extra={"server": upstream.id, "reason": "it is this hub itself"})
        return True

    def _without_own_entries(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot without entries that came through this hub: an upstream hub may be a client of ours."""
        lists = {name: getattr(snapshot, name) for name in LIST_KINDS}
        kept = {name: tuple(one for one in found if not passed_through(one, self.id)) for name, found in lists.items()}
        changed = {name: found for name, found in kept.items() if len(found) != len(lists[name])}
        return msgspec.structs.replace(snapshot, **changed) if changed else snapshot

    def entry_meta(self, server: str) -> EntryMeta:
        """Health of the upstream that an entry belongs to."""
        name = Raw(msgspec.json.encode(server))
        upstream = self.upstreams.get(server)
        if upstream is None:
            return EntryMeta(name, self.id)
        state = upstream.state
        return EntryMeta(name, self.id, state.is_stale, state.reason if state.is_stale else None)

    # -- connecting ------------------------------------------------------------------

    async def wait_connected(self, max_s: float | None = None) -> None:
        """Wait until every upstream was tried once, concurrently and for at most `max_s` and `list_s` seconds."""
        if len(self._tried_ids) < len(self.upstreams):
            await self._connect([id for id in self.upstreams if id not in self._tried_ids], max_s)

    async def wait_connected_for(self, name: str) -> None:
        """Wait for the upstream whose prefix a name has, if it was not tried yet; otherwise for all of them."""
        named = [
            config.id
            for config in self.config.upstreams
            if name.startswith(name_prefix(config.id, NamingRule(prefix_text=config.prefix_text)) + SEPARATOR)
            or name.startswith(name_prefix(config.id, NamingRule()) + SEPARATOR)
        ]
        if len(named) == 1 and named[0] not in self._tried_ids:
            await self._connect(named)
        else:
            await self.wait_connected()

    async def _connect(self, ids: list[str], max_s: float | None = None) -> None:
        seconds = self.config.hub.list_s if max_s is None else min(max_s, self.config.hub.list_s)
        upstreams = [self.upstreams[id] for id in ids]
        for upstream in upstreams:
            if upstream not in self._refreshes:
                self._refreshes[upstream] = asyncio.get_running_loop().create_task(self._refresh(upstream))
        self._awaited_ids.update(ids)
        try:
            await asyncio.wait([self._refreshes[upstream] for upstream in upstreams], timeout=seconds)
        finally:
            self._awaited_ids.difference_update(ids)

    async def _refresh(self, upstream: Upstream) -> None:
        try:
            await upstream.refresh()
        finally:
            del self._refreshes[upstream]
            if self.upstreams.get(upstream.id) is upstream:
                self._tried_ids.add(upstream.id)
                self._catalog = None
                if len(self._tried_ids) == len(self.upstreams):
                    self._save_names()

    # -- changes of upstreams --------------------------------------------------------

    def _on_upstream_change(self, upstream: Upstream, change: ChangeEvent) -> None:
        if self.upstreams.get(upstream.id) is not upstream:
            return
        if change.kind == "resource":
            self.notifier.publish_update(upstream.id, change)
            return
        self._catalog = None
        if self.pinned is not None:
            _ = self.catalog  # so that a changed definition is reported at once
        if upstream.id not in self._awaited_ids:  # a request that waits for its lists will read them anyway
            self.notifier.publish_list(change.kind, upstream.id)

    def _on_scope_end(self, scope: str) -> None:
        for upstream in self.upstreams.values():
            upstream.end_scope(scope)

    def _on_state_change(self, upstream: Upstream) -> None:
        self.notifier.publish_status(upstream.id)

    def _watched_uris(self) -> set[str]:
        return {uri for front in self.fronts.values() for uri in front.broadcaster.watched_uris()}

    def _log_collisions(self, catalog: Catalog) -> None:
        for collision in catalog.collisions:
            if collision.name not in self._reported:
                self._reported.add(collision.name)
                servers, listed = ", ".join(collision.servers), ", ".join(filter(None, collision.listed))
                logger.warning("name_collision", extra={"item": collision.name, "servers": servers, "listed": listed})

    # -- reconfiguring ---------------------------------------------------------------

    def wrap_fronts(self, wrapper: Callable[[Peer], Peer]) -> None:
        """Wrap every front and restricted view in a peer, including fronts that are added later."""
        self._wrappers.append(wrapper)
        for front in (*self.fronts.values(), *self.restricted_views.values()):
            front.peer = wrapper(front.peer)

    def note_capabilities(self, caller: Caller) -> None:
        """List tools for capable clients too, if this caller is one."""
        if self._expects_capable or self._sole_caller is not None or not accepts_client_requests(caller):
            return
        self._expects_capable = True
        for config in self.config.upstreams:
            if self.upstreams[config.id].expect_capable(self._known_names(config).uniform_version):
                self._tried_ids.discard(config.id)  # so that the next list waits for it

    def set_sole_caller(self, caller: Caller) -> None:
        """Declare the capabilities of this caller on each default session, because there is no other client."""
        self._sole_caller = caller
        for upstream in self.upstreams.values():
            upstream.set_sole_caller(caller)

    def use_sealer(self, sealer: Sealer) -> None:
        """Use this sealer from now on."""
        self.sealer.sealer = sealer

    def _add(self, upstream: Upstream) -> None:
        self.upstreams[upstream.id] = upstream
        self.peers[upstream.id] = self._results.wrap(upstream, self._with_logins(upstream))
        upstream.on_change = self._on_upstream_change
        upstream.on_state = self._on_state_change

    def _with_logins(self, upstream: Upstream) -> Peer:
        """The upstream, with the peer around it that asks users to log in."""
        logins = getattr(upstream, "logins", None)
        if logins is None:
            return upstream
        from hubbub.hub.upstream_logins.assembly import add_upstream_logins
        from hubbub.hub.upstream_logins.login_peer import LoginPeer

        self.upstream_logins = self.upstream_logins or add_upstream_logins(self)
        return LoginPeer(upstream, logins, self.upstream_logins, self.sealer)

    def record_event(self, event: str, principal: Principal, facts: Mapping[str, str]) -> None:
        """Record an event that is not about a server."""
        if self.events is not None:
            self.events.record("", event, principal, facts)

    def _make_upstream(self, config: UpstreamConfig, settings: HubSettings) -> Upstream:
        upstream = self._make(config, settings, self.sealer)
        upstream.use_tenants(self.tenant_sessions)
        if self.events is not None:
            self.events.watch(upstream)
        if self._sole_caller is not None:
            upstream.set_sole_caller(self._sole_caller)
        if self._expects_capable:
            upstream.expect_capable(self._known_names(config).uniform_version)
        return upstream

    def _may_read_result(self, caller: Caller, origin: object) -> bool:
        """Whether the policy still shows a caller the tool of a stored result."""
        governor = self.governor
        return governor is None or not isinstance(origin, Target) or governor.shows(caller.principal, origin)

    def _add_front(self, name: str) -> None:
        front = Front(self, name)
        self._results.register(front, self._may_read_result)
        front.on_scope_end(self._on_scope_end)
        for wrapper in self._wrappers:
            front.peer = wrapper(front.peer)
        self.fronts[name] = front
        if self.upstream_logins is not None:
            from hubbub.hub.upstream_logins.assembly import attach_front

            attach_front(self.upstream_logins, front)
        if name:
            self.views[name] = front

    async def apply(self, config: HubConfig) -> None:
        """Apply another config; upstreams that are reached as before stay connected.

        Upstreams that changed or were removed get no new calls, and are closed after their calls in flight.

        Raises:
            HubbubError: an upstream cannot be made, or a setting is invalid; nothing has changed then.
        """
        apply_governance = None if self.prepare_governance is None else self.prepare_governance(config)
        made = await self._make_changed_upstreams(config)
        gone = self._swap(config, made)
        if apply_governance is not None:
            apply_governance()
        for view in self._change_views(config):
            await view.close()
        for id in made:
            await self.subscriptions.resubscribe(id)
        self.notifier.publish_all()
        for upstream in gone:
            self._draining[upstream] = asyncio.get_running_loop().create_task(self._close_replaced(upstream))

    async def _close_replaced(self, upstream: Upstream) -> None:
        """Close a replaced upstream after its calls in flight."""
        await upstream.close()
        del self._draining[upstream]
        for id, peer in self.peers.items():
            if isinstance(peer, DrainingPeer) and peer.draining is upstream:
                self.peers[id] = peer.replacement

    async def _make_changed_upstreams(self, config: HubConfig) -> dict[str, Upstream]:
        """Make the upstreams that are new or changed. Those that replace one in use are connected first, so that
        nothing is missing from the catalog in between."""
        known = {upstream.id: upstream for upstream in self.config.upstreams}
        limits_differ = config.hub.server_limits != self.config.hub.server_limits
        made: dict[str, Upstream] = {}
        try:
            for upstream in config.upstreams:
                old = known.get(upstream.id)
                if old is None or limits_differ or not old.is_reached_like(upstream):
                    made[upstream.id] = self._make_upstream(upstream, config.hub)
                    if self.is_running:
                        await made[upstream.id].start()
            used = [upstream for id, upstream in made.items() if id in self._tried_ids and id in self.upstreams]
            await asyncio.gather(*(upstream.refresh() for upstream in used))
        except BaseException:
            for unused in made.values():
                await unused.close(0)
            raise
        return made

    def _swap(self, config: HubConfig, made: Mapping[str, Upstream]) -> list[Upstream]:
        """Install the new upstreams in one step; return those that were replaced or removed."""
        before = dict(self.upstreams)
        self.upstreams.clear()  # in place: other objects share this dict
        for upstream in config.upstreams:
            if upstream.id in made:
                old = self.peers.get(upstream.id)
                self._add(made[upstream.id])
                if old is not None:
                    self.peers[upstream.id] = DrainingPeer(self.peers[upstream.id], old, before[upstream.id])
                else:
                    self._tried_ids.discard(upstream.id)
            else:
                self.upstreams[upstream.id] = before[upstream.id]
        for id in before.keys() - self.upstreams.keys():
            del self.peers[id]
            self._tried_ids.discard(id)
        self.config, self._catalog = config, None
        self.tenant_sessions.configure(config.governance.tenants)
        return [upstream for id, upstream in before.items() if self.upstreams.get(id) is not upstream]

    def _change_views(self, config: HubConfig) -> list[Front]:
        """Add fronts for new views; return the fronts of removed views."""
        gone = [name for name in self.views if name not in config.views]
        for name in config.views:
            if name not in self.fronts:
                self._add_front(name)
        for front in self.fronts.values():
            front.tools.lists_safe_names = config.lists_safe_names
            front.invalidate()
        for name in gone:
            del self.fronts[name]
        return [self.views.pop(name) for name in gone]

    # -- running ---------------------------------------------------------------------

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run the hub while the block runs: the first user opens it, the last one closes it."""
        return self._shared_run.use()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        if self._was_closed:
            self._recreate_upstreams()
        try:
            self.is_running = True
            for upstream in self.upstreams.values():
                await upstream.start()
            async with AsyncExitStack() as stack:
                for lifespan in self.lifespans:
                    await stack.enter_async_context(lifespan())
                yield
        finally:
            self.is_running = False
            self._save_names()
            for task in list(self._refreshes.values()):
                task.cancel()
            await self.subscriptions.close()
            for front in self.fronts.values():
                await front.close()
            leaving = dict(self._draining)
            for task in leaving.values():
                task.cancel()
            await asyncio.gather(*leaving.values(), return_exceptions=True)
            self._results.close()
            ending = (upstream.close(0) for upstream in (*self.upstreams.values(), *leaving))
            await asyncio.gather(*ending, return_exceptions=True)
            if self.upstream_logins is not None:
                await self.upstream_logins.close()
            self._was_closed = True

    def _recreate_upstreams(self) -> None:
        """Make the upstreams again, because closed ones cannot be started again, and reset what was tried."""
        for config in self.config.upstreams:
            self._add(self._make_upstream(config, self.config.hub))
        self._tried_ids.clear()
        self._catalog = None
        self._results.spill.reopen()
        for front in self.fronts.values():
            front.reopen()
