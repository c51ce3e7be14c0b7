"""The features of each protocol revision, as data.

Every difference between revisions that matters to Hubbub is a field here, so that other
modules check for a feature and not for a version. Versions are compared in `ladder` only, to decide
the era of a request, and in `client.era`, to choose the newest that both ends support. `PLAIN` is
JSON-RPC without MCP.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Era = Literal["modern", "legacy", "plain"]


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """The features of one dialect. The defaults are those of the first revision."""

    version: str
    era: Era
    batches: bool = False
    """JSON-RPC arrays are allowed."""
    annotations: bool = False
    """Tools carry hints about what they do."""
    audio: bool = False
    progress_message: bool = False
    completions_flag: bool = False
    """Completion is announced as a capability."""
    titles: bool = False
    """Tools, resources and prompts have a title beside the name, and `_meta`."""
    structured: Literal["none", "object", "any"] = "none"
    """Which JSON values `structuredContent` may hold."""
    resource_links: bool = False
    elicitation: Literal["none", "form", "url"] = "none"
    icons: bool = False
    resumes_streams: bool = False
    """HTTP streams start with an empty event, so that they can be resumed after any disconnect."""
    rounds: bool = False
    """Requests for input are results, answered by repeating the request (multi round-trip requests, MRTR)."""
    result_type: bool = False
    caching: bool = False
    """Lists and reads say how long they stay fresh."""
    listen: bool = False
    """Changes are sent on `subscriptions/listen` streams only."""
    stateless: bool = False
    """Each request carries its own version, capabilities and client information."""
    is_mcp: bool = True
    """Whether this is an MCP revision rather than plain JSON-RPC."""


PLAIN: Final = Revision(version="", era="plain", batches=True, is_mcp=False)

R2024_11_05: Final = Revision(version="2024-11-05", era="legacy")

R2025_03_26: Final = Revision(
    version="2025-03-26",
    era="legacy",
    batches=True,
    annotations=True,
    audio=True,
    progress_message=True,
    completions_flag=True,
)

R2025_06_18: Final = msgspec.structs.replace(
    R2025_03_26,
    version="2025-06-18",
    batches=False,
    titles=True,
    structured="object",
    resource_links=True,
    elicitation="form",
)

R2025_11_25: Final = msgspec.structs.replace(
    R2025_06_18, version="2025-11-25", elicitation="url", icons=True, resumes_streams=True
)

R2026_07_28: Final = msgspec.structs.replace(
    R2025_11_25,
    version="2026-07-28",
    era="modern",
    structured="any",
    resumes_streams=False,
    rounds=True,
    result_type=True,
    caching=True,
    listen=True,
    stateless=True,
)

LEGACY: Final = {revision.version: revision for revision in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25)}
MODERN: Final = {R2026_07_28.version: R2026_07_28}

NEWEST_LEGACY: Final = R2025_11_25
NEWEST_MODERN: Final = R2026_07_28
SUPPORTED_VERSIONS: Final = (*LEGACY, *MODERN)


def negotiate(requested: str) -> Revision:
    """The legacy revision that answers an `initialize` asking for `requested`."""
    return LEGACY.get(requested, NEWEST_LEGACY)
