"""Whole lists as the server wrote them, for `--json`: all pages put together, no field lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.client.listing import all_pages


async def raw_list(fetch: Callable[[str | None], Awaitable[Any]], key: str) -> dict[str, list[Raw]]:
    """`{key: [...]}` with the entries of every page.

    Raises: HubbubError.
    """

    def entries(page: Any) -> list[Raw]:
        members = msgspec.json.decode(page.raw, type=dict[str, Raw])
        return msgspec.json.decode(members.get(key, Raw(b"[]")), type=list[Raw])

    return {key: await all_pages(fetch, entries)}
