"""Reads the complete lists of a remote server, without changing the entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from hubbub.client.client import Client
from hubbub.client.pagination import collect_items
from hubbub.errors import InvalidResponse, RemoteError
from hubbub.hub.snapshot import Entry, parse_entries
from hubbub.protocol.error_codes import METHOD_NOT_FOUND

LIST_KINDS: Final = ("tools", "prompts", "resources", "templates")
_NAME_KEYS: Final = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
_RESULT_KEYS: Final = {"templates": "resourceTemplates"}
_EMPTY_LIST: Final = Raw(b"[]")
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


async def fetch_list(client: Client, kind: str) -> tuple[Entry, ...]:
    """Read all pages of one list; empty if the server has no such list.

    Raises: errors of `hubbub.errors`.
    """
    capabilities = client.server_capabilities
    if capabilities and ("resources" if kind == "templates" else kind) not in capabilities:
        return ()
    callable_names: set[str] = set()

    def items(page: Any) -> list[dict[str, Raw]]:
        if kind == "tools":
            callable_names.update(tool.name for tool in page.tools)
        return _decode_entries(client.hide(page.raw), kind)

    try:
        found = parse_entries(await collect_items(client, _page_method(client, kind), items), _NAME_KEYS[kind])
    except RemoteError as error:
        # Some servers declare lists that they do not have, and templates have no capability of their own.
        if error.code == METHOD_NOT_FOUND or kind == "templates":
            return ()
        raise
    if kind == "tools" and client.sends_tool_headers:
        found = tuple(entry for entry in found if entry.name in callable_names)
    return found


def _page_method(client: Client, kind: str) -> Callable[..., Awaitable[Any]]:
    match kind:
        case "tools":
            return client.list_tools
        case "prompts":
            return client.list_prompts
        case "resources":
            return client.list_resources
        case _:
            return client.list_templates


def _decode_entries(page: Raw, kind: str) -> list[dict[str, Raw]]:
    try:
        members = _decode(page).get(_RESULT_KEYS.get(kind, kind), _EMPTY_LIST)
        return [_decode(item) for item in _decode_items(members) if memoryview(item)[0] == ord("{")]
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidResponse(f"The server's list of {kind} cannot be read: {error}") from None
