"""Reads stored large results: a resource, and a tool for models that cannot read resources.

    hub://results/{id}?offset=N          the bytes from there on, a page at a time
    hub.read_result(id, offset, limit)   the same

Each page says where the next one begins. Only the caller of a tool can read its result; for others it does not exist.
`hubbub.hub.large` stores the results.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from hubbub import bounds
from hubbub.errors import InvalidParams, ResourceExpired, ResourceNotFound, ToolError
from hubbub.hub.config import READ_RESULT
from hubbub.protocol.content import ResourceContents, Text
from hubbub.protocol.model import ANONYMOUS, Caller
from hubbub.protocol.wire import ToolAnnotations, ToolResult
from hubbub.server.context import Context
from hubbub.server.server import Server
from hubbub.store.spill import Kept, Owner, Part, Spill

RESULTS: Final = "hub://results/"
_OFFSET_DIGITS: Final = 20


def result_owner(caller: Caller) -> Owner:
    """The owner of the results of a caller."""
    return Owner(caller.principal.name, caller.scope, caller.principal is not ANONYMOUS)


def address_of(kept: Kept, offset: int = 0) -> str:
    """The link to a result."""
    return f"{RESULTS}{kept.id}?offset={offset}" if offset else f"{RESULTS}{kept.id}"


def how_to_read(kept: Kept, offset: int) -> str:
    """Tell a model how to read the rest."""
    return (
        f"until {moment(kept.expires_at)} with the tool {READ_RESULT} (id {kept.id}, offset {offset}), "
        f"or as the resource {address_of(kept, offset)}"
    )


def moment(seconds: float) -> str:
    """Format a time as the protocol does: ISO 8601 in UTC."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def offer_results(server: Server, spill: Spill) -> None:
    """Register the resource and the tool that read stored results."""

    async def result(id: str, context: Context, offset: str = "0") -> ResourceContents:
        """A result that was too large to send; `_meta.next` is where it goes on."""
        uri = RESULTS + id
        if not offset.isascii() or not offset.isdigit() or len(offset) > _OFFSET_DIGITS:
            raise InvalidParams(f"offset is a number of bytes, not {offset[:20]!r}")
        found = _page(spill, context.caller, id, int(offset), bounds.RESULT_PAGE_BYTES)
        if isinstance(found, Kept):
            raise ResourceExpired(uri)
        if found is None:
            raise ResourceNotFound(uri)
        kept, part = found
        meta = {"offset": part.offset, "size": kept.size, "expiresAt": moment(kept.expires_at)}
        if part.next_offset is not None:
            meta["next"] = address_of(kept, part.next_offset)
        return ResourceContents(
            address_of(kept, int(offset)), kept.media_type, text=part.data.decode(errors="replace"), meta=meta
        )

    async def read_result(
        id: Annotated[str, msgspec.Meta(description="The id of the result, or the link to it.")],
        context: Context,
        offset: Annotated[int, msgspec.Meta(description="The byte to begin with.", ge=0)] = 0,
        limit: Annotated[
            int, msgspec.Meta(description="The most bytes to read.", ge=4, le=bounds.RESULT_PAGE_BYTES)
        ] = bounds.RESULT_PAGE_BYTES,
    ) -> ToolResult:
        """Read a page of a result that was too large to send. The last line says where the next page begins."""
        identifier = id.removeprefix(RESULTS).partition("?")[0]
        found = _page(spill, context.caller, identifier, offset, limit)
        if isinstance(found, Kept):
            raise ToolError("This result is no longer kept; call the tool that gave it again")
        if found is None:
            raise ToolError(f"There is no result {identifier[:64]!r} of yours; ids are in the answers of other tools")
        kept, part = found
        end = part.offset + len(part.data)
        rest = "This is the end." if part.next_offset is None else f"Go on with offset {part.next_offset}."
        note = f"[Bytes {part.offset} to {end} of {kept.size}. {rest}]"
        return ToolResult(content=[Text(part.data.decode(errors="replace")), Text(note)])

    server.resource(f"{RESULTS}{{id}}{{?offset}}", name="results", title="Large results")(result)
    server.tool(
        name=READ_RESULT,
        title="Read a large result",
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )(read_result)


def _page(spill: Spill, caller: Caller, identifier: str, offset: int, limit: int) -> tuple[Kept, Part] | Kept | None:
    """Return a page and its result; only the result if its data has expired, None if there is none."""
    owner = result_owner(caller)
    kept = spill.find(owner, identifier)
    if kept is None:
        return None
    part = spill.read(owner, identifier, min(offset, kept.size), limit)
    return kept if part is None else (kept, part)
