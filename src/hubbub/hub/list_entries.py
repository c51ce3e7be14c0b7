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
from hubbub.protocol.meta_keys import HUBS, REASON, SERVER, STALE, own_meta, read_own_meta
from hubbub.protocol.revisions import Revision
from hubbub.protocol.shape import shape_raw_entry as downgrade_entry

ListKind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]

_NAME_KEYS: Final = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
_UNSUPPORTED_MEMBERS: Final = ("execution",)
"""Members of extensions that a hub does not support; removed, so that no client relies on them."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_TRUE: Final = Raw(b"true")


class EntryMeta(msgspec.Struct, frozen=True):
    """Health of the server of an entry."""

    server: Raw
    hub: str = ""
    """The id of the hub that shows it."""
    is_stale: bool = False
    reason: str | None = None
    meta: Raw = Raw()
    """The `_meta` of an entry that has none of its own; computed in `__post_init__`."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "meta", Raw(_encode(self._add_marks({}))))

    def add_to(self, raw_meta: Raw) -> Raw:
        """Add the marks of the hub to the `_meta` of an entry."""
        try:
            return Raw(_encode(self._add_marks(_decode(raw_meta))))
        except msgspec.DecodeError:
            return self.meta  # not an object: ignored

    def _add_marks(self, meta: dict[str, Any]) -> dict[str, Any]:
        meta |= own_meta(SERVER, self.server)
        if self.hub:
            meta |= own_meta(HUBS, [*_hub_ids(meta), self.hub])
        if self.is_stale:
            meta |= own_meta(STALE, _TRUE)
            if self.reason is not None:
                meta |= own_meta(REASON, self.reason)
        return meta


def encode_entry(
    item: Item, kind: ListKind, revision: Revision, entry_meta: EntryMeta, description: str | None
) -> bytes:
    """Encode one entry for `*/list` in this revision. Cached in the item, because all views show the same bytes."""
    if entry_meta.is_stale:  # not cached, because the reason may change
        return _encode(build_entry(item, kind, revision, entry_meta, description))
    key = (revision.version, description)
    found = item.encoded.get(key)
    if found is None:
        found = item.encoded[key] = _encode(build_entry(item, kind, revision, entry_meta, description))
    return found


def build_entry(
    item: Item, kind: ListKind, revision: Revision, entry_meta: EntryMeta, description: str | None
) -> dict[str, Raw]:
    """Build one entry for `*/list` in this revision."""
    raw_meta = item.entry.members.get("_meta")
    meta = entry_meta.meta if raw_meta is None else entry_meta.add_to(raw_meta)
    members = downgrade_entry(item.entry.members | {"_meta": meta}, item.revision, revision)
    key = _NAME_KEYS[kind]
    if item.name != item.upstream_name:
        members[key] = Raw(_encode(item.name))
    if description is not None:
        members["description"] = Raw(_encode(description))
    for name in _UNSUPPORTED_MEMBERS:
        members.pop(name, None)
    return members


def passed_through(entry: Entry, hub: str) -> bool:
    """Whether an entry was shown by the hub with this id before it came here."""
    meta = entry.members.get("_meta")
    if meta is None or hub.encode() not in bytes(meta):
        return False
    try:
        return hub in _hub_ids(_decode(meta))
    except msgspec.DecodeError:
        return False


def _hub_ids(meta: dict[str, Any]) -> list[str]:
    """The hubs that an entry came through, in order."""
    found: dict[str, None] = {}
    for raw_meta in read_own_meta(meta, HUBS):
        try:
            found |= dict.fromkeys(msgspec.json.decode(raw_meta, type=list[str]))
        except msgspec.DecodeError:
            continue
    return list(found)
