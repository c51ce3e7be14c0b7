"""Lists the resources of each user's own account, after those that all callers see.

They are never part of the catalog, because no user may see the names of another user's resources. So each list is
read when it is requested, with the login of the caller, and every URI has the prefix of its server.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from hubbub.errors import HubbubError
from hubbub.governance.decision import Target
from hubbub.hub.catalog import Item
from hubbub.hub.list_entries import encode_entry
from hubbub.hub.list_pages import ResourcesPage
from hubbub.hub.snapshot import parse_entries
from hubbub.hub.upstream_logins.server_logins import HubUser
from hubbub.protocol.calls import ANONYMOUS, NO_META, Call, RawReply, Reply
from hubbub.protocol.params import PageParams
from hubbub.server.methods import add_cache_hint
from hubbub.server.pagination import cursor_purpose

if TYPE_CHECKING:
    from hubbub.hub.front import Front

_PURPOSE: Final = "resources of a user"
_encode = msgspec.json.Encoder().encode
logger = logging.getLogger("hubbub.hub")


class _Position(NamedTuple):
    """Where the next page begins: a server, and the cursor there."""

    server: str
    cursor: str | None


class _UpstreamPage(msgspec.Struct):
    resources: list[dict[str, Raw]] = []
    next_cursor: str | None = msgspec.field(default=None, name="nextCursor")


_decode_page = msgspec.json.Decoder(_UpstreamPage).decode


async def list_user_resources(front: Front, call: Call) -> Reply:
    """Return one page of the resources that the caller sees.

    Raises:
        InvalidParams: the cursor was not issued by this list, or for another principal.
    """
    principal = call.caller.principal
    servers = [] if principal is ANONYMOUS else await _find_servers(front, call)
    position = _open_cursor(front, call)
    if position is None:
        page = front.page("resources", call)
        if page.next_cursor is UNSET and servers:  # type: ignore[attr-defined]
            page = replace(page, next_cursor=_seal_cursor(front, call, _Position(servers[0], None)))
        return page
    entries = Raw(b"[]")
    rest = servers[servers.index(position.server) :] if position.server in servers else []
    next_position: _Position | None = None
    if rest:
        entries, cursor = await _read_page(front, call, position)
        if cursor is not None:
            next_position = _Position(position.server, cursor)
        elif len(rest) > 1:
            next_position = _Position(rest[1], None)
    next_cursor = UNSET if next_position is None else _seal_cursor(front, call, next_position)
    return add_cache_hint(front, ResourcesPage(entries, next_cursor))


async def _find_servers(front: Front, call: Call) -> list[str]:
    """Return the servers with resources that the caller may see and is logged in at."""
    user, all_logins = HubUser.from_principal(call.caller.principal), front.hub.upstream_logins
    assert all_logins is not None
    return [
        server
        for server in front.connectable_servers(call.caller)
        if (logins := all_logins.find(server)) is not None
        and front.hub.upstreams[server].snapshot.has_capability("resources")
        and await logins.is_connected(user)
    ]


async def _read_page(front: Front, call: Call, position: _Position) -> tuple[Raw, str | None]:
    """Read one page at a server; if that fails, nothing of this server is listed, as of a server that is down."""
    hub, server = front.hub, position.server
    params: dict[str, Any] = {} if position.cursor is None else {"cursor": position.cursor}
    request = replace(
        call, raw=Raw(_encode(params)), params=PageParams(cursor=params.get("cursor", UNSET)), meta=NO_META
    )
    try:
        reply = await hub.peers[server].request(request)
        assert isinstance(reply, RawReply)
        page = _decode_page(reply.body)
    except (HubbubError, msgspec.DecodeError) as error:
        reason = error.message if isinstance(error, HubbubError) else "its list cannot be read"
        logger.warning("resources_not_listed", extra={"server": server, "reason": reason})
        return Raw(b"[]"), None
    source = reply.revision or call.caller.revision
    entry_meta = hub.entry_meta(server)
    chunks = []
    for entry in parse_entries(page.resources, "uri"):
        if hub.governor is None or hub.governor.shows(call.caller.principal, Target("resource", server, entry.name)):
            item = Item("resource", hub.catalog.prefix_uri(server, entry.name), server, entry, source)
            chunks.append(encode_entry(item, "resources", call.caller.revision, entry_meta, None))
    return Raw(b"[" + b",".join(chunks) + b"]"), page.next_cursor


def _seal_cursor(front: Front, call: Call, position: _Position) -> str:
    return front.sealer.seal(cursor_purpose(_PURPOSE, call.caller.principal), list(position))


def _open_cursor(front: Front, call: Call) -> _Position | None:
    """Return the position of a cursor; None for the first page, and for cursors of the list that all callers see."""
    cursor: str | UnsetType = call.params.cursor
    if cursor is UNSET:
        return None
    try:
        record = front.sealer.open(cursor_purpose(_PURPOSE, call.caller.principal), cursor)
        return msgspec.convert(record, _Position)
    except (ValueError, msgspec.ValidationError):
        return None
