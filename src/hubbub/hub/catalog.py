"""Everything that the upstreams offer, under the names that clients see.

A `Catalog` is a value: it is rebuilt when a snapshot or the config changes, and replaced as a whole. Finding an item is
a dictionary lookup. `hubbub.hub.catalog_view` is the part of it that a view shows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.governance.decision import Target, TargetKind
from hubbub.hub.config import BUILTIN_TOOLS, HUB_ID, HubConfig, UpstreamConfig
from hubbub.hub.known_names import NO_KNOWN_NAMES, UpstreamNames
from hubbub.hub.names import Collision, Names, NameStyle, NamingRule, Offer, assign_names, uri_scheme
from hubbub.hub.shared_names import SharedName
from hubbub.hub.snapshot import Entry, Snapshot
from hubbub.protocol.mcp_headers import header_parameters
from hubbub.protocol.results import ToolAnnotations
from hubbub.protocol.revisions import Revision
from hubbub.protocol.uri_template import UriTemplate
from hubbub.server.views import EVERYTHING, View
from hubbub.settings.servers import ToolSettings

_RESERVED_OFFERS = tuple(Offer(HUB_ID, name) for name in BUILTIN_TOOLS)
_DEFAULT_TOOL_SETTINGS = ToolSettings()
_OUTPUT_SCHEMA = "outputSchema"
_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}
_NO_NAMES: Mapping[str, UpstreamNames] = {}


class Item:
    """One tool, prompt, resource or template, as the hub shows it."""

    def __init__(
        self,
        kind: TargetKind,
        name: str,
        server: str,
        entry: Entry,
        revision: Revision,
        description: str | None = None,
        *,
        preferred_name: str | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        """The name or URI that clients use."""
        self.preferred_name = name if preferred_name is None else preferred_name
        """The name that it would have without collisions and without the length limit."""
        self.server = server
        """The id of the upstream that has it."""
        self.entry = entry
        self.upstream_name = entry.name
        """The name or URI on its own server."""
        self.revision = revision
        """The protocol revision of that server."""
        self.description = description
        """Replaces the server's description; None keeps it."""
        self.encoded: dict[tuple[str, str | None], bytes] = {}
        """Encoded list entries, by revision and description: see `hubbub.hub.list_entries`."""

    def rename(self, name: str, description: str | None) -> Item:
        """The same under another name."""
        return Item(
            self.kind, name, self.server, self.entry, self.revision, description, preferred_name=self.preferred_name
        )

    @property
    def qualified_name(self) -> str:
        """`server/name`, which patterns with a slash are matched against."""
        return f"{self.server}/{self.upstream_name}"

    @property
    def scopes(self) -> frozenset[str]:
        """Scopes that a caller needs to see it."""
        return self.entry.scopes

    @property
    def annotations(self) -> ToolAnnotations | None:
        """The tool's annotations, as its server lists them."""
        return self.entry.annotations

    @cached_property
    def target(self) -> Target:
        """The item as policies see it."""
        return Target(self.kind, self.server, self.upstream_name, self.annotations if self.kind == "tool" else None)

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
            return UriTemplate(self.upstream_name)
        except DefinitionError:
            return None


class OfferedEntry(NamedTuple):
    """An entry of one server, before it gets its name in the catalog."""

    offer: Offer
    entry: Entry
    revision: Revision
    description: str | None = None


class NamedItems(msgspec.Struct, frozen=True):
    """The tools or the prompts of a catalog, by name."""

    listed: dict[str, Item] = {}
    callable: dict[str, Item] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    collisions: tuple[Collision, ...] = ()
    shared_names: dict[str, SharedName] = {}
    """By the names that several would have without the others."""


class UriItems(msgspec.Struct, frozen=True):
    """The resources or the resource templates of a catalog, by URI."""

    listed: dict[str, Item] = {}
    collisions: tuple[Collision, ...] = ()
    shared_names: dict[str, SharedName] = {}


class ListedNames(msgspec.Struct, frozen=True):
    """What each name meant when it was last listed to a client."""

    tools: dict[str, Offer] = {}
    prompts: dict[str, Offer] = {}

    def add(self, catalog: Catalog) -> None:
        """Remember the names of a catalog that was listed."""
        for names, kind in ((self.tools, catalog.tools), (self.prompts, catalog.prompts)):
            for name, item in kind.listed.items():
                names.pop(name, None)
                names[name] = Offer(item.server, item.upstream_name)
            while len(names) > bounds.HUB_SHOWN_NAMES:
                del names[next(iter(names))]


class Catalog(msgspec.Struct, frozen=True):
    """Everything that the upstreams offer."""

    tools: NamedItems = NamedItems()
    prompts: NamedItems = NamedItems()
    resources: UriItems = UriItems()
    templates: UriItems = UriItems()
    schemes: Mapping[str, str] = {}
    """Maps the prefix of a URI (`server` in `server+file:///a`) to the id of its upstream."""
    scopes: frozenset[str] = frozenset()
    """Every scope that an entry requires."""

    def select(
        self, shows: Callable[[Item], bool], may_exist: Callable[[Target], bool] = lambda target: True
    ) -> Catalog:
        """The part of the catalog that a caller sees; names do not change.

        `may_exist`: whether the caller may see what is not listed now.
        """
        return msgspec.structs.replace(
            self,
            tools=_filter_names(self.tools, shows, may_exist),
            prompts=_filter_names(self.prompts, shows, may_exist),
            resources=_filter_uris(self.resources, shows, may_exist),
            templates=_filter_uris(self.templates, shows, may_exist),
        )

    @property
    def collisions(self) -> tuple[Collision, ...]:
        """Names and URIs that several servers have."""
        found = (self.tools, self.prompts, self.resources, self.templates)
        return tuple(collision for part in found for collision in part.collisions)

    def resolve_uri(self, uri: str) -> tuple[str, str] | None:
        """Resolve a URI with a `server+` prefix to the upstream and the URI there; None if it has no known prefix."""
        scheme, plus, rest = uri.partition("+")
        server = self.schemes.get(scheme) if plus else None
        return None if server is None else (server, rest)

    def prefix_uri(self, server: str, uri: str) -> str:
        """Add the prefix of a server, so that `resolve_uri` finds the URI there."""
        scheme = next(scheme for scheme, id in self.schemes.items() if id == server)
        return f"{scheme}+{uri}"


def build_catalog(
    config: HubConfig,
    snapshots: Mapping[str, Snapshot],
    known: Callable[[UpstreamConfig], UpstreamNames] = lambda upstream: NO_KNOWN_NAMES,
    listed_names: ListedNames | None = None,
    reserved: Mapping[str, UpstreamNames] = _NO_NAMES,
) -> Catalog:
    """Build the catalog of these upstreams, in the order of the config.

    Upstreams that were not reached yet take part in the naming with what is `known` of them. Names in
    `listed_names` were listed before and stay callable. Names in `reserved` belong to entries that a server has but
    that are not shown, by server: no other entry gets them.
    """
    listed_names = ListedNames() if listed_names is None else listed_names
    style = NameStyle(config.hub.name_limit, config.lists_safe_names)
    rules = {HUB_ID: NamingRule("never")} | {upstream.id: _naming_rule(upstream) for upstream in config.upstreams}
    found: dict[str, list[OfferedEntry]] = {"tools": [], "prompts": [], "resources": [], "templates": []}
    offered: dict[str, list[Offer]] = {"tools": list(_RESERVED_OFFERS), "prompts": []}
    for upstream in config.upstreams:
        snapshot = snapshots.get(upstream.id)
        if snapshot is None or snapshot.revision is None:
            for kind, offers in _expected_offers(upstream, known(upstream)).items():
                offered[kind] += offers
            continue
        for kind, offers in _expected_offers(upstream, reserved.get(upstream.id, NO_KNOWN_NAMES)).items():
            offered[kind] += offers
        for kind, entries in _shown_entries(upstream, snapshot).items():
            for entry in entries:
                if kind == "tools" and not config.hub.output_schemas and _OUTPUT_SCHEMA in entry.members:
                    members = {name: value for name, value in entry.members.items() if name != _OUTPUT_SCHEMA}
                    entry = msgspec.structs.replace(entry, members=members)
                tool_settings = (
                    upstream.tools.get(entry.name, _DEFAULT_TOOL_SETTINGS)
                    if kind == "tools"
                    else _DEFAULT_TOOL_SETTINGS
                )
                offer = Offer(upstream.id, entry.name)
                if kind in offered:
                    offered[kind].append(offer)
                found[kind].append(OfferedEntry(offer, entry, snapshot.revision, tool_settings.description))
    schemes = _assign_schemes(config)
    plain = {server: msgspec.structs.replace(rule, renamed={}) for server, rule in rules.items()}
    return Catalog(
        _build_named_items(
            "tool", found["tools"], _assign_tool_names(offered["tools"], rules, style), listed_names.tools
        ),
        _build_named_items(
            "prompt", found["prompts"], assign_names(offered["prompts"], plain, style), listed_names.prompts
        ),
        _build_uri_items("resource", found["resources"], schemes),
        _build_uri_items("template", found["templates"], schemes),
        {scheme: server for server, scheme in schemes.items()},
        frozenset().union(*(one.entry.scopes for part in found.values() for one in part)),
    )


def _filter_names(part: NamedItems, shows: Callable[[Item], bool], may_exist: Callable[[Target], bool]) -> NamedItems:
    listed, callable = _filter_items(part.listed, shows), _filter_items(part.callable, shows)
    shared_names = _filter_shared_names(part.shared_names, shows, may_exist)
    return NamedItems(listed, callable, part.ambiguous, _filter_collisions(part.collisions, listed), shared_names)


def _filter_uris(part: UriItems, shows: Callable[[Item], bool], may_exist: Callable[[Target], bool]) -> UriItems:
    listed = _filter_items(part.listed, shows)
    shared_names = _filter_shared_names(part.shared_names, shows, may_exist)
    return UriItems(listed, _filter_collisions(part.collisions, listed), shared_names)


def _filter_shared_names(
    shared_names: Mapping[str, SharedName], shows: Callable[[Item], bool], may_exist: Callable[[Target], bool]
) -> dict[str, SharedName]:
    return {name: shared.select(shows, may_exist) for name, shared in shared_names.items()}


def _filter_items(items: Mapping[str, Item], shows: Callable[[Item], bool]) -> dict[str, Item]:
    return {name: item for name, item in items.items() if shows(item)}


def _filter_collisions(collisions: Iterable[Collision], listed: Mapping[str, Item]) -> tuple[Collision, ...]:
    return tuple(one for one in collisions if all(name in listed for name in one.listed if name))


def _shown_entries(upstream: UpstreamConfig, snapshot: Snapshot) -> dict[str, list[Entry]]:
    """The entries of a server that its config does not hide, by kind."""
    tools = _make_view(upstream.include, upstream.exclude, upstream.read_only)
    prompts = _make_view(upstream.include, upstream.exclude)
    hidden = {name for name, tool_settings in upstream.tools.items() if tool_settings.hidden}
    return {
        "tools": [entry for entry in snapshot.tools if tools.shows(entry) and entry.name not in hidden],
        "prompts": [entry for entry in snapshot.prompts if prompts.shows(entry)],
        "resources": list(snapshot.resources),
        "templates": list(snapshot.templates),
    }


def _make_view(include: tuple[str, ...], exclude: tuple[str, ...], read_only: bool = False) -> View:
    view = View(include, exclude, read_only)
    return EVERYTHING if view == EVERYTHING else view  # `View.shows` skips all comparisons for this object


def _assign_tool_names(offers: Sequence[Offer], rules: Mapping[str, NamingRule], style: NameStyle) -> Names:
    """The names of tools, without those that belong to the hub itself."""
    names = assign_names(offers, rules, style)
    return msgspec.structs.replace(
        names,
        listed={offer: name for offer, name in names.listed.items() if offer.server != HUB_ID},
        callable={name: offer for name, offer in names.callable.items() if offer.server != HUB_ID},
    )


def _naming_rule(upstream: UpstreamConfig) -> NamingRule:
    renamed = {
        own: tool_settings.name for own, tool_settings in upstream.tools.items() if tool_settings.name is not None
    }
    return NamingRule(upstream.prefix, upstream.prefix_text, renamed)


def _expected_offers(upstream: UpstreamConfig, known: UpstreamNames) -> dict[str, list[Offer]]:
    """The offers that a server had when it was last reached, without those that its config hides."""
    view = _make_view(upstream.include, upstream.exclude)
    hidden = {name for name, tool_settings in upstream.tools.items() if tool_settings.hidden}
    return {
        "tools": [Offer(upstream.id, name) for name in known.tools if view.names(name) and name not in hidden],
        "prompts": [Offer(upstream.id, name) for name in known.prompts if view.names(name)],
    }


def _build_named_items(
    kind: TargetKind, found: Iterable[OfferedEntry], names: Names, listed_names: Mapping[str, Offer]
) -> NamedItems:
    items = {
        one.offer: Item(
            kind,
            names.listed.get(one.offer, one.offer.name),
            one.offer.server,
            one.entry,
            one.revision,
            one.description,
            preferred_name=names.preferred.get(one.offer),
        )
        for one in found
    }
    assigned = {name: offer for offer, name in names.listed.items()}
    callable_ = {name: items[offer] for name, offer in names.callable.items() if offer in items}
    for name, offer in listed_names.items():
        if name not in names.callable and offer in items:
            callable_[name] = items[offer]
    return NamedItems(
        {name: items[offer] for offer, name in names.listed.items() if offer in items},
        callable_,
        {name: others for name, others in names.ambiguous.items() if name not in callable_},
        names.collisions,
        {
            name: _make_shared_name(kind, (*offers, assigned.get(name, offers[0])), items, names.keepers)
            for name, offers in names.shared_names.items()
            if all(offer.server != HUB_ID for offer in offers)  # the hub's own tools keep their names
        },
    )


def _make_shared_name(
    kind: TargetKind, offers: Sequence[Offer], items: Mapping[Offer, Item], keepers: Container[Offer]
) -> SharedName:
    """`offers`: what would have the name without the others, and last, what has it now."""
    members = offers[:-1]
    found = {offer: items[offer] for offer in members if offer in items}
    kept = tuple(item for offer, item in found.items() if offer in keepers)
    absent = (Target(kind, offer.server, offer.name) for offer in dict.fromkeys(offers) if offer not in found)
    return SharedName(tuple(found.values()), kept, tuple(absent))


def _assign_schemes(config: HubConfig) -> dict[str, str]:
    """A unique URI prefix for each server."""
    schemes: dict[str, str] = {}
    for upstream in config.upstreams:
        first = scheme = uri_scheme(upstream.id)
        number = 1
        while scheme in schemes.values():
            number += 1
            scheme = f"{first}-{number}"
        schemes[upstream.id] = scheme
    return schemes


def _build_uri_items(kind: TargetKind, found: Iterable[OfferedEntry], schemes: Mapping[str, str]) -> UriItems:
    """The first server in the config keeps a URI; the same URI of later servers gets a prefix."""
    listed: dict[str, Item] = {}
    owners: dict[str, list[str]] = {}
    for offer, entry, revision, _ in found:
        uri = entry.name if entry.name not in listed else f"{schemes[offer.server]}+{entry.name}"
        owners.setdefault(entry.name, []).append(offer.server)
        listed.setdefault(uri, Item(kind, uri, offer.server, entry, revision))
    collisions = tuple(
        Collision(uri, tuple(servers), (uri, *(f"{schemes[server]}+{uri}" for server in servers[1:])))
        for uri, servers in owners.items()
        if len(servers) > 1
    )
    shared_names: dict[str, SharedName] = {}
    for one in collisions:
        items = tuple(listed[name] for name in dict.fromkeys(one.listed))
        shared_names[one.name] = SharedName(items, items)
    return UriItems(listed, collisions, shared_names)
