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
from hubbub.governance.decision import Target, TargetKind
from hubbub.hub.catalog import Item
from hubbub.hub.config import CALL, HUB_ID, SEARCH, STATUS, STATUS_URI
from hubbub.hub.list_entries import build_entry
from hubbub.hub.snapshot import Entry
from hubbub.hub.status import HubStatus, build_status
from hubbub.protocol.meta_keys import HUB, own_meta
from hubbub.protocol.results import ToolAnnotations
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN
from hubbub.protocol.tool_names import safe_name
from hubbub.server.context import Context

if TYPE_CHECKING:
    from hubbub.hub.front import Front
    from hubbub.server.tools import Tool

_STATUS_NAMES: Final = (STATUS, safe_name(STATUS))
_READ_ONLY: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


class FoundTool(msgspec.Struct, rename="camel", omit_defaults=True):
    """One tool that matches a search."""

    name: str
    server: str
    description: Any = None
    input_schema: Any = None


class FoundTools(msgspec.Struct):
    """The result of a search."""

    tools: list[FoundTool]
    total: int
    """Number of tools that were searched."""


class CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `hub.call`."""

    name: str
    arguments: Raw = Raw(b"{}")


_CALL_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The tool's name, as hub.search returns it."},
        "arguments": {"type": "object", "description": "The tool's arguments, as its inputSchema describes them."},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def register_builtins(front: Front) -> None:
    """Register the hub's own tools and resources on a front."""

    @front.tool(name=STATUS, annotations=_READ_ONLY, meta=own_meta(HUB, front.hub.id))
    async def status(context: Context) -> HubStatus:
        """Report the servers behind this hub, the state of each, and current problems."""
        return build_status(front, context.caller)

    @front.tool(name=SEARCH, annotations=_READ_ONLY)
    async def search(
        query: Annotated[str, msgspec.Meta(description="A few words about the task.")],
        limit: Annotated[int, msgspec.Meta(ge=1, le=bounds.HUB_SEARCH_RESULTS)] = 10,
        *,
        context: Context,
    ) -> FoundTools:
        """Find tools for a task among all tools of this hub; call them with hub.call."""
        await front.hub.wait_connected()
        visible = front.visible_to(context.caller)
        front.hub.remember_names(front.hub.catalog)
        return FoundTools(
            [_make_found_tool(front, item) for item in visible.index.find(query, limit)],
            len(visible.catalog_view.tools),
        )

    @front.tool(name=CALL, input_schema=_CALL_SCHEMA)
    async def call() -> None:
        """Call a tool that hub.search found, by its name and with its arguments."""
        raise ToolError("the front forwards hub.call and does not run this function")

    @front.resource(STATUS_URI, name="status", mime_type="application/json")
    async def read_status(context: Context) -> HubStatus:
        """The servers behind this hub, and the state of each."""
        return build_status(front, context.caller)


def builtin_items(front: Front) -> dict[str, dict[str, Item]]:
    """The hub's own tools and resources of a front, as catalog items."""
    resources = [entry for _, entry in front.resources.entries()]
    templates = [function.template_entry for function in front.resources.templates()]
    tools = [(front.tools.listed_name(tool), tool.entry(NEWEST_MODERN)) for tool in front.tools.all()]
    return {
        "tools": {name: _make_item("tool", name, entry.name, entry) for name, entry in tools},
        "prompts": {},
        "resources": {entry.uri: _make_item("resource", entry.uri, entry.uri, entry) for entry in resources},
        "templates": {
            entry.uri_template: _make_item("template", entry.uri_template, entry.uri_template, entry)
            for entry in templates
        },
    }


def builtin_target(tool: Tool) -> Target:
    """One of the hub's own tools, as policies see it."""
    return Target("tool", HUB_ID, tool.name, tool.annotations)


def is_status_tool(entry: Entry, hub: str) -> bool:
    """Whether a listed tool is the status of the hub with this id."""
    meta = entry.members.get("_meta") if entry.name in _STATUS_NAMES else None
    return meta is not None and hub.encode() in bytes(meta)


def _make_item(kind: TargetKind, name: str, upstream_name: str, entry: Any) -> Item:
    return Item(kind, name, HUB_ID, Entry(upstream_name, _decode(_encode(entry))), NEWEST_MODERN)


def _make_found_tool(front: Front, item: Item) -> FoundTool:
    description = front.catalog_view.descriptions.get(item.name, item.description)
    members = build_entry(item, "tools", NEWEST_LEGACY, front.hub.entry_meta(item.server), description)
    return FoundTool(item.name, item.server, members.get("description"), members.get("inputSchema"))
