"""The lists of an upstream as they were last read.

Entries keep members that are unknown here, because a hub only forwards them. A snapshot is a value; a new one replaces
it after a change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.protocol.results import ToolAnnotations
from hubbub.protocol.revisions import Revision
from hubbub.protocol.shape import needs_wrapping

_NO_ANNOTATIONS = ToolAnnotations()
_decode_text = msgspec.json.Decoder(str).decode
_decode_annotations = msgspec.json.Decoder(ToolAnnotations).decode


class Entry(msgspec.Struct, frozen=True):
    """One entry of a list."""

    name: str
    """The name of a tool or prompt, the URI of a resource, or a URI template."""
    members: dict[str, Raw]
    """All members as received, including the name."""
    annotations: ToolAnnotations = _NO_ANNOTATIONS
    """Annotations of a tool; empty if they cannot be decoded."""
    scopes: frozenset[str] = frozenset()
    """Scopes that a caller needs to see it; known for servers in this process only."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The lists of one upstream at one time."""

    tools: tuple[Entry, ...] = ()
    prompts: tuple[Entry, ...] = ()
    resources: tuple[Entry, ...] = ()
    templates: tuple[Entry, ...] = ()
    capable_only: frozenset[str] = frozenset()
    """Tools that the server lists only to capable clients (elicitation, sampling or roots)."""
    uniform_version: str | None = None
    """The version of the server that is known to list the same tools to every client."""
    capabilities: dict[str, Any] = {}
    instructions: str | None = None
    revision: Revision | None = None
    """Its protocol revision; None before the first connection."""
    name: str = ""
    """The name that the server reports."""
    version: str = ""
    title: str | None = None
    wrapped: frozenset[str] = frozenset()
    """Tools whose data is wrapped in an object for callers of revisions that allow only objects; computed here."""

    def __post_init__(self) -> None:
        if self.revision is not None and self.revision.structured == "any":
            found = frozenset(entry.name for entry in self.tools if needs_wrapping(entry.members))
            msgspec.structs.force_setattr(self, "wrapped", found)

    def has_output_schema(self, tool: str) -> bool:
        """Whether this tool has an output schema."""
        return any(entry.name == tool and "outputSchema" in entry.members for entry in self.tools)

    def has_capability(self, capability: str, mode: str | None = None) -> bool:
        """Whether the server declares this capability, and this mode of it."""
        if mode is None:
            return capability in self.capabilities
        declared = self.capabilities.get(capability)
        return isinstance(declared, dict) and bool(declared.get(mode))


EMPTY_SNAPSHOT = Snapshot()


def parse_entries(raw: Iterable[dict[str, Raw]], key: str) -> tuple[Entry, ...]:
    """The entries of a list that have a name under `key`; of two with the same name, the first."""
    found: dict[str, Entry] = {}
    for members in raw:
        try:
            name = _decode_text(members[key])
        except (KeyError, msgspec.DecodeError):
            continue
        found.setdefault(name, Entry(name, members, _parse_annotations(members) if key == "name" else _NO_ANNOTATIONS))
    return tuple(found.values())


def _parse_annotations(members: dict[str, Raw]) -> ToolAnnotations:
    raw_annotations = members.get("annotations")
    if raw_annotations is None:
        return _NO_ANNOTATIONS
    try:
        return _decode_annotations(raw_annotations)
    except msgspec.DecodeError:
        return _NO_ANNOTATIONS
