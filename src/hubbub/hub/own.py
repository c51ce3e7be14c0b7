"""The hub's own tools and resources: what every front has besides what its servers have.

Registered on each front like on any server, so that they see that front's view and nothing
else. `hub.call` is only declared here: the front passes it on raw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Raw

from hubbub import bounds
from hubbub.errors import ToolError
from hubbub.hub.catalog import Item
from hubbub.hub.config import CALL, OWN, SEARCH, STATUS, STATUS_URI
from hubbub.hub.entries import entry_for
from hubbub.hub.snapshot import Entry
from hubbub.hub.status import HubStatus, status_of
from hubbub.protocol.names import safe_name
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN
from hubbub.protocol.wire import ToolAnnotations

if TYPE_CHECKING:
    from hubbub.hub.front import Front

_HUB_KEY: Final = "hubbub/hub"
_STATUS_NAMES: Final = (STATUS, safe_name(STATUS))
_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


class Found(msgspec.Struct, rename="camel", omit_defaults=True):
    """One tool that fits a search."""

    name: str
    server: str
    description: Any = None
    input_schema: Any = None


class FoundTools(msgspec.Struct):
    """What a search gives."""

    tools: list[Found]
    total: int
    """How many tools there are to search in."""


class CallArguments(msgspec.Struct):
    """What `hub.call` takes."""

    name: str
    arguments: Raw = Raw(b"{}")


_CALL_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The tool's name, as hub.search gives it."},
        "arguments": {"type": "object", "description": "What the tool takes, as its inputSchema says."},
    },
    "required": ["name"],
}


def add_own(front: Front) -> None:
    """Give a front the tools and resources of the hub."""

    @front.tool(name=STATUS, annotations=_READS, meta={_HUB_KEY: front.hub.id})
    async def status() -> HubStatus:
        """Tell which servers are behind this hub, how each is doing, and what is wrong."""
        return status_of(front)

    @front.tool(name=SEARCH, annotations=_READS)
    async def search(
        query: Annotated[str, msgspec.Meta(description="A few words on what is to be done.")],
        limit: Annotated[int, msgspec.Meta(ge=1, le=bounds.HUB_FOUND_TOOLS)] = 10,
    ) -> FoundTools:
        """Find tools for a task among all that this hub has; call them with hub.call."""
        await front.hub.connected()
        items = front.index.find(query, limit)
        return FoundTools([_found(front, item) for item in items], len(front.shown.tools))

    @front.tool(name=CALL, input_schema=_CALL_SCHEMA)
    async def call() -> None:
        """Call a tool that hub.search has found, with its own name and arguments."""
        raise ToolError("hub.call is passed on by the hub itself")

    @front.resource(STATUS_URI, name="status", mime_type="application/json")
    async def read_status() -> HubStatus:
        """Which servers are behind this hub, and how each is doing."""
        return status_of(front)


def own_items(front: Front) -> dict[str, dict[str, Item]]:
    """What a front has of its own, in the form of what its servers have."""
    resources = [entry for _, entry in front.resources.entries()]
    templates = [function.template_entry for function in front.resources.templates()]
    tools = [(front.tools.listed_name(tool), tool.entry(NEWEST_MODERN)) for tool in front.tools.all()]
    return {
        "tools": {name: _item(name, entry.name, entry) for name, entry in tools},
        "prompts": {},
        "resources": {entry.uri: _item(entry.uri, entry.uri, entry) for entry in resources},
        "templates": {entry.uri_template: _item(entry.uri_template, entry.uri_template, entry) for entry in templates},
    }


def is_status_of(entry: Entry, hub: str) -> bool:
    """Whether a listed tool is the status of the hub with this id."""
    meta = entry.members.get("_meta") if entry.name in _STATUS_NAMES else None
    return meta is not None and hub.encode() in bytes(meta)


def _item(name: str, own: str, entry: Any) -> Item:
    return Item(name, OWN, Entry(own, _decode(_encode(entry))), NEWEST_MODERN)


def _found(front: Front, item: Item) -> Found:
    description = front.shown.descriptions.get(item.name, item.description)
    members = entry_for(item, "tools", NEWEST_LEGACY, front.hub.health(item.server), description)
    return Found(item.name, item.server, members.get("description"), members.get("inputSchema"))
