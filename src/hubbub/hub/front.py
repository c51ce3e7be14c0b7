"""One view of a hub as a `Server`, so that it is served like any other.

Its methods look up items in the view and forward calls to their upstreams. The hub's own tools and resources are
registered here as on any server.
"""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from hubbub import bounds
from hubbub.errors import PromptNotFound, ToolNotFound
from hubbub.governance.decision import Target, TargetKind
from hubbub.hub.builtin_tools import builtin_items, builtin_target, register_builtins
from hubbub.hub.catalog import Catalog, Item
from hubbub.hub.catalog_view import CatalogView
from hubbub.hub.config import CALL, CONNECT, SEARCH
from hubbub.hub.list_entries import ListKind
from hubbub.hub.list_pages import ListPages
from hubbub.hub.local import LocalUpstream
from hubbub.hub.methods import METHODS, call_by_name
from hubbub.hub.resource_lookup import find_location, may_watch
from hubbub.hub.shared_names import CatalogPart, may_show_unlisted
from hubbub.hub.status import upstream_metrics
from hubbub.hub.subscriptions import ResourceLocation
from hubbub.hub.visible_items import HeldScopes, Shows, VisibleItems, show_all
from hubbub.ports import ConnectionFactory, Peer, Sealer
from hubbub.protocol.calls import Call, Caller, Principal, Reply
from hubbub.server.client_sessions import ClientGrants, ClientSessions
from hubbub.server.connection import Connection
from hubbub.server.methods import add_cache_hint
from hubbub.server.public_routes import IdentifiesPeople
from hubbub.server.server import Server
from hubbub.server.views import View
from hubbub.settings.governance import PolicySettings
from hubbub.settings.hub import ViewSettings

if TYPE_CHECKING:
    from hubbub.hub.gateway import Gateway

_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}
_SEARCH_TOOLS = (SEARCH, CALL)
_REMOVED_VIEW = ViewSettings(servers=())
"""Settings of a removed view: it shows nothing to clients that are still connected."""


class Front(Server, IdentifiesPeople):
    """The server that clients of one view of a hub see."""

    _all_methods = METHODS
    _call_by_name = call_by_name

    def __init__(self, hub: Gateway, view_name: str) -> None:
        super().__init__(hub.config.name, version=hub.config.version, sealer=hub.sealer)
        self.hub = hub
        self.view_name = view_name
        self._catalog: Catalog | None = None
        self._visible_by_group: OrderedDict[Hashable, VisibleItems] = OrderedDict()
        """By what callers with the same lists have in common; the least recently used first."""
        self._builtins: dict[str, dict[str, Item]] | None = None
        self.broadcaster.on_remove = self._on_client_left
        if not view_name:
            self.views = ChainMap(hub.restricted_views, cast("dict[str, Server]", hub.views))
            self.metrics += upstream_metrics(hub.upstreams)
        self.tools.lists_safe_names = hub.config.lists_safe_names
        register_builtins(self)

    # -- visible items -----------------------------------------------------------------

    @property
    def settings(self) -> ViewSettings | None:
        """Settings of the view; None shows everything."""
        return self.hub.config.views.get(self.view_name, _REMOVED_VIEW) if self.view_name else None

    def has_server(self, server: str) -> bool:
        """Whether the view shows anything of this server; must not rebuild the catalog."""
        settings = self.settings
        return settings is None or settings.servers is None or server in settings.servers

    def visible_to(self, caller: Caller | None = None) -> VisibleItems:
        """The items that the view lists now to this caller; None: to a caller who may see everything.

        To look up one item, use the methods below: they decide about this item only.
        """
        held_scopes = self._held_scopes(caller)
        if self.hub.governor is None or caller is None:
            return self._get_visible(held_scopes, held_scopes, None)
        return self._get_visible(self.group(caller), held_scopes, caller.principal)

    def group(self, caller: Caller) -> Hashable:
        """What callers with the same lists have in common."""
        governor, held_scopes = self.hub.governor, self._held_scopes(caller)
        return held_scopes if governor is None else (held_scopes, governor.group(caller.principal))

    def view_for(self, caller: Caller | None) -> CatalogView:
        """What a caller could see by its scopes alone, without the policy."""
        held_scopes = self._held_scopes(caller)
        return self._get_visible(held_scopes, held_scopes, None).catalog_view

    def _held_scopes(self, caller: Caller | None) -> HeldScopes | None:
        """The scopes of the caller that an item requires; None if it has all of them."""
        catalog = self.hub.catalog
        if not catalog.scopes or caller is None or caller.holds(catalog.scopes):
            return None
        held = catalog.scopes & caller.principal.scopes
        step_up = caller.principal.step_up_scopes
        return HeldScopes(held, held | (catalog.scopes & step_up) if step_up else held)

    def _get_visible(
        self, group: Hashable, held_scopes: HeldScopes | None, principal: Principal | None
    ) -> VisibleItems:
        catalog = self.hub.catalog
        if self._catalog is not catalog:
            self._visible_by_group.clear()
            self._catalog = catalog
        cached = self._visible_by_group
        visible = cached.get(group)
        if visible is not None:
            cached.move_to_end(group)
            return visible
        while len(cached) >= bounds.HUB_CACHED_SCOPE_SETS:
            cached.popitem(last=False)
        visible = cached[group] = self._select_visible(catalog, held_scopes, principal)
        if principal is not None:
            self.hub.notifier.remember_listed(self.view_name, group, visible.catalog_view.offering_servers)
        return visible

    def permits_resource(self, server: str, uri: str, caller: Caller | None) -> bool:
        """Whether the policy shows a resource to a caller, listed or not."""
        governor = self.hub.governor
        return governor is None or caller is None or governor.shows(caller.principal, Target("resource", server, uri))

    def permits(self, item: Item, caller: Caller | None) -> bool:
        """Whether the policy shows an item to a caller."""
        governor = self.hub.governor
        return governor is None or caller is None or governor.shows(caller.principal, item.target)

    def _select_visible(
        self, catalog: Catalog, held_scopes: HeldScopes | None, principal: Principal | None
    ) -> VisibleItems:
        governor = self.hub.governor
        if held_scopes is not None:
            catalog = catalog.select(held_scopes.covers)
        shows: Shows = show_all
        if governor is not None and principal is not None:
            shows = partial(governor.shows, principal)
            catalog = catalog.select(lambda item: shows(item.target), partial(may_show_unlisted, shows))
        shown = CatalogView(catalog, self.settings)
        pages = ListPages(partial(self._listed_items, shown=shown, shows=shows), self.hub.entry_meta)
        return VisibleItems(shown, pages, shows)

    @property
    def catalog_view(self) -> CatalogView:
        """The items that the view shows now to a caller who may see everything."""
        return self.visible_to().catalog_view

    def invalidate(self) -> None:
        """Drop what was derived from the catalog and the view, because one of them has changed."""
        self._catalog = self._builtins = None

    def clear_pages(self) -> None:
        """Encode the lists again, because they contain the state of a server, which has changed."""
        for visible in self._visible_by_group.values():
            visible.pages.clear()

    def page(self, kind: ListKind, call: Call) -> Reply:
        """One page of a list."""
        visible, params = self.visible_to(call.caller), call.params
        self.hub.remember_names(self.hub.catalog)
        page = visible.pages.page(
            kind,
            call.caller.revision,
            params.cursor,
            self.sealer,
            visible.catalog_view.descriptions,
            call.caller.principal,
        )
        return add_cache_hint(self, page)

    def _listed_items(self, kind: ListKind, shown: CatalogView, shows: Shows) -> Mapping[str, Item]:
        if self._builtins is None:
            self._builtins = builtin_items(self)
        own = self._builtins[kind]
        if shows is not show_all:
            own = {name: item for name, item in own.items() if shows(item.target)}
        if kind != "tools":
            found: dict[str, Item] = getattr(shown, kind)
            return own | found | own if own else found  # own entries come first, and servers cannot replace them
        search = self._search_mode
        logins = self.hub.upstream_logins
        hides_search = search == "off" or (search == "auto" and len(shown.tools) <= bounds.HUB_SEARCH_TOOLS)
        own = {
            name: item
            for name, item in own.items()
            if not (hides_search and item.upstream_name in _SEARCH_TOOLS)
            and self._shows_builtin(item.upstream_name)
            and (item.upstream_name != CONNECT or (logins is not None and logins.visible(shown, shows)))
        }
        return own if search == "only" else own | shown.tools

    @property
    def _search_mode(self) -> str:
        settings = self.settings
        view_search = None if settings is None else settings.search
        return self.hub.config.hub.search if view_search is None else view_search

    def _shows_builtin(self, name: str) -> bool:
        """Whether the view shows one of the hub's own tools; only `exclude` hides them."""
        settings = self.settings
        return settings is None or View(exclude=settings.exclude).names(name)

    def instructions_for(self, caller: Caller | None = None) -> str | None:
        """Join the instructions of all servers that have been reached and that the caller may use."""
        shown = self.visible_to(caller).catalog_view
        sections = [
            f"{id}: {text.strip()}"
            for id, upstream in self.hub.upstreams.items()
            if self._sees_server(shown, id, caller) and (text := self.hub.shown_snapshot(upstream).instructions)
        ]
        return "\n\n".join(sections)[: bounds.HUB_INSTRUCTIONS_CHARACTERS] or None

    def visible_servers(self, caller: Caller | None = None) -> list[str]:
        """The servers that this caller may know of."""
        shown = self.visible_to(caller).catalog_view
        return [id for id in self.hub.upstreams if self._sees_server(shown, id, caller)]

    def may_know_server(self, server: str, caller: Caller) -> bool:
        """Whether this caller may know of a server, also of one that could not be reached yet and so offers nothing."""
        governor = self.hub.governor
        if governor is None or server in self.visible_servers(caller):
            return True
        offers_nothing = server not in self.catalog_view.offering_servers
        return offers_nothing and governor.shows(caller.principal, Target("tool", server, ""))

    def connectable_servers(self, caller: Caller) -> list[str]:
        """The servers at which the users of this view log in, as far as this caller may know of them."""
        logins, visible = self.hub.upstream_logins, self.visible_to(caller)
        return [] if logins is None else logins.visible(visible.catalog_view, visible.shows)

    def _sees_server(self, shown: CatalogView, server: str, caller: Caller | None) -> bool:
        if not shown.has_server(server):
            return False
        if self.hub.governor is None or caller is None or server in shown.offering_servers:
            return True
        return server in self.connectable_servers(caller)

    # -- lookup ------------------------------------------------------------------------

    def has_builtin_tool(self, name: str, caller: Caller) -> bool:
        """Whether this is the name of one of the hub's own tools that the view shows to this caller."""
        tool = self.tools.find(name)
        if tool is None or not self._shows_builtin(tool.name):
            return False
        if self.hub.governor is not None and not self.hub.governor.shows(caller.principal, builtin_target(tool)):
            return False
        if tool.name == CONNECT:
            return bool(self.connectable_servers(caller))
        return tool.name not in _SEARCH_TOOLS or self._search_mode != "off"

    def find_known_tool(self, name: str, caller: Caller) -> Item | None:
        """Find a tool by name among those that are known now; None if there is none that this caller may use."""
        view = self.view_for(caller)
        return self._find_known(view.catalog.tools, name, caller, view.find_tool, view.shows_tool)

    def find_known_prompt(self, name: str, caller: Caller) -> Item | None:
        """Find a prompt in the same way."""
        view = self.view_for(caller)
        return self._find_known(view.catalog.prompts, name, caller, view.find_prompt, view.shows_prompt)

    def find_template(self, uri: str, caller: Caller) -> Item | None:
        """Find a resource template by its URI template."""
        view = self.view_for(caller)
        return self._find_known(view.catalog.templates, uri, caller, view.templates.get, view.shows_resource)

    def _find_known(
        self,
        part: CatalogPart,
        name: str,
        caller: Caller,
        find: Callable[[str], Item | None],
        shows: Callable[[Item], bool],
    ) -> Item | None:
        item = self.find_shared_name(part, name, caller)
        if item is not None:
            return item if shows(item) else None
        item = find(name)
        return item if item is None or self.permits(item, caller) else None

    def find_shared_name(self, part: CatalogPart, name: str, caller: Caller | None) -> Item | None:
        """Find what a caller sees under a name that several servers have, if it may not see all of them."""
        shared, governor = part.shared_names.get(name), self.hub.governor
        if shared is None or governor is None or caller is None:
            return None
        shows = partial(governor.shows, caller.principal)
        return shared.select(lambda item: shows(item.target), partial(may_show_unlisted, shows)).owner

    async def find_tool(self, name: str, caller: Caller) -> Item:
        """Find a tool by name, after connecting to servers that were not tried yet.

        Raises: ToolNotFound.
        """
        await self.hub.wait_connected_for(name)
        item = self.find_known_tool(name, caller)
        if item is not None:
            return item
        shown = self.visible_to(caller).catalog_view
        others = shown.alternatives(name, shown.catalog.tools)
        if others and self._may_report_collision(others):
            raise ToolNotFound(name, others, f"several servers have a tool of this name: call {' or '.join(others)}")
        available = list(self._listed_items("tools", shown, self.visible_to(caller).shows))
        raise ToolNotFound(name, available[: bounds.HUB_LISTED_TOOL_NAMES], self._describe_unreached())

    async def find_prompt(self, name: str, caller: Caller) -> Item:
        """Find a prompt by name; if there is none, connect to servers that were not tried yet and look again.

        Raises: PromptNotFound.
        """
        item = self.find_known_prompt(name, caller)
        if item is None:
            await self.hub.wait_connected_for(name)
            item = self.find_known_prompt(name, caller)
        if item is None:
            shown = self.visible_to(caller).catalog_view
            others = shown.alternatives(name, shown.catalog.prompts)
            hint = (
                f"several servers have a prompt of this name: get {' or '.join(others)}"
                if others and self._may_report_collision(others)
                else self._describe_unreached()
            )
            raise PromptNotFound(name, hint)
        return item

    def _may_report_collision(self, others: list[str]) -> bool:
        """Whether a caller may read that several servers have a name: of one alone, it would learn of hidden ones."""
        return len(others) > 1 or self.hub.governor is None

    def _describe_unreached(self) -> str:
        """Name the servers that were never reached and may have the missing item."""
        if self.hub.governor is not None:
            return ""  # whether the caller may know of such a server is decided by what it offers
        shown = self.catalog_view
        unknown = [
            f"{id} ({upstream.state.reason or 'still connecting'})"
            for id, upstream in self.hub.upstreams.items()
            if shown.has_server(id) and upstream.snapshot.revision is None
        ]
        return f"these servers are not connected: {', '.join(unknown)}" if unknown else ""

    def find_target(self, kind: TargetKind, name: str) -> Target | None:
        """Find what has this name or URI for a caller who may see everything; None if there is nothing."""
        shown = self.catalog_view
        if kind == "tool":
            item, tool = shown.find_tool(name), self.tools.find(name)
            if item is None and tool is not None:
                return builtin_target(tool)
        elif kind == "prompt":
            item = shown.find_prompt(name)
        else:
            item = shown.templates.get(name) if kind == "template" else None
            if item is None:
                found = self.locate_resource(name)
                return None if found is None else Target("resource", found.server, found.uri)
        return None if item is None else item.target

    def locate_resource(self, uri: str, caller: Caller | None = None) -> ResourceLocation | None:
        """Find the upstream of a resource that this caller may see, and its URI there; None if it is not known."""
        found = find_location(self, uri, caller)
        if found is None or self.permits_resource(found.server, found.uri, caller):
            return found
        return None

    def withholds_uri(self, server: str, uri: str) -> bool:
        """Whether a URI belongs to a resource template of a server that is withheld until it is approved."""
        return self.hub.pinned is not None and self.hub.pinned.withholds_uri(server, uri)

    def may_watch(self, uri: str, caller: Caller) -> bool:
        """Whether a caller may subscribe to a resource."""
        return may_watch(self, uri, caller)

    @property
    def hides_items(self) -> bool:
        return self.hub.config.governance.policy != PolicySettings()

    def scoped_names(self) -> list[str]:
        """Names of the items that require scopes, of the servers in this process."""
        local = [upstream for upstream in self.hub.upstreams.values() if isinstance(upstream, LocalUpstream)]
        return [name for upstream in local for name in upstream.server.scoped_names()]

    def servers_with_resources(self, uri: str, caller: Caller) -> list[str]:
        """The servers that may have a resource which they do not list, if this caller may read it there."""
        shown = self.catalog_view
        return [
            id
            for id, upstream in self.hub.upstreams.items()
            if shown.has_server(id)
            and upstream.snapshot.has_capability("resources")
            and not self.withholds_uri(id, uri)
            and self.permits_resource(id, uri, caller)
        ]

    def tool_scopes(self, name: str, caller: Caller) -> frozenset[str]:
        """The scopes that a tool requires; none if the caller sees no tool of this name."""
        item = self.find_known_tool(name, caller)
        return super().tool_scopes(name, caller) if item is None else item.scopes

    def tool_headers(self, name: str, caller: Caller) -> Mapping[str, tuple[str, ...]]:
        """Which arguments of a tool HTTP clients mirror in headers."""
        item = self.find_known_tool(name, caller)
        return _NO_HEADERS if item is None else item.headers

    # -- the interface of `Server` -----------------------------------------------------

    async def problems(self) -> list[str]:
        """The problems of all servers if none of them works; otherwise empty, because the hub is still useful."""
        found = await self._server_problems()
        return list(found.values()) if len(found) == len(self.hub.upstreams) else []

    async def degradations(self) -> list[str]:
        """Problems of servers that are down while others work."""
        return list((await self._server_problems()).values())

    async def _server_problems(self) -> dict[str, str]:
        """The problem of each server that is down or reports that it is not ready."""
        found: dict[str, str] = {}
        for id, upstream in self.hub.upstreams.items():
            state = upstream.state
            if state.phase == "down":
                found[id] = f"{id}: {state.reason}"
            elif isinstance(upstream, LocalUpstream) and (problems := await upstream.server.problems()):
                found[id] = f"{id}: {'; '.join(problems)}"
        return found

    @property
    def is_running(self) -> bool:
        return self.hub.is_running

    @property
    def is_in_threads(self) -> bool:
        """Whether functions that cannot be stopped still run, here or in a server of this process."""
        return self.threads.is_running or any(
            isinstance(upstream, LocalUpstream) and upstream.server.is_in_threads
            for upstream in self.hub.upstreams.values()
        )

    def wrap(self, wrapper: Callable[[Peer], Peer]) -> None:
        """Wrap the peers of all views, including views that are added later."""
        self.hub.wrap_fronts(wrapper)

    def add_client_sessions(self, sessions: ClientSessions) -> None:
        """Let the hub list and end the sessions of its clients."""
        self.hub.client_sessions.append(sessions)

    def add_client_grants(self, grants: ClientGrants) -> None:
        """Let the hub end the grants of clients."""
        self.hub.client_grants = grants
        grants.on_event = self.hub.record_event

    def add_problem(self, problem: str) -> None:
        """Show the operator a problem in `hub.status`."""
        if problem not in self.hub.problems:
            self.hub.problems.append(problem)

    def offer_sealer(self, sealer: Sealer) -> None:
        """Use this sealer in the whole hub from now on."""
        self.hub.use_sealer(sealer)

    def _on_client_left(self) -> None:
        self.hub.subscriptions.prune()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep the whole hub open."""
        return self.hub.running()

    @asynccontextmanager
    async def in_memory(self) -> AsyncIterator[ConnectionFactory]:
        """Run the hub for clients in this process; the last client of any of its fronts closes it."""
        async with self.hub.running():
            yield partial(Connection, self)

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End the suspended calls of revoked callers, at the upstreams too, and their sessions with these."""
        super().end_revoked(is_revoked)
        for upstream in self.hub.upstreams.values():
            upstream.end_revoked(is_revoked)

    def reopen(self) -> None:
        """Serve again after `close`."""
        self.broadcaster.on_remove = self._on_client_left
        self.clear_pages()

    async def close(self) -> None:
        """End the open streams, suspended calls and threads of this view."""
        self.broadcaster.on_remove = None
        self.broadcaster.end_subscriptions()
        await self.rounds.close()
        self.threads.close()
