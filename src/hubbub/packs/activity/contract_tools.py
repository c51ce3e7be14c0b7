"""The three calls of the contract, as tools and as plain methods."""

from typing import Any, Final

from hubbub import ToolAnnotations
from hubbub.packs.activity import frames
from hubbub.packs.activity.desk import Desk

READS: Final = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
METHOD_NOT_FOUND: Final = -32601
"""What the contract answers when ActivityWatch is not there; `error.data.kind` says what is really wrong."""
_ANYTHING: Final = {"type": "object", "properties": {}}
_REASON: Final = {
    "type": "object",
    "properties": {"reason": {"description": "Why the frame is made; it comes back as it is.", "default": "mcp"}},
}


def register(desk: Desk) -> None:
    """Put the tools on the server. They ignore what they do not know, as callers of the contract may expect."""
    sources, tool = desk.sources, desk.server.tool

    @tool(name="aw.get_state", input_schema=_ANYTHING, annotations=READS, plain_code=METHOD_NOT_FOUND)
    async def get_state(**_ignored: Any) -> frames.State:
        """Tell what ActivityWatch says of itself, and which buckets it has."""
        return await frames.get_state(sources)

    @tool(name="nowframe.build", input_schema=_REASON, annotations=READS, plain_code=METHOD_NOT_FOUND)
    async def build_frame(*, reason: Any = frames.USUAL_REASON, **_ignored: Any) -> frames.NowFrame:
        """Put together what can be found out at this moment; what cannot is null."""
        return await frames.build_frame(sources, reason)

    @tool(name="system.health", input_schema=_ANYTHING, annotations=READS, plain_code=METHOD_NOT_FOUND)
    async def health(**_ignored: Any) -> frames.SystemHealth:
        """Tell whether ActivityWatch and the sidecar are there, why not, and what to do about it."""
        return await frames.look_at_health(sources, desk.snapshots)
