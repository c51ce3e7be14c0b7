"""List entries of upstreams as the hub shows them: under its names, with their server in `_meta`.

Entries are decoded one level deep; unknown members pass through. `hubbub.protocol.shape` decides which members a
revision has.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.hub.catalog import Item
from hubbub.hub.snapshot import Entry
from hubbub.protocol.meta_keys import HUBS, REASON, SERVER, STALE, own_meta, read_own
from hubbub.protocol.revisions import Revision
from hubbub.protocol.shape import entry_for as older_entry

Kind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]

_NAME_OF: Final = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
_NEVER: Final = ("execution",)
"""Members of extensions that a hub does not support; removed, so that no client relies on them."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_TRUE: Final = Raw(b"true")


class Health(msgspec.Struct, frozen=True):
    """Health of the server of an entry."""

    server: Raw
    hub: str = ""
    """The id of the hub that shows it."""
    is_stale: bool = False
    reason: str | None = None
    meta: Raw = Raw()
    """The `_meta` of an entry that has none of its own; computed in `__post_init__`."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "meta", Raw(_encode(self._marked({}))))

    def marked(self, said: Raw) -> Raw:
        """Add the marks of the hub to the `_meta` of an entry."""
        try:
            return Raw(_encode(self._marked(_decode(said))))
        except msgspec.DecodeError:
            return self.meta  # not an object: ignored

    def _marked(self, meta: dict[str, Any]) -> dict[str, Any]:
        meta |= own_meta(SERVER, self.server)
        if self.hub:
            meta |= own_meta(HUBS, [*_hubs(meta), self.hub])
        if self.is_stale:
            meta |= own_meta(STALE, _TRUE)
            if self.reason is not None:
                meta |= own_meta(REASON, self.reason)
        return meta


def encoded(item: Item, kind: Kind, revision: Revision, health: Health, description: str | None) -> bytes:
    """Encode one entry for `*/list` in this revision. Cached in the item, because all views show the same bytes."""
    if health.is_stale:  # not cached, because the reason may change
        return _encode(entry_for(item, kind, revision, health, description))
    key = (revision.version, description)
    found = item.encoded.get(key)
    if found is None:
        found = item.encoded[key] = _encode(entry_for(item, kind, revision, health, description))
    return found


def entry_for(item: Item, kind: Kind, revision: Revision, health: Health, description: str | None) -> dict[str, Raw]:
    """Build one entry for `*/list` in this revision."""
    said = item.entry.members.get("_meta")
    meta = health.meta if said is None else health.marked(said)
    members = older_entry(item.entry.members | {"_meta": meta}, item.revision, revision)
    key = _NAME_OF[kind]
    if item.name != item.own:
        members[key] = Raw(_encode(item.name))
    if description is not None:
        members["description"] = Raw(_encode(description))
    for name in _NEVER:
        members.pop(name, None)
    return members


def came_through(entry: Entry, hub: str) -> bool:
    """Whether an entry was shown by the hub with this id before it came here."""
    meta = entry.members.get("_meta")
    if meta is None or hub.encode() not in bytes(meta):
        return False
    try:
        return hub in _hubs(_decode(meta))
    except msgspec.DecodeError:
        return False


def _hubs(meta: dict[str, Any]) -> list[str]:
    """The hubs that an entry came through, in order."""
    found: dict[str, None] = {}
    for said in read_own(meta, HUBS):
        try:
            found |= dict.fromkeys(msgspec.json.decode(said, type=list[str]))
        except msgspec.DecodeError:
            continue
    return list(found)
