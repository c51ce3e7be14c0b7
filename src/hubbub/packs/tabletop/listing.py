"""Whole lists as indented JSON text, written page by page, so that no list is in memory twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.packs.tabletop.model import Page, PageRequest

INDENT: Final = 2


def as_text(value: Any) -> str:
    """A value as the JSON text of a resource."""
    return msgspec.json.format(msgspec.json.encode(value), indent=INDENT).decode()


async def whole_list(name: str, fetch: Callable[[PageRequest], Awaitable[Page[Any]]]) -> str:
    """The text of `{name: [everything]}`."""
    opening, _, closing = as_text({name: [0]}).encode().partition(b"0")
    gap = b"," + opening[opening.rindex(b"\n") :]
    text, token = bytearray(), ""
    while True:
        page = await fetch(PageRequest(bounds.TABLE_LARGEST_PAGE, token))
        if page.items:
            # What stands between the brackets of one page is indented as it is in the whole.
            part = msgspec.json.format(msgspec.json.encode({name: page.items}), indent=INDENT)
            text += gap if text else opening
            text += memoryview(part)[len(opening) : -len(closing)]
        token = page.next_page_token
        if not token:
            break
    if not text:
        return as_text({name: []})
    text += closing
    return text.decode()
