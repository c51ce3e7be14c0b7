"""List entries of upstreams in the form of the caller's revision, taken apart one level deep.

Members that nobody here knows pass through. What `hubbub.protocol.shape` does for entries
of our own, this does for those that came as JSON.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.hub.catalog import Item
from hubbub.protocol.revisions import Revision

Kind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]

SERVER_KEY: Final = "hubbub/server"
STALE_KEY: Final = "hubbub/stale"
REASON_KEY: Final = "hubbub/reason"
_NAME_OF: Final = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
_NEVER: Final = ("execution",)
"""Extensions that a hub does not speak, so that nobody may rely on them."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_TRUE: Final = Raw(b"true")


class Health(msgspec.Struct, frozen=True):
    """How the server of an entry is doing."""

    server: Raw
    is_stale: bool = False
    reason: str | None = None


def entry_for(item: Item, kind: Kind, revision: Revision, health: Health, description: str | None) -> dict[str, Raw]:
    """One entry as `*/list` shows it in this revision."""
    members = dict(item.entry.members)
    key = _NAME_OF[kind]
    if item.name != item.own:
        members[key] = Raw(_encode(item.name))
    if description is not None:
        members["description"] = Raw(_encode(description))
    for name in _NEVER:
        members.pop(name, None)
    if kind == "tools":
        _older_tool(members, revision)
    if not revision.titles:
        members.pop("title", None)
        members.pop("_meta", None)
    else:
        members["_meta"] = _meta(members.get("_meta"), health)
    if not revision.icons:
        members.pop("icons", None)
    return members


def _older_tool(members: dict[str, Raw], revision: Revision) -> None:
    if not revision.annotations:
        members.pop("annotations", None)
    schema = members.get("outputSchema")
    if schema is None or revision.structured == "any":
        return
    older = None if revision.structured == "none" else _object_schema(schema)
    if older is None:
        del members["outputSchema"]
    else:
        members["outputSchema"] = older


def _object_schema(schema: Raw) -> Raw | None:
    """The schema where results are objects: others are wrapped; None if it may be both."""
    try:
        kind: Any = msgspec.json.decode(_decode(schema).get("type", b"null"))
    except msgspec.DecodeError:
        return None
    if kind == "object":
        return schema
    if isinstance(kind, str):
        wrapped = b'{"type":"object","properties":{"result":' + bytes(schema) + b'},"required":["result"]}'
        return Raw(wrapped)
    return None


def _meta(said: Raw | None, health: Health) -> Raw:
    meta: dict[str, Any] = {}
    if said is not None:
        try:
            meta.update(_decode(said))
        except msgspec.DecodeError:
            pass  # what is no object says nothing
    meta[SERVER_KEY] = health.server
    if health.is_stale:
        meta[STALE_KEY] = _TRUE
        if health.reason is not None:
            meta[REASON_KEY] = health.reason
    return Raw(_encode(meta))
