"""One view of a hub as a `Server`, so that it is served like any other.

Its methods look up items in the view and forward calls to their upstreams. The hub's own tools and resources are
registered here as on any server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hubbub import bounds
from hubbub.errors import PromptNotFound, ToolNotFound
from hubbub.hub.catalog import Catalog, Item, Shown
from hubbub.hub.config import CALL, SEARCH
from hubbub.hub.entries import Kind
from hubbub.hub.local import LocalUpstream
from hubbub.hub.methods import METHODS, call_by_name
from hubbub.hub.own import add_own, own_items
from hubbub.hub.pages import Pages
from hubbub.hub.search import Index
from hubbub.hub.status import figures_of
from hubbub.hub.subscriptions import Watched
from hubbub.ports import Connect, Peer, Sealer
from hubbub.protocol.model import Call, Caller, Reply
from hubbub.server.connection import Connection
from hubbub.server.methods import cacheable
from hubbub.server.server import Server
from hubbub.server.views import View
from hubbub.settings.hub import ViewSettings

if TYPE_CHECKING:
    from hubbub.hub.gateway import Gateway

_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}
_SEARCHING = (SEARCH, CALL)
_GONE = ViewSettings(servers=())
"""Settings of a removed view: it shows nothing to clients that are still connected."""


class VisibleItems:
    """The part of a view that callers with the same scopes see."""

    def __init__(self, shown: Shown, pages: Pages) -> None:
        self.shown = shown
        self.pages = pages

    @cached_property
    def index(self) -> Index:
        """Search index of all tools."""
        return Index(self.shown.tools.values(), self.shown.descriptions)


class Front(Server):
    """The server that clients of one view of a hub see."""

    _methods = METHODS
    _call_by_name = call_by_name

    def __init__(self, hub: Gateway, view_name: str) -> None:
        super().__init__(hub.config.name, version=hub.config.version, sealer=hub.sealer)
        self.hub = hub
        self.view_name = view_name
        self._catalog: Catalog | None = None
        self._seen: dict[frozenset[str] | None, VisibleItems] = {}
        self._own: dict[str, dict[str, Item]] | None = None
        self.audience.left = self._someone_left
        if not view_name:
            self.views = hub.views
            self.metrics += figures_of(hub.upstreams)
        self.tools.lists_safe_names = hub.config.lists_safe_names
        add_own(self)

    # -- what there is -----------------------------------------------------------------

    @property
    def settings(self) -> ViewSettings | None:
        """Settings of the view; None shows everything."""
        return self.hub.config.views.get(self.view_name, _GONE) if self.view_name else None

    def has(self, server: str) -> bool:
        """Whether the view shows anything of this server; must not rebuild the catalog."""
        settings = self.settings
        return settings is None or settings.servers is None or server in settings.servers

    def visible_to(self, caller: Caller | None = None) -> VisibleItems:
        """The items that the view shows now to this caller; None: to a caller with every scope."""
        catalog = self.hub.catalog
        if self._catalog is not catalog:
            self._seen.clear()
            self._catalog = catalog
        held: frozenset[str] | None = None
        if catalog.scopes and caller is not None and not caller.holds(catalog.scopes):
            held = catalog.scopes & caller.principal.scopes
        seen = self._seen.get(held)
        if seen is None:
            if len(self._seen) >= bounds.HUB_VISIBLE_SETS:
                self._seen.clear()
            shown = Shown(catalog if held is None else catalog.visible_with(held), self.settings)
            pages = Pages(partial(self._items, shown=shown), self.hub.health)
            seen = self._seen[held] = VisibleItems(shown, pages)
        return seen

    @property
    def shown(self) -> Shown:
        """The items that the view shows now to a caller with every scope."""
        return self.visible_to().shown

    def outdated(self) -> None:
        """Drop what was derived from the catalog and the view, because one of them has changed."""
        self._catalog = self._own = None

    def forget_pages(self) -> None:
        """Encode the lists again, because they contain the state of a server, which has changed."""
        for seen in self._seen.values():
            seen.pages.forget()

    def page(self, kind: Kind, call: Call) -> Reply:
        """One page of a list."""
        seen, params = self.visible_to(call.caller), call.params
        self.hub.remember_names(self.hub.catalog)
        page = seen.pages.page(kind, call.caller.revision, params.cursor, self.sealer, seen.shown.descriptions)
        return cacheable(self, page)

    def _items(self, kind: Kind, shown: Shown) -> Mapping[str, Item]:
        if self._own is None:
            self._own = own_items(self)
        own = self._own[kind]
        if kind != "tools":
            found: dict[str, Item] = getattr(shown, kind)
            return own | found | own if own else found  # own entries come first, and servers cannot replace them
        search = self._search
        hides_searching = search == "off" or (search == "auto" and len(shown.tools) <= bounds.HUB_SEARCH_TOOLS)
        own = {
            name: item
            for name, item in own.items()
            if not (hides_searching and item.own in _SEARCHING) and self._keeps(item.own)
        }
        return own if search == "only" else own | shown.tools

    @property
    def _search(self) -> str:
        settings = self.settings
        chosen = None if settings is None else settings.search
        return self.hub.config.hub.search if chosen is None else chosen

    def _keeps(self, name: str) -> bool:
        """Whether the view shows one of the hub's own tools; only `exclude` hides them."""
        settings = self.settings
        return settings is None or View(exclude=settings.exclude).names(name)

    def introduce(self) -> None:
        """Join the instructions of all servers that have been reached."""
        said = []
        for id, upstream in self.hub.upstreams.items():
            text = upstream.snapshot.instructions
            if text and self.has(id):
                said.append(f"{id}: {text.strip()}")
        self.instructions = "\n\n".join(said)[: bounds.HUB_INSTRUCTIONS_CHARACTERS] or None

    # -- finding -----------------------------------------------------------------------

    def has_own_tool(self, name: str) -> bool:
        """Whether this is the name of one of the hub's own tools that the view shows."""
        tool = self.tools.find(name)
        if tool is None or not self._keeps(tool.name):
            return False
        return tool.name not in _SEARCHING or self._search != "off"

    async def find_tool(self, name: str, caller: Caller) -> Item:
        """Find a tool by name, after connecting to servers that were not tried yet.

        Raises: ToolNotFound.
        """
        await self.hub.connected_for(name)
        shown = self.visible_to(caller).shown
        item = shown.tool(name)
        if item is not None:
            return item
        others = shown.alternatives(name, shown.catalog.tools)
        if others:
            raise ToolNotFound(name, others, f"several servers have it: call {' or '.join(others)}")
        available = list(self._items("tools", shown))
        raise ToolNotFound(name, available[: bounds.HUB_NAMED_TOOLS], self._missing())

    async def find_prompt(self, name: str, caller: Caller) -> Item:
        """Find a prompt by name; if there is none, connect to servers that were not tried yet and look again.

        Raises: PromptNotFound.
        """
        item = self.visible_to(caller).shown.prompt(name)
        if item is None:
            await self.hub.connected_for(name)
            item = self.visible_to(caller).shown.prompt(name)
        if item is None:
            shown = self.visible_to(caller).shown
            others = shown.alternatives(name, shown.catalog.prompts)
            hint = f"several servers have it: get {' or '.join(others)}" if others else self._missing()
            raise PromptNotFound(name, hint)
        return item

    def _missing(self) -> str:
        """Name the servers that were never reached and may have the missing item."""
        shown = self.shown
        unknown = [
            f"{id} ({upstream.state.reason or 'still connecting'})"
            for id, upstream in self.hub.upstreams.items()
            if shown.has(id) and upstream.snapshot.revision is None
        ]
        return f"these servers could not be reached so far: {', '.join(unknown)}" if unknown else ""

    def locate(self, uri: str, caller: Caller | None = None) -> Watched | None:
        """Find the upstream of a resource that this caller may see, and its URI there; None if it is not known."""
        shown = self.visible_to(caller).shown
        item = shown.resources.get(uri)
        if item is not None:
            return Watched(item.server, item.own)
        addressed = shown.catalog.own_uri(uri)
        for item in shown.templates.values():
            if item.template is None:
                continue
            own = uri
            if item.name != item.own:
                if addressed is None or addressed[0] != item.server:
                    continue
                own = addressed[1]
            if item.template.match(own) is not None:
                return Watched(item.server, own)
        if addressed is not None and shown.has(addressed[0]) and not self._hides(*addressed, caller):
            return Watched(*addressed)
        return None

    def _hides(self, server: str, uri: str, caller: Caller | None) -> bool:
        """Whether a server has a resource that this caller must not see."""
        catalog = self.hub.catalog
        if not catalog.scopes or caller is None:
            return False
        return any(
            item.server == server
            and not caller.holds(item.scopes)
            and (item.own == uri or (item.template is not None and item.template.match(uri) is not None))
            for part in (catalog.resources, catalog.templates)
            for item in part.listed.values()
        )

    def may_watch(self, uri: str, caller: Caller) -> bool:
        """Whether a caller may subscribe to a resource."""
        return self.locate(uri, caller) is not None or self.locate(uri) is None

    def scoped_names(self) -> list[str]:
        """Names of the items that require scopes, of the servers in this process."""
        local = [upstream for upstream in self.hub.upstreams.values() if isinstance(upstream, LocalUpstream)]
        return [name for upstream in local for name in upstream.server.scoped_names()]

    def readers(self) -> list[str]:
        """The servers that may have resources which they do not list."""
        shown = self.shown
        return [
            id for id, upstream in self.hub.upstreams.items() if shown.has(id) and upstream.snapshot.has("resources")
        ]

    def tool_headers(self, name: str, caller: Caller) -> Mapping[str, tuple[str, ...]]:
        """Which arguments of a tool HTTP clients mirror in headers."""
        item = self.visible_to(caller).shown.tool(name)
        return _NO_HEADERS if item is None else item.headers

    # -- being a server ----------------------------------------------------------------

    async def problems(self) -> list[str]:
        """The problems of all servers if none of them works; otherwise empty, because the hub is still useful."""
        found = await self._servers_in_trouble()
        return list(found.values()) if len(found) == len(self.hub.upstreams) else []

    async def degradations(self) -> list[str]:
        """Problems of servers that are down while others work."""
        return list((await self._servers_in_trouble()).values())

    async def _servers_in_trouble(self) -> dict[str, str]:
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

    def offer_sealer(self, sealer: Sealer) -> None:
        """Use this sealer in the whole hub from now on."""
        self.hub.use_sealer(sealer)

    def _someone_left(self) -> None:
        self.hub.subscriptions.settle()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep the whole hub open."""
        return self.hub.running()

    @asynccontextmanager
    async def in_memory(self) -> AsyncIterator[Connect]:
        """Run the hub for clients in this process; the last client of any of its fronts closes it."""
        async with self.hub.running():
            yield partial(Connection, self)

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End the suspended calls of revoked callers, at the upstreams too."""
        super().end_revoked(is_revoked)
        for upstream in self.hub.upstreams.values():
            upstream.end_revoked(is_revoked)

    def reopen(self) -> None:
        """Serve again after `close`."""
        self.audience.left = self._someone_left
        self.forget_pages()

    async def close(self) -> None:
        """End the open streams, suspended calls and threads of this view."""
        self.audience.left = None
        self.audience.end_listens()
        await self.rounds.close()
        self.threads.close()
