"""Reads the complete lists of a remote server, without changing the entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from hubbub.client.client import Client
from hubbub.client.listing import collect
from hubbub.errors import InvalidResponse, RemoteError
from hubbub.hub.snapshot import Entry, entries
from hubbub.protocol.error_forms import METHOD_NOT_FOUND

LISTS: Final = ("tools", "prompts", "resources", "templates")
_KEYS: Final = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
_MEMBERS: Final = {"templates": "resourceTemplates"}
_NOTHING: Final = Raw(b"[]")
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


async def list_all(client: Client, what: str) -> tuple[Entry, ...]:
    """Read all pages of one list; empty if the server has no such list.

    Raises: errors of `hubbub.errors`.
    """
    capabilities = client.server_capabilities
    if capabilities and ("resources" if what == "templates" else what) not in capabilities:
        return ()
    callable_names: set[str] = set()

    def items(page: Any) -> list[dict[str, Raw]]:
        if what == "tools":
            callable_names.update(tool.name for tool in page.tools)
        return _items(client.hide(page.raw), what)

    try:
        found = entries(await collect(client, _pages(client, what), items), _KEYS[what])
    except RemoteError as error:
        # Some servers declare lists that they do not have, and templates have no capability of their own.
        if error.code == METHOD_NOT_FOUND or what == "templates":
            return ()
        raise
    if what == "tools" and client.sends_tool_headers:
        found = tuple(entry for entry in found if entry.name in callable_names)
    return found


def _pages(client: Client, what: str) -> Callable[..., Awaitable[Any]]:
    match what:
        case "tools":
            return client.list_tools
        case "prompts":
            return client.list_prompts
        case "resources":
            return client.list_resources
        case _:
            return client.list_templates


def _items(page: Raw, what: str) -> list[dict[str, Raw]]:
    try:
        members = _decode(page).get(_MEMBERS.get(what, what), _NOTHING)
        return [_decode(item) for item in _decode_items(members) if memoryview(item)[0] == ord("{")]
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidResponse(f"The server's list of {what} cannot be read: {error}") from None
