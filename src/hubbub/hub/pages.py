"""The lists of one front, encoded once for each revision and cached until something changes.

A page is the encoded bytes of its entries, shared by all callers. A cursor is sealed and names the last entry sent, so
that changes between two pages neither skip nor repeat the entries that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import InvalidParams
from hubbub.hub.catalog import Item
from hubbub.hub.entries import Health, Kind, encoded
from hubbub.ports import Sealer
from hubbub.protocol.model import Reply
from hubbub.protocol.revisions import Revision


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


_PAGES: Final = {"tools": ToolsPage, "prompts": PromptsPage, "resources": ResourcesPage, "templates": TemplatesPage}


class _Cursor(msgspec.Struct, array_like=True):
    index: int
    name: str


class Pages:
    """The encoded lists of one front, cached until `forget`."""

    def __init__(self, items: Callable[[Kind], Mapping[str, Item]], health: Callable[[str], Health]) -> None:
        self._items = items
        self._health = health
        self._pages: dict[tuple[Kind, str, int], tuple[Raw, str | UnsetType]] = {}

    def forget(self) -> None:
        """Drop all pages, because an item or the health of a server has changed."""
        self._pages.clear()

    def page(
        self,
        kind: Kind,
        revision: Revision,
        cursor: str | UnsetType,
        sealer: Sealer,
        descriptions: Mapping[str, str],
    ) -> Reply:
        """Return one page of a list.

        Raises:
            InvalidParams: the cursor was not issued by this list.
        """
        items = self._items(kind)
        start = 0 if cursor is UNSET else _start(list(items), _open(cursor, kind, sealer))
        key = (kind, revision.version, start)
        found = self._pages.get(key)
        if found is None:
            found = self._pages[key] = self._encoded(kind, items, revision, start, sealer, descriptions)
        return _PAGES[kind](found[0], found[1])

    def _encoded(
        self,
        kind: Kind,
        shown: Mapping[str, Item],
        revision: Revision,
        start: int,
        sealer: Sealer,
        descriptions: Mapping[str, str],
    ) -> tuple[Raw, str | UnsetType]:
        items = list(shown.values())
        end = start + bounds.PAGE_ITEMS
        healths: dict[str, Health] = {}
        written: list[bytes] = []
        for item in items[start:end]:
            health = healths.get(item.server)
            if health is None:
                health = healths[item.server] = self._health(item.server)
            description = descriptions.get(item.name, item.description) if kind == "tools" else item.description
            written += (b"," if written else b"[", encoded(item, kind, revision, health, description))
        cursor: str | UnsetType = UNSET
        if end < len(items):
            cursor = sealer.seal(f"cursor hub {kind}", [end, items[end - 1].name])
        written.append(b"]" if written else b"[]")
        return Raw(b"".join(written)), cursor


def _open(text: str, kind: Kind, sealer: Sealer) -> _Cursor:
    try:
        return msgspec.convert(sealer.open(f"cursor hub {kind}", text), _Cursor)
    except (ValueError, msgspec.ValidationError):
        raise InvalidParams("Invalid params: this cursor was not issued by this list; start without one") from None


def _start(names: list[str], cursor: _Cursor) -> int:
    """The index after the last entry sent; if that entry is gone, the index where it was."""
    if 0 < cursor.index <= len(names) and names[cursor.index - 1] == cursor.name:
        return cursor.index
    try:
        return names.index(cursor.name) + 1
    except ValueError:
        return min(max(0, cursor.index - 1), len(names))
