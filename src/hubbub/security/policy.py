"""Policy decisions about a tool call: allow, deny, or ask a person for confirmation.

`decide(request) -> Allow | Deny | Confirm`. The caller of `decide` asks the person and stores
the answer. A `Confirm` is bound to a digest of the call, so that a confirmation cannot be used
for another call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from hubbub.errors import InvalidParams
from hubbub.protocol.canonical_json import canonical_digest
from hubbub.protocol.results import ToolAnnotations


class PolicyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The tool call to decide about."""

    tool: str
    """The tool's local name, with aliases resolved."""
    arguments: Mapping[str, Any]
    digest: str
    """The digest of the tool and its exact arguments."""
    call_id: str = ""
    run_id: str = ""
    server_id: str | None = None
    remote_tool_name: str | None = None
    annotations: ToolAnnotations | None = None
    """Hints of the tool's author; use them only for servers that you trust."""
    context: Mapping[str, str] = {}


class Allow(msgspec.Struct, frozen=True):
    """Make the call."""


class Deny(msgspec.Struct, frozen=True):
    """Do not make the call; the model gets the reason."""

    reason: str = "This call is not allowed"


class Confirm(msgspec.Struct, frozen=True):
    """Make the call only if a person confirms exactly this call before it expires."""

    digest: str
    expiry: float
    """Seconds since 1970."""
    reason: str = ""


Decision: TypeAlias = Allow | Deny | Confirm
Decide: TypeAlias = Callable[[PolicyRequest], Decision | Awaitable[Decision]]


def call_digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the digest of one call: equal for the same tool and arguments, in any order."""
    try:
        return canonical_digest({"tool": tool, "arguments": arguments})
    except InvalidParams:
        # Integers beyond 2^53 have no canonical form; the different member name separates the two forms.
        text = msgspec.json.encode(arguments, order="sorted").decode()
        return canonical_digest({"tool": tool, "arguments_text": text})


def allow_all(request: PolicyRequest) -> Decision:
    """Allow every call."""
    return Allow()
