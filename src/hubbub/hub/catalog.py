"""Everything that the upstreams offer, under the names that clients see.

A `Catalog` is a value: it is rebuilt when a snapshot or the config changes, and replaced as a whole. Finding an item is
a dictionary lookup. `Shown` is the part of it that a view shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.hub.config import OWN, OWN_TOOLS, HubConfig, UpstreamConfig
from hubbub.hub.known_names import NOTHING_KNOWN, Known
from hubbub.hub.names import Collision, Names, Offer, Rule, Style, assign, scheme_of
from hubbub.hub.snapshot import Entry, Snapshot
from hubbub.protocol.headers import header_parameters
from hubbub.protocol.revisions import Revision
from hubbub.protocol.uri_template import UriTemplate
from hubbub.protocol.wire import ToolAnnotations
from hubbub.server.views import EVERYTHING, View
from hubbub.settings.hub import ViewSettings
from hubbub.settings.servers import ToolSettings

_RESERVED = tuple(Offer(OWN, name) for name in OWN_TOOLS)
_AS_IT_IS = ToolSettings()
_SCHEMA = "outputSchema"
_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}


class Item:
    """One tool, prompt, resource or template, as the hub shows it."""

    def __init__(
        self,
        name: str,
        server: str,
        entry: Entry,
        revision: Revision,
        description: str | None = None,
        *,
        wanted: str | None = None,
    ) -> None:
        self.name = name
        """The name or URI that clients use."""
        self.wanted = name if wanted is None else wanted
        """The name that it would have without collisions and without the length limit."""
        self.server = server
        """The id of the upstream that has it."""
        self.entry = entry
        self.own = entry.name
        """The name or URI on its own server."""
        self.revision = revision
        """The protocol revision of that server."""
        self.description = description
        """Replaces the server's description; None keeps it."""
        self.encoded: dict[tuple[str, str | None], bytes] = {}
        """Encoded list entries, by revision and description: see `hubbub.hub.entries`."""

    @property
    def qualified(self) -> str:
        """`server/name`, which patterns with a slash are matched against."""
        return f"{self.server}/{self.own}"

    @property
    def scopes(self) -> frozenset[str]:
        """Scopes that a caller needs to see it."""
        return self.entry.scopes

    @property
    def annotations(self) -> ToolAnnotations | None:
        """The tool's annotations, as its server lists them."""
        return self.entry.annotations

    @cached_property
    def headers(self) -> Mapping[str, tuple[str, ...]]:
        """Arguments that HTTP clients mirror in headers; empty if the schema declares them incorrectly."""
        schema = self.entry.members.get("inputSchema")
        if schema is None or b"x-mcp-header" not in bytes(schema):
            return _NO_HEADERS
        try:
            return header_parameters(msgspec.json.decode(schema))
        except (DefinitionError, msgspec.DecodeError):
            return _NO_HEADERS

    @cached_property
    def template(self) -> UriTemplate | None:
        """The parsed URI template; None if it cannot be matched."""
        try:
            return UriTemplate(self.own)
        except DefinitionError:
            return None


class Offered(NamedTuple):
    """An entry of one server, before it gets its name in the catalog."""

    offer: Offer
    entry: Entry
    revision: Revision
    description: str | None = None


class Named(msgspec.Struct, frozen=True):
    """The tools or the prompts of a catalog, by name."""

    listed: dict[str, Item] = {}
    callable: dict[str, Item] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    collisions: tuple[Collision, ...] = ()


class Addressed(msgspec.Struct, frozen=True):
    """The resources or the resource templates of a catalog, by URI."""

    listed: dict[str, Item] = {}
    collisions: tuple[Collision, ...] = ()


class ShownNames(msgspec.Struct, frozen=True):
    """What each name meant when it was last listed to a client."""

    tools: dict[str, Offer] = {}
    prompts: dict[str, Offer] = {}

    def add(self, catalog: Catalog) -> None:
        """Remember the names of a catalog that was listed."""
        for names, kind in ((self.tools, catalog.tools), (self.prompts, catalog.prompts)):
            for name, item in kind.listed.items():
                names.pop(name, None)
                names[name] = Offer(item.server, item.own)
            while len(names) > bounds.HUB_SHOWN_NAMES:
                del names[next(iter(names))]


class Catalog(msgspec.Struct, frozen=True):
    """Everything that the upstreams offer."""

    tools: Named = Named()
    prompts: Named = Named()
    resources: Addressed = Addressed()
    templates: Addressed = Addressed()
    schemes: Mapping[str, str] = {}
    """Maps the prefix of a URI (`server` in `server+file:///a`) to the id of its upstream."""
    scopes: frozenset[str] = frozenset()
    """Every scope that an entry requires."""

    def visible_with(self, held: frozenset[str]) -> Catalog:
        """The part of the catalog that a caller with these scopes sees; names do not change."""
        return msgspec.structs.replace(
            self,
            tools=_visible_names(self.tools, held),
            prompts=_visible_names(self.prompts, held),
            resources=_visible_addresses(self.resources, held),
            templates=_visible_addresses(self.templates, held),
        )

    @property
    def collisions(self) -> tuple[Collision, ...]:
        """Names and URIs that several servers have."""
        found = (self.tools, self.prompts, self.resources, self.templates)
        return tuple(collision for part in found for collision in part.collisions)

    def own_uri(self, uri: str) -> tuple[str, str] | None:
        """Resolve a URI with a `server+` prefix to the upstream and the URI there; None if it has no known prefix."""
        scheme, plus, rest = uri.partition("+")
        server = self.schemes.get(scheme) if plus else None
        return None if server is None else (server, rest)


def build(
    config: HubConfig,
    snapshots: Mapping[str, Snapshot],
    known: Callable[[UpstreamConfig], Known] = lambda upstream: NOTHING_KNOWN,
    shown: ShownNames | None = None,
) -> Catalog:
    """Build the catalog of these upstreams, in the order of the config.

    Upstreams that were not reached yet take part in the naming with what is `known` of them. Names that were `shown`
    before stay callable.
    """
    shown = ShownNames() if shown is None else shown
    style = Style(config.hub.name_limit, config.lists_safe_names)
    rules = {OWN: Rule("never")} | {upstream.id: _rule(upstream) for upstream in config.upstreams}
    found: dict[str, list[Offered]] = {"tools": [], "prompts": [], "resources": [], "templates": []}
    offered: dict[str, list[Offer]] = {"tools": list(_RESERVED), "prompts": []}
    for upstream in config.upstreams:
        snapshot = snapshots.get(upstream.id)
        if snapshot is None or snapshot.revision is None:
            for kind, offers in _expected_offers(upstream, known(upstream)).items():
                offered[kind] += offers
            continue
        for kind, entries in _shown(upstream, snapshot).items():
            for entry in entries:
                if kind == "tools" and not config.hub.output_schemas and _SCHEMA in entry.members:
                    members = {name: value for name, value in entry.members.items() if name != _SCHEMA}
                    entry = msgspec.structs.replace(entry, members=members)
                said = upstream.tools.get(entry.name, _AS_IT_IS) if kind == "tools" else _AS_IT_IS
                offer = Offer(upstream.id, entry.name)
                if kind in offered:
                    offered[kind].append(offer)
                found[kind].append(Offered(offer, entry, snapshot.revision, said.description))
    schemes = _schemes(config)
    plain = {server: msgspec.structs.replace(rule, renamed={}) for server, rule in rules.items()}
    return Catalog(
        _named(found["tools"], _assigned(offered["tools"], rules, style), shown.tools),
        _named(found["prompts"], assign(offered["prompts"], plain, style), shown.prompts),
        _addressed(found["resources"], schemes),
        _addressed(found["templates"], schemes),
        {scheme: server for server, scheme in schemes.items()},
        frozenset().union(*(one.entry.scopes for part in found.values() for one in part)),
    )


def _visible_names(part: Named, held: frozenset[str]) -> Named:
    listed, callable = _visible_items(part.listed, held), _visible_items(part.callable, held)
    return Named(listed, callable, part.ambiguous, _visible_collisions(part.collisions, listed))


def _visible_addresses(part: Addressed, held: frozenset[str]) -> Addressed:
    listed = _visible_items(part.listed, held)
    return Addressed(listed, _visible_collisions(part.collisions, listed))


def _visible_items(items: Mapping[str, Item], held: frozenset[str]) -> dict[str, Item]:
    return {name: item for name, item in items.items() if item.scopes <= held}


def _visible_collisions(collisions: Iterable[Collision], listed: Mapping[str, Item]) -> tuple[Collision, ...]:
    return tuple(one for one in collisions if all(name in listed for name in one.listed if name))


def _shown(upstream: UpstreamConfig, snapshot: Snapshot) -> dict[str, list[Entry]]:
    """The entries of a server that its config does not hide, by kind."""
    tools = _view(upstream.include, upstream.exclude, upstream.read_only)
    prompts = _view(upstream.include, upstream.exclude)
    hidden = {name for name, said in upstream.tools.items() if said.hidden}
    return {
        "tools": [entry for entry in snapshot.tools if tools.shows(entry) and entry.name not in hidden],
        "prompts": [entry for entry in snapshot.prompts if prompts.shows(entry)],
        "resources": list(snapshot.resources),
        "templates": list(snapshot.templates),
    }


def _view(include: tuple[str, ...], exclude: tuple[str, ...], read_only: bool = False) -> View:
    view = View(include, exclude, read_only)
    return EVERYTHING if view == EVERYTHING else view  # `View.shows` skips all comparisons for this object


def _assigned(offers: Sequence[Offer], rules: Mapping[str, Rule], style: Style) -> Names:
    """The names of tools, without those that belong to the hub itself."""
    names = assign(offers, rules, style)
    return msgspec.structs.replace(
        names,
        listed={offer: name for offer, name in names.listed.items() if offer.server != OWN},
        callable={name: offer for name, offer in names.callable.items() if offer.server != OWN},
    )


def _rule(upstream: UpstreamConfig) -> Rule:
    renamed = {own: said.name for own, said in upstream.tools.items() if said.name is not None}
    return Rule(upstream.prefix, upstream.prefix_text, renamed)


def _expected_offers(upstream: UpstreamConfig, known: Known) -> dict[str, list[Offer]]:
    """The offers that a server had when it was last reached, without those that its config hides."""
    view = _view(upstream.include, upstream.exclude)
    hidden = {name for name, said in upstream.tools.items() if said.hidden}
    return {
        "tools": [Offer(upstream.id, name) for name in known.tools if view.names(name) and name not in hidden],
        "prompts": [Offer(upstream.id, name) for name in known.prompts if view.names(name)],
    }


def _named(found: Iterable[Offered], names: Names, shown: Mapping[str, Offer]) -> Named:
    items = {
        one.offer: Item(
            names.listed.get(one.offer, one.offer.name),
            one.offer.server,
            one.entry,
            one.revision,
            one.description,
            wanted=names.wanted.get(one.offer),
        )
        for one in found
    }
    callable_ = {name: items[offer] for name, offer in names.callable.items() if offer in items}
    for name, offer in shown.items():
        if name not in names.callable and offer in items:
            callable_[name] = items[offer]
    return Named(
        {name: items[offer] for offer, name in names.listed.items() if offer in items},
        callable_,
        {name: others for name, others in names.ambiguous.items() if name not in callable_},
        names.collisions,
    )


def _schemes(config: HubConfig) -> dict[str, str]:
    """A unique URI prefix for each server."""
    schemes: dict[str, str] = {}
    for upstream in config.upstreams:
        first = scheme = scheme_of(upstream.id)
        number = 1
        while scheme in schemes.values():
            number += 1
            scheme = f"{first}-{number}"
        schemes[upstream.id] = scheme
    return schemes


def _addressed(found: Iterable[Offered], schemes: Mapping[str, str]) -> Addressed:
    """The first server in the config keeps a URI; the same URI of later servers gets a prefix."""
    listed: dict[str, Item] = {}
    owners: dict[str, list[str]] = {}
    for offer, entry, revision, _ in found:
        uri = entry.name if entry.name not in listed else f"{schemes[offer.server]}+{entry.name}"
        owners.setdefault(entry.name, []).append(offer.server)
        listed.setdefault(uri, Item(uri, offer.server, entry, revision))
    collisions = tuple(
        Collision(uri, tuple(servers), (uri, *(f"{schemes[server]}+{uri}" for server in servers[1:])))
        for uri, servers in owners.items()
        if len(servers) > 1
    )
    return Addressed(listed, collisions)


class Shown:
    """The part of a catalog that one front shows: chosen servers, names that match patterns, or read-only tools.

    A value for one catalog and one view; without settings it shows everything. Lists, calls, reads, searches and
    subscriptions all look up items here, so that the view restricts them alike.
    """

    def __init__(self, catalog: Catalog, settings: ViewSettings | None = None) -> None:
        self.catalog = catalog
        self._settings = settings
        self._servers = None if settings is None or settings.servers is None else frozenset(settings.servers)
        chosen = ViewSettings() if settings is None else settings
        self._tools = View(chosen.include, chosen.exclude, chosen.read_only)
        self._prompts = View(chosen.include, chosen.exclude)
        self.descriptions = chosen.descriptions

    def has(self, server: str) -> bool:
        """Whether anything of this server may be shown."""
        return self._servers is None or server in self._servers

    def tool(self, name: str) -> Item | None:
        """The tool that a name means, listed or not."""
        item = self.catalog.tools.callable.get(name)
        return item if item is None or self._settings is None or self._shows(item, self._tools) else None

    def prompt(self, name: str) -> Item | None:
        """The prompt that a name means."""
        item = self.catalog.prompts.callable.get(name)
        return item if item is None or self._settings is None or self._shows(item, self._prompts) else None

    def alternatives(self, name: str, kind: Named) -> list[str]:
        """The shown names that an ambiguous name may stand for."""
        return [other for other in kind.ambiguous.get(name, ()) if self._is_shown(other, kind)]

    @cached_property
    def tools(self) -> dict[str, Item]:
        """Every tool by its name here."""
        return self._named(self.catalog.tools, self._tools)

    @cached_property
    def prompts(self) -> dict[str, Item]:
        """Every prompt by its name here."""
        return self._named(self.catalog.prompts, self._prompts)

    @cached_property
    def resources(self) -> dict[str, Item]:
        """Every listed resource by its URI here."""
        return self._addressed(self.catalog.resources)

    @cached_property
    def templates(self) -> dict[str, Item]:
        """Every resource template by its URI template here."""
        return self._addressed(self.catalog.templates)

    def _shows(self, item: Item, view: View) -> bool:
        return self.has(item.server) and view.names(item.name, item.qualified) and _may_be_used(item, view)

    def _is_shown(self, name: str, kind: Named) -> bool:
        return (self.tool(name) if kind is self.catalog.tools else self.prompt(name)) is not None

    def _named(self, kind: Named, view: View) -> dict[str, Item]:
        if self._settings is None:
            return kind.listed
        found, servers = view.choose(kind.listed, _qualified), self._servers
        return {
            name: item
            for name, item in found.items()
            if (servers is None or item.server in servers) and _may_be_used(item, view)
        }

    def _addressed(self, kind: Addressed) -> dict[str, Item]:
        if self._servers is None:
            return kind.listed
        return {uri: item for uri, item in kind.listed.items() if item.server in self._servers}


def _qualified(item: Item) -> str:
    return item.qualified


def _may_be_used(item: Item, view: View) -> bool:
    """Whether the view does not exclude the item's unprefixed name and, if it is read-only, the tool is too."""
    # An excluded name stays excluded when a collision with another server gives it a prefix.
    if item.wanted != item.name and view.leaves_out(item.wanted):
        return False
    return not view.read_only or ((hints := item.annotations) is not None and hints.read_only_hint is True)
