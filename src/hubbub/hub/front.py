"""One view of a hub as a server: whatever serves a `Server` serves it.

Its methods look into what the view shows and pass the call to the upstream that has it.
What the hub has of its own is registered here as on any server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hubbub import bounds
from hubbub.errors import InvalidParams, PromptNotFound, ToolNotFound
from hubbub.hub.catalog import Item, Named
from hubbub.hub.config import CALL, SEARCH
from hubbub.hub.entries import Kind
from hubbub.hub.local import LocalUpstream
from hubbub.hub.methods import METHODS, call_by_name
from hubbub.hub.own import add_own, own_items
from hubbub.hub.pages import Pages
from hubbub.hub.search import Index
from hubbub.hub.subscriptions import Watched
from hubbub.hub.views import Shown
from hubbub.ports import Peer, Sealer
from hubbub.protocol.model import Call, Reply
from hubbub.server.methods import Method, cacheable
from hubbub.server.server import Server
from hubbub.server.views import View
from hubbub.settings.hub import ViewSettings

if TYPE_CHECKING:
    from hubbub.hub.hub import Hub

_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}
_SEARCHING = (SEARCH, CALL)
_GONE = ViewSettings(servers=())
"""A view that is no longer set shows nothing to whoever still looks."""


class Front(Server):
    """What callers of one address see of a hub."""

    def __init__(self, hub: Hub, view_name: str) -> None:
        super().__init__(hub.config.name, version=hub.config.version, sealer=hub.sealer)
        self.hub = hub
        self.view_name = view_name
        self.pages = Pages(self._items, hub.health)
        self._shown: Shown | None = None
        self._index: Index | None = None
        self._own: dict[str, dict[str, Item]] | None = None
        self.audience.left = self._someone_left
        if not view_name:
            self.views = hub.views
        self.tools.lists_safe_names = hub.config.lists_safe_names
        add_own(self)

    # -- what there is -----------------------------------------------------------------

    @property
    def settings(self) -> ViewSettings | None:
        """What the view shows; None is everything."""
        return self.hub.config.views.get(self.view_name, _GONE) if self.view_name else None

    def has(self, server: str) -> bool:
        """Whether the view shows anything of this server; must not cost a new catalog."""
        settings = self.settings
        return settings is None or settings.servers is None or server in settings.servers

    @property
    def shown(self) -> Shown:
        """What the view shows now."""
        catalog = self.hub.catalog
        shown = self._shown
        if shown is None or shown.catalog is not catalog:
            shown = self._shown = Shown(catalog, self.settings)
        return shown

    @property
    def index(self) -> Index:
        """The words of all tools, for searching."""
        shown = self.shown
        if self._index is None:
            self._index = Index(shown.tools.values(), shown.descriptions)
        return self._index

    def outdated(self) -> None:
        """The catalog or the view has changed."""
        self._shown = self._index = self._own = None
        self.pages.forget()

    def page(self, kind: Kind, call: Call) -> Reply:
        """One page of a list."""
        shown = self.shown
        page = self.pages.page(kind, call.caller.revision, call.params.cursor, self.sealer, shown.descriptions)
        return cacheable(self, page)

    def _items(self, kind: Kind) -> Mapping[str, Item]:
        if self._own is None:
            self._own = own_items(self)
        shown, own = self.shown, self._own[kind]
        if kind != "tools":
            found: dict[str, Item] = getattr(shown, kind)
            return own | found | own if own else found  # what is the hub's own is no server's
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
        """Whether the view lets one of the hub's own tools be: only `exclude` takes them away."""
        settings = self.settings
        return settings is None or View(exclude=settings.exclude).names(name)

    def introduce(self) -> None:
        """Put together what the servers say about their use, as far as they have been reached."""
        said = []
        for id, upstream in self.hub.upstreams.items():
            text = upstream.snapshot.instructions
            if text and self.has(id):
                said.append(f"{id}: {text.strip()}")
        self.instructions = "\n\n".join(said)[: bounds.HUB_INSTRUCTIONS_CHARACTERS] or None

    # -- finding -----------------------------------------------------------------------

    def has_own_tool(self, name: str) -> bool:
        """Whether a name is that of a tool which the hub has of its own, and the view lets be."""
        tool = self.tools.find(name)
        if tool is None or not self._keeps(tool.name):
            return False
        return tool.name not in _SEARCHING or self._search != "off"

    async def find_tool(self, name: str) -> Item:
        """The tool of that name, after trying servers that were never tried.

        Raises: ToolNotFound.
        """
        await self.hub.connected_for(name)
        shown = self.shown
        item = shown.tool(name)
        if item is not None:
            return item
        others = shown.alternatives(name, shown.catalog.tools)
        if others:
            raise ToolNotFound(name, others, f"several servers have it: call {' or '.join(others)}")
        available = list(self._items("tools"))
        raise ToolNotFound(name, available[: bounds.HUB_NAMED_TOOLS], self._missing())

    async def find_prompt(self, name: str) -> Item:
        """The prompt of that name.

        Raises: PromptNotFound.
        """
        item = self.shown.prompt(name)
        if item is None:
            await self.hub.connected_for(name)
            item = self.shown.prompt(name)
        if item is None:
            others = self.shown.alternatives(name, self._prompts)
            hint = f"several servers have it: get {' or '.join(others)}" if others else self._missing()
            raise PromptNotFound(name, hint)
        return item

    @property
    def _prompts(self) -> Named:
        return self.shown.catalog.prompts

    def _missing(self) -> str:
        """Servers that may have it, but were never reached."""
        shown = self.shown
        unknown = [
            f"{id} ({upstream.state.reason or 'still connecting'})"
            for id, upstream in self.hub.upstreams.items()
            if shown.has(id) and upstream.snapshot.revision is None
        ]
        return f"these servers could not be reached so far: {', '.join(unknown)}" if unknown else ""

    def locate(self, uri: str) -> Watched | None:
        """The upstream of a resource and its URI there, as far as lists and templates tell."""
        shown = self.shown
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
        if addressed is not None and shown.has(addressed[0]):
            return Watched(*addressed)
        return None

    def readers(self) -> list[str]:
        """The servers that may have resources which they do not list."""
        shown = self.shown
        return [
            id for id, upstream in self.hub.upstreams.items() if shown.has(id) and upstream.snapshot.has("resources")
        ]

    def tool_headers(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Which arguments of a tool HTTP clients mirror in headers."""
        item = self.shown.tool(name)
        return _NO_HEADERS if item is None else item.headers

    # -- being a server ----------------------------------------------------------------

    def request(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Answer one call in its caller's revision."""
        method: Method | None = METHODS[call.caller.revision.era].get(call.method)
        if method is None:
            return call_by_name(self, call)
        if isinstance(call.params, InvalidParams):
            raise call.params
        return method(self, call)

    async def problems(self) -> list[str]:
        """What keeps the hub from being of any use: that none of its servers can be reached."""
        states = [upstream.state for upstream in self.hub.upstreams.values()]
        if not states or any(state.phase != "down" for state in states):
            return []
        return [f"{state.id}: {state.reason}" for state in states]

    @property
    def is_in_threads(self) -> bool:
        """Whether functions that cannot be stopped still run, here or in a server of this process."""
        return self.threads.is_running or any(
            isinstance(upstream, LocalUpstream) and upstream.server.is_in_threads
            for upstream in self.hub.upstreams.values()
        )

    def wrap(self, wrapper: Callable[[Peer], Peer]) -> None:
        """Put something around every call, of whichever view."""
        self.hub.wrap_fronts(wrapper)

    def offer_sealer(self, sealer: Sealer) -> None:
        """Seal with this from now on."""
        self.hub.use_sealer(sealer)

    def _someone_left(self) -> None:
        self.hub.subscriptions.settle()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the whole hub."""
        async with self.hub.running():
            yield

    async def close(self) -> None:
        """End what this view has open."""
        self.audience.left = None
        self.audience.end_listens()
        await self.rounds.close()
        self.threads.close()
