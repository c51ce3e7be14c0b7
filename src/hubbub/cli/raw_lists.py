"""Complete lists as the server sent them, for `--json`: all pages joined, no field lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.client.client import Client
from hubbub.client.pagination import collect_items


async def raw_list(client: Client, fetch: Callable[..., Awaitable[Any]], key: str) -> dict[str, list[Raw]]:
    """`{key: [...]}` with the entries of every page.

    Raises: HubbubError.
    """

    def entries(page: Any) -> list[Raw]:
        members = msgspec.json.decode(page.raw, type=dict[str, Raw])
        return msgspec.json.decode(members.get(key, Raw(b"[]")), type=list[Raw])

    return {key: await collect_items(client, fetch, entries)}
