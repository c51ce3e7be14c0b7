"""The hub's own tools and resources, which every front has besides those of its servers.

They are registered on each front as on any server, so that they see only that front's view. `hub.call` is only
declared here: the front forwards its arguments without decoding them.
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
from hubbub.protocol.meta_keys import HUB, own_meta
from hubbub.protocol.names import safe_name
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN
from hubbub.protocol.wire import ToolAnnotations
from hubbub.server.context import Context

if TYPE_CHECKING:
    from hubbub.hub.front import Front

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
    """Number of tools that were searched."""


class CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `hub.call`."""

    name: str
    arguments: Raw = Raw(b"{}")


_CALL_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The tool's name, as hub.search gives it."},
        "arguments": {"type": "object", "description": "What the tool takes, as its inputSchema says."},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def add_own(front: Front) -> None:
    """Register the hub's own tools and resources on a front."""

    @front.tool(name=STATUS, annotations=_READS, meta=own_meta(HUB, front.hub.id))
    async def status(context: Context) -> HubStatus:
        """Tell which servers are behind this hub, how each is doing, and what is wrong."""
        return status_of(front, context.caller)

    @front.tool(name=SEARCH, annotations=_READS)
    async def search(
        query: Annotated[str, msgspec.Meta(description="A few words on what is to be done.")],
        limit: Annotated[int, msgspec.Meta(ge=1, le=bounds.HUB_FOUND_TOOLS)] = 10,
        *,
        context: Context,
    ) -> FoundTools:
        """Find tools for a task among all that this hub has; call them with hub.call."""
        await front.hub.connected()
        seen = front.visible_to(context.caller)
        front.hub.remember_names(front.hub.catalog)
        return FoundTools([_found(front, item) for item in seen.index.find(query, limit)], len(seen.shown.tools))

    @front.tool(name=CALL, input_schema=_CALL_SCHEMA)
    async def call() -> None:
        """Call a tool that hub.search has found, with its own name and arguments."""
        raise ToolError("hub.call is passed on by the hub itself")

    @front.resource(STATUS_URI, name="status", mime_type="application/json")
    async def read_status(context: Context) -> HubStatus:
        """Which servers are behind this hub, and how each is doing."""
        return status_of(front, context.caller)


def own_items(front: Front) -> dict[str, dict[str, Item]]:
    """The hub's own tools and resources of a front, as catalog items."""
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
