"""List entries of upstreams as the hub shows them: under its names, marked with whose they are.

Taken apart one level deep; members that nobody here knows pass through. What a revision
knows is decided in `hubbub.protocol.passed`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.hub.catalog import Item
from hubbub.hub.snapshot import Entry
from hubbub.protocol.passed import entry_for as older_entry
from hubbub.protocol.revisions import Revision

Kind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]

SERVER_KEY: Final = "hubbub/server"
STALE_KEY: Final = "hubbub/stale"
REASON_KEY: Final = "hubbub/reason"
HUBS_KEY: Final = "hubbub/hubs"
"""The ids of the hubs that an entry came through, by which each knows what is its own."""
_NAME_OF: Final = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
_NEVER: Final = ("execution",)
"""Extensions that a hub does not speak, so that nobody may rely on them."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_TRUE: Final = Raw(b"true")


class Health(msgspec.Struct, frozen=True):
    """How the server of an entry is doing."""

    server: Raw
    hub: str = ""
    """The id of the hub that shows it."""
    is_stale: bool = False
    reason: str | None = None
    meta: Raw = Raw()
    """The `_meta` of an entry that has none of its own; filled in by itself."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "meta", Raw(_encode(self._marked({}))))

    def marked(self, said: Raw) -> Raw:
        """The `_meta` of an entry that has said something there."""
        try:
            return Raw(_encode(self._marked(_decode(said))))
        except msgspec.DecodeError:
            return self.meta  # what is no object says nothing

    def _marked(self, meta: dict[str, Any]) -> dict[str, Any]:
        meta[SERVER_KEY] = self.server
        if self.hub:
            meta[HUBS_KEY] = [*_hubs(meta.get(HUBS_KEY)), self.hub]
        if self.is_stale:
            meta[STALE_KEY] = _TRUE
            if self.reason is not None:
                meta[REASON_KEY] = self.reason
        return meta


def encoded(item: Item, kind: Kind, revision: Revision, health: Health, description: str | None) -> bytes:
    """One entry as `*/list` shows it in this revision. Kept with the item: all views show it alike."""
    if health.is_stale:  # which is said in words that change
        return _encode(entry_for(item, kind, revision, health, description))
    key = (revision.version, description)
    found = item.encoded.get(key)
    if found is None:
        found = item.encoded[key] = _encode(entry_for(item, kind, revision, health, description))
    return found


def entry_for(item: Item, kind: Kind, revision: Revision, health: Health, description: str | None) -> dict[str, Raw]:
    """The same, not yet encoded."""
    members = older_entry(item.entry.members, item.revision, revision)
    key = _NAME_OF[kind]
    if item.name != item.own:
        members[key] = Raw(_encode(item.name))
    if description is not None:
        members["description"] = Raw(_encode(description))
    for name in _NEVER:
        members.pop(name, None)
    if revision.titles:
        said = members.get("_meta")
        members["_meta"] = health.meta if said is None else health.marked(said)
    return members


def came_through(entry: Entry, hub: str) -> bool:
    """Whether an entry was shown by the hub with this id before it came here."""
    meta = entry.members.get("_meta")
    if meta is None or hub.encode() not in bytes(meta):
        return False
    try:
        return hub in _hubs(_decode(meta).get(HUBS_KEY))
    except msgspec.DecodeError:
        return False


def _hubs(said: Raw | None) -> list[str]:
    try:
        return [] if said is None else msgspec.json.decode(said, type=list[str])
    except msgspec.DecodeError:
        return []
