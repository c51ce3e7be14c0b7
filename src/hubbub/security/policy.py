"""May this call be made: yes, no, or only if a person says so. The one form of that decision.

`decide(question) -> Allow | Deny | Confirm`. Who asks the person, and where the answer is
kept meanwhile, is the matter of whoever runs the call. A `Confirm` is bound to a digest,
so that nobody can confirm one thing and run another.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.errors import InvalidParams
from hubbub.protocol.canonical import digest
from hubbub.protocol.wire import ToolAnnotations


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to do."""

    tool: str
    """The name it is known by here, after all aliases."""
    arguments: Mapping[str, Any]
    digest: str
    """Of the tool and its exact arguments."""
    call_id: str = ""
    run_id: str = ""
    server_id: str | None = None
    remote_tool_name: str | None = None
    annotations: ToolAnnotations | None = None
    """Hints of whoever wrote the tool; believe them only of servers you trust."""
    context: Mapping[str, str] = {}


class Allow(msgspec.Struct, frozen=True):
    """Yes."""


class Deny(msgspec.Struct, frozen=True):
    """No. The model is told why."""

    reason: str = "This call is not allowed"


class Confirm(msgspec.Struct, frozen=True):
    """Only if a person says yes to exactly this, in time."""

    digest: str
    expiry: float
    """Seconds since 1970."""
    reason: str = ""


Decision: TypeAlias = Allow | Deny | Confirm
Decide: TypeAlias = Callable[[Question], Decision | Awaitable[Decision]]


def call_digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """The digest of one call: the same for the same tool and arguments, in whatever order they stand."""
    try:
        return digest({"tool": tool, "arguments": arguments})
    except InvalidParams:
        # Integers beyond 2^53 have no canonical form; the member's name keeps the two forms apart.
        text = msgspec.json.encode(arguments, order="sorted").decode()
        return digest({"tool": tool, "arguments_text": text})


def allow_all(question: Question) -> Decision:
    """Ask nobody."""
    return Allow()


def by_name(
    *,
    confirm: Sequence[str] = (),
    deny: Sequence[str] = (),
    lifetime_s: float = bounds.CONFIRMATION_S,
    clock: Callable[[], float] = time.time,
) -> Decide:
    """Decide by shell-style patterns for the names of tools; `deny` wins, and the rest is allowed."""

    def decide(question: Question) -> Decision:
        if any(fnmatchcase(question.tool, pattern) for pattern in deny):
            return Deny(f"The tool {question.tool} may not be called here")
        if any(fnmatchcase(question.tool, pattern) for pattern in confirm):
            return Confirm(question.digest, clock() + lifetime_s)
        return Allow()

    return decide
