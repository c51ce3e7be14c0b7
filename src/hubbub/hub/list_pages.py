"""The lists of one front, encoded once for each revision and cached until something changes.

A page is the encoded bytes of its entries, shared by all callers. A cursor is sealed for its caller and names the last
entry sent, so that changes between two pages neither skip nor repeat the entries that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import InvalidParams
from hubbub.hub.catalog import Item
from hubbub.hub.list_entries import EntryMeta, ListKind, encode_entry
from hubbub.ports import Sealer
from hubbub.protocol.calls import ANONYMOUS, Principal, Reply
from hubbub.protocol.revisions import Revision
from hubbub.server.pagination import cursor_purpose


class ToolsPage(Reply):
    """`tools/list`, its entries already encoded."""

    tools: Raw
    next_cursor: str | UnsetType = UNSET


class PromptsPage(Reply):
    """`prompts/list`"""

    prompts: Raw
    next_cursor: str | UnsetType = UNSET


class ResourcesPage(Reply):
    """`resources/list`"""

    resources: Raw
    next_cursor: str | UnsetType = UNSET


class TemplatesPage(Reply):
    """`resources/templates/list`"""

    resource_templates: Raw
    next_cursor: str | UnsetType = UNSET


_PAGE_TYPES: Final = {
    "tools": ToolsPage,
    "prompts": PromptsPage,
    "resources": ResourcesPage,
    "templates": TemplatesPage,
}


class _Cursor(msgspec.Struct, array_like=True):
    index: int
    name: str


class ListPages:
    """The encoded lists of one front, cached until `clear`."""

    def __init__(self, items: Callable[[ListKind], Mapping[str, Item]], entry_meta: Callable[[str], EntryMeta]) -> None:
        self._items = items
        self._entry_meta = entry_meta
        self._pages: dict[tuple[ListKind, str, int], tuple[Raw, _Cursor | None]] = {}

    def clear(self) -> None:
        """Drop all pages, because an item or the health of a server has changed."""
        self._pages.clear()

    def page(
        self,
        kind: ListKind,
        revision: Revision,
        cursor: str | UnsetType,
        sealer: Sealer,
        descriptions: Mapping[str, str],
        principal: Principal = ANONYMOUS,
    ) -> Reply:
        """Return one page of a list.

        Raises:
            InvalidParams: the cursor was not issued by this list, or for another principal.
        """
        items, purpose = self._items(kind), cursor_purpose(f"hub {kind}", principal)
        start = 0 if cursor is UNSET else _find_start(list(items), _open_cursor(cursor, purpose, sealer))
        key = (kind, revision.version, start)
        found = self._pages.get(key)
        if found is None:
            found = self._pages[key] = self._encode_page(kind, items, revision, start, descriptions)
        entries, last = found
        return _PAGE_TYPES[kind](entries, UNSET if last is None else sealer.seal(purpose, msgspec.to_builtins(last)))

    def _encode_page(
        self,
        kind: ListKind,
        items_by_name: Mapping[str, Item],
        revision: Revision,
        start: int,
        descriptions: Mapping[str, str],
    ) -> tuple[Raw, _Cursor | None]:
        items = list(items_by_name.values())
        end = start + bounds.PAGE_ITEMS
        entry_metas: dict[str, EntryMeta] = {}
        chunks: list[bytes] = []
        for item in items[start:end]:
            entry_meta = entry_metas.get(item.server)
            if entry_meta is None:
                entry_meta = entry_metas[item.server] = self._entry_meta(item.server)
            description = descriptions.get(item.name, item.description) if kind == "tools" else item.description
            chunks += (b"," if chunks else b"[", encode_entry(item, kind, revision, entry_meta, description))
        cursor = _Cursor(end, items[end - 1].name) if end < len(items) else None
        chunks.append(b"]" if chunks else b"[]")
        return Raw(b"".join(chunks)), cursor


def _open_cursor(text: str, purpose: str, sealer: Sealer) -> _Cursor:
    try:
        return msgspec.convert(sealer.open(purpose, text), _Cursor)
    except (ValueError, msgspec.ValidationError):
        raise InvalidParams(
            "Invalid params: this cursor is not valid for this list; request the first page without a cursor"
        ) from None


def _find_start(names: list[str], cursor: _Cursor) -> int:
    """The index after the last entry sent; if that entry is gone, the index where it was."""
    if 0 < cursor.index <= len(names) and names[cursor.index - 1] == cursor.name:
        return cursor.index
    try:
        return names.index(cursor.name) + 1
    except ValueError:
        return min(max(0, cursor.index - 1), len(names))
