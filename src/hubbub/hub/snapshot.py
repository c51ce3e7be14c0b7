"""What an upstream last said it has: its lists, kept as they came.

Entries lose nothing: members that we do not know survive, because a hub only passes
them on. A snapshot is a value; a new one takes its place when something changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from hubbub.protocol.passed import is_wrapped
from hubbub.protocol.revisions import Revision
from hubbub.protocol.wire import ToolAnnotations

_NO_HINTS = ToolAnnotations()
_decode_text = msgspec.json.Decoder(str).decode
_decode_hints = msgspec.json.Decoder(ToolAnnotations).decode


class Entry(msgspec.Struct, frozen=True):
    """One entry of a list."""

    name: str
    """The name of a tool or a prompt, the URI of a resource, the template of a template."""
    members: dict[str, Raw]
    """All of it as it came, the name too."""
    annotations: ToolAnnotations = _NO_HINTS
    """Of a tool: what it says about itself, as far as it can be read."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The lists of one upstream at one time."""

    tools: tuple[Entry, ...] = ()
    prompts: tuple[Entry, ...] = ()
    resources: tuple[Entry, ...] = ()
    templates: tuple[Entry, ...] = ()
    capabilities: dict[str, Any] = {}
    instructions: str | None = None
    revision: Revision | None = None
    """How it speaks; None before it was ever reached."""
    name: str = ""
    """Who it says it is."""
    version: str = ""
    title: str | None = None
    wrapped: frozenset[str] = frozenset()
    """Tools whose data must be put into an object for callers that know nothing else; filled in by itself."""

    def __post_init__(self) -> None:
        if self.revision is not None and self.revision.structured == "any":
            found = frozenset(entry.name for entry in self.tools if is_wrapped(entry.members))
            msgspec.structs.force_setattr(self, "wrapped", found)

    def promises_data(self, tool: str) -> bool:
        """Whether this tool has an output schema."""
        return any(entry.name == tool and "outputSchema" in entry.members for entry in self.tools)

    def has(self, capability: str, mode: str | None = None) -> bool:
        """Whether it declares this, and this mode of it."""
        if mode is None:
            return capability in self.capabilities
        declared = self.capabilities.get(capability)
        return isinstance(declared, dict) and bool(declared.get(mode))


EMPTY_SNAPSHOT = Snapshot()


def entries(raw: Iterable[dict[str, Raw]], key: str) -> tuple[Entry, ...]:
    """The entries of a list that have a name under `key`; of two with the same name, the first."""
    found: dict[str, Entry] = {}
    for members in raw:
        try:
            name = _decode_text(members[key])
        except (KeyError, msgspec.DecodeError):
            continue
        found.setdefault(name, Entry(name, members, _hints(members) if key == "name" else _NO_HINTS))
    return tuple(found.values())


def _hints(members: dict[str, Raw]) -> ToolAnnotations:
    given = members.get("annotations")
    if given is None:
        return _NO_HINTS
    try:
        return _decode_hints(given)
    except msgspec.DecodeError:
        return _NO_HINTS
