"""Reads stored large results: a resource, and a tool for models that cannot read resources.

    hub://results/{id}?offset=N          the bytes from there on, a page at a time
    hub.read_result(id, offset, limit)   the same

Each page says where the next one begins. Only the caller of a tool can read its result, for as long as the policy lets
it use that tool; for others it does not exist.
`hubbub.hub.result_offload` stores the results.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.errors import InvalidParams, ResourceExpired, ResourceNotFound, ToolError
from hubbub.hub.config import READ_RESULT
from hubbub.protocol.calls import ANONYMOUS, Caller
from hubbub.protocol.content import ResourceContents, Text
from hubbub.protocol.results import ToolAnnotations, ToolResult
from hubbub.server.context import Context
from hubbub.server.server import Server
from hubbub.store.spill import Owner, Part, PieceInfo, Spill

RESULTS_URI: Final = "hub://results/"
MayRead: TypeAlias = Callable[[Caller, object], bool]
"""Whether a caller may still read results of this origin, which is a tool."""
_MAX_OFFSET_DIGITS: Final = 20


def result_owner(caller: Caller) -> Owner:
    """The owner of the results of a caller."""
    return Owner(caller.principal.name, caller.scope, caller.principal is not ANONYMOUS)


def result_uri(stored: PieceInfo, offset: int = 0) -> str:
    """The link to a result."""
    return f"{RESULTS_URI}{stored.id}?offset={offset}" if offset else f"{RESULTS_URI}{stored.id}"


def read_instructions(stored: PieceInfo, offset: int) -> str:
    """Describe to a model how to read the rest."""
    return (
        f"until {format_time(stored.expires_at)} with the tool {READ_RESULT} (id {stored.id}, offset {offset}), "
        f"or as the resource {result_uri(stored, offset)}"
    )


def format_time(seconds: float) -> str:
    """Format a time as the protocol does: ISO 8601 in UTC."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def register_result_readers(server: Server, spill: Spill, may_read: MayRead = lambda caller, origin: True) -> None:
    """Register the resource and the tool that read stored results."""

    async def result(id: str, context: Context, offset: str = "0") -> ResourceContents:
        """A result that was too large to send; `_meta.next` is the URI of the next page."""
        uri = RESULTS_URI + id
        if not offset.isascii() or not offset.isdigit() or len(offset) > _MAX_OFFSET_DIGITS:
            raise InvalidParams(f"offset must be a number of bytes, not {offset[:20]!r}")
        found = _read_page(spill, may_read, context.caller, id, int(offset), bounds.RESULT_PAGE_BYTES)
        if isinstance(found, PieceInfo):
            raise ResourceExpired(uri)
        if found is None:
            raise ResourceNotFound(uri)
        stored, part = found
        meta = {"offset": part.offset, "size": stored.size, "expiresAt": format_time(stored.expires_at)}
        if part.next_offset is not None:
            meta["next"] = result_uri(stored, part.next_offset)
        return ResourceContents(
            result_uri(stored, int(offset)), stored.media_type, text=part.data.decode(errors="replace"), meta=meta
        )

    async def read_result(
        id: Annotated[str, msgspec.Meta(description="The id of the result, or the link to it.")],
        context: Context,
        offset: Annotated[int, msgspec.Meta(description="The first byte to read.", ge=0)] = 0,
        limit: Annotated[
            int, msgspec.Meta(description="The largest number of bytes to read.", ge=4, le=bounds.RESULT_PAGE_BYTES)
        ] = bounds.RESULT_PAGE_BYTES,
    ) -> ToolResult:
        """Read a page of a result that was too large to send. The last line says where the next page begins."""
        identifier = id.removeprefix(RESULTS_URI).partition("?")[0]
        found = _read_page(spill, may_read, context.caller, identifier, offset, limit)
        if isinstance(found, PieceInfo):
            raise ToolError("This result has expired; call the tool that returned it again")
        if found is None:
            raise ToolError(
                f"No result {identifier[:64]!r} is stored for you; use an id from the answer of another tool"
            )
        stored, part = found
        end = part.offset + len(part.data)
        rest = "This is the end." if part.next_offset is None else f"Continue with offset {part.next_offset}."
        note = f"[Bytes {part.offset} to {end} of {stored.size}. {rest}]"
        return ToolResult(content=[Text(part.data.decode(errors="replace")), Text(note)])

    server.resource(f"{RESULTS_URI}{{id}}{{?offset}}", name="results", title="Large results")(result)
    server.tool(
        name=READ_RESULT,
        title="Read a large result",
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )(read_result)


def _read_page(
    spill: Spill, may_read: MayRead, caller: Caller, identifier: str, offset: int, limit: int
) -> tuple[PieceInfo, Part] | PieceInfo | None:
    """Return a page and its result; only the result if its data has expired, None if there is none."""
    owner = result_owner(caller)
    stored = spill.find(owner, identifier)
    if stored is None or not may_read(caller, stored.origin):
        return None
    part = spill.read(owner, identifier, min(offset, stored.size), limit)
    return stored if part is None else (stored, part)
