"""The hints of a tool with the defaults that the MCP specification gives to absent ones."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from hubbub.governance.decision import Target
from hubbub.protocol.results import ToolAnnotations

HINTS: Final = ("read_only", "destructive", "idempotent", "open_world")
"""The names of the hints in policies."""
KINDS_WITH_HINTS: Final = ("tool", "admin")
"""Kinds of targets that have hints; prompts and resources have none."""
_NO_ANNOTATIONS: Final = ToolAnnotations()


class ToolHints(msgspec.Struct, frozen=True):
    """What a tool is assumed to do."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


def read_hints(target: Target) -> ToolHints | None:
    """Return the hints of a target, or None if it is of a kind without hints.

    A tool without annotations is destructive and open-world. A tool that says both that it is read-only and that it is
    destructive counts as both.
    """
    if target.kind not in KINDS_WITH_HINTS:
        return None
    annotations = target.annotations or _NO_ANNOTATIONS
    is_read_only = annotations.read_only_hint is True
    is_destructive = annotations.destructive_hint
    return ToolHints(
        read_only=is_read_only,
        destructive=not is_read_only if is_destructive is UNSET else is_destructive is True,
        idempotent=is_read_only or annotations.idempotent_hint is True,
        open_world=annotations.open_world_hint is not False,
    )
