"""What all upstreams together have, under the names that clients see.

A value: built anew from the snapshots when one of them or the config has changed, and
swapped in whole. Finding something in it is a look into a dictionary; what a view shows
of it is `hubbub.hub.views`' matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from hubbub.errors import DefinitionError
from hubbub.hub.config import OWN, OWN_TOOLS, HubConfig, UpstreamConfig
from hubbub.hub.names import Collision, Names, Offer, Rule, Style, assign, scheme_of
from hubbub.hub.snapshot import Entry, Snapshot
from hubbub.protocol.headers import header_parameters
from hubbub.protocol.revisions import Revision
from hubbub.protocol.uri_template import UriTemplate
from hubbub.protocol.wire import ToolAnnotations
from hubbub.server.views import EVERYTHING, View
from hubbub.settings.servers import ToolSettings

_RESERVED = tuple(Offer(OWN, name) for name in OWN_TOOLS)
_AS_IT_IS = ToolSettings()
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
        """What clients call it: a name, or a URI."""
        self.wanted = name if wanted is None else wanted
        """What they would call it if no other server had that name too, and names had no limit."""
        self.server = server
        """The id of the upstream that has it."""
        self.entry = entry
        self.own = entry.name
        """What its own server calls it."""
        self.revision = revision
        """How that server speaks."""
        self.description = description
        """What clients read about it instead of what its server says."""
        self.encoded: dict[tuple[str, str | None], bytes] = {}
        """How lists show it, by revision and description: see `hubbub.hub.entries`."""

    @property
    def qualified(self) -> str:
        """What patterns with a slash are compared with."""
        return f"{self.server}/{self.own}"

    @property
    def annotations(self) -> ToolAnnotations | None:
        """What the tool says about itself."""
        return self.entry.annotations

    @cached_property
    def headers(self) -> Mapping[str, tuple[str, ...]]:
        """Which arguments HTTP clients mirror in headers; none where the schema says it wrongly."""
        schema = self.entry.members.get("inputSchema")
        if schema is None or b"x-mcp-header" not in bytes(schema):
            return _NO_HEADERS
        try:
            return header_parameters(msgspec.json.decode(schema))
        except (DefinitionError, msgspec.DecodeError):
            return _NO_HEADERS

    @cached_property
    def template(self) -> UriTemplate | None:
        """The template of resources, if it is one that can be matched."""
        try:
            return UriTemplate(self.own)
        except DefinitionError:
            return None


class Offered(NamedTuple):
    """Something that one server has, before it is named."""

    offer: Offer
    entry: Entry
    revision: Revision
    description: str | None = None


class Named(msgspec.Struct, frozen=True):
    """Tools, or prompts."""

    listed: dict[str, Item] = {}
    callable: dict[str, Item] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    collisions: tuple[Collision, ...] = ()


class Addressed(msgspec.Struct, frozen=True):
    """Resources, or templates of them, by URI."""

    listed: dict[str, Item] = {}
    collisions: tuple[Collision, ...] = ()


class Catalog(msgspec.Struct, frozen=True):
    """Everything there is."""

    tools: Named = Named()
    prompts: Named = Named()
    resources: Addressed = Addressed()
    templates: Addressed = Addressed()
    schemes: Mapping[str, str] = {}
    """The upstream that a `server+` in front of a URI means."""

    @property
    def collisions(self) -> tuple[Collision, ...]:
        """Everything that is not called what its server calls it because another has it too."""
        found = (self.tools, self.prompts, self.resources, self.templates)
        return tuple(collision for part in found for collision in part.collisions)

    def own_uri(self, uri: str) -> tuple[str, str] | None:
        """The upstream and the URI there that a URI with `server+` in front means."""
        scheme, plus, rest = uri.partition("+")
        server = self.schemes.get(scheme) if plus else None
        return None if server is None else (server, rest)


def build(config: HubConfig, snapshots: Mapping[str, Snapshot]) -> Catalog:
    """The catalog of these upstreams, in the order of the config."""
    style = Style(config.hub.name_limit, config.lists_safe_names)
    rules = {OWN: Rule("never")} | {upstream.id: _rule(upstream) for upstream in config.upstreams}
    found: dict[str, list[Offered]] = {"tools": [], "prompts": [], "resources": [], "templates": []}
    for upstream in config.upstreams:
        snapshot = snapshots.get(upstream.id)
        if snapshot is None or snapshot.revision is None:
            continue
        for kind, entries in _shown(upstream, snapshot).items():
            for entry in entries:
                said = upstream.tools.get(entry.name, _AS_IT_IS) if kind == "tools" else _AS_IT_IS
                offer = Offer(upstream.id, entry.name)
                found[kind].append(Offered(offer, entry, snapshot.revision, said.description))
    schemes = _schemes(config)
    plain = {server: msgspec.structs.replace(rule, renamed={}) for server, rule in rules.items()}
    return Catalog(
        _named(found["tools"], _assigned([*_RESERVED, *(one.offer for one in found["tools"])], rules, style)),
        _named(found["prompts"], assign([one.offer for one in found["prompts"]], plain, style)),
        _addressed(found["resources"], schemes),
        _addressed(found["templates"], schemes),
        {scheme: server for server, scheme in schemes.items()},
    )


def _shown(upstream: UpstreamConfig, snapshot: Snapshot) -> dict[str, list[Entry]]:
    """What the config lets be seen of a server, by the names that it has there."""
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
    return EVERYTHING if view == EVERYTHING else view  # which has nothing to compare


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


def _named(found: Iterable[Offered], names: Names) -> Named:
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
    return Named(
        {name: items[offer] for offer, name in names.listed.items()},
        {name: items[offer] for name, offer in names.callable.items()},
        names.ambiguous,
        names.collisions,
    )


def _schemes(config: HubConfig) -> dict[str, str]:
    """What stands in front of a server's URIs, different for each server."""
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
    """The first in the file keeps a URI; the others get their server in front."""
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
