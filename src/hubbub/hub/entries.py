"""List entries of upstreams as the hub shows them: under its names, marked with whose they are.

Taken apart one level deep; members that nobody here knows pass through. What a revision
knows is decided in `hubbub.protocol.passed`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.hub.catalog import Item
from hubbub.protocol.passed import entry_for as older_entry
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
    members = older_entry(item.entry.members, item.revision, revision)
    key = _NAME_OF[kind]
    if item.name != item.own:
        members[key] = Raw(_encode(item.name))
    if description is not None:
        members["description"] = Raw(_encode(description))
    for name in _NEVER:
        members.pop(name, None)
    if revision.titles:
        members["_meta"] = _meta(members.get("_meta"), health)
    return members


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
