"""Definitions of tools, prompts and resource templates, and the digests by which they are pinned.

A definition is everything of a list entry that a client or model can read: all members, also unknown ones. Only `_meta`
is left out, because hubs and servers write values of the moment into it (the server's health, times, counters); of
`_meta`, the members in `PINNED_META_KEYS` remain, because clients load user interfaces from them. The instructions of a
server are a definition too: `{"text": …}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.errors import InvalidParams
from hubbub.protocol.canonical_json import canonical_digest

Kind: TypeAlias = Literal["tool", "prompt", "template", "instructions"]
KINDS: Final[tuple[Kind, ...]] = ("instructions", "tool", "prompt", "template")
PINNED_META_KEYS: Final = ("ui", "ui/resourceUri", "openai/outputTemplate")
INSTRUCTIONS_NAME: Final = "instructions"
"""The name of the only definition of kind `instructions` that a server has."""
_META: Final = "_meta"
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode

Definition: TypeAlias = dict[str, Any]


class DefinitionKey(NamedTuple):
    """Identifies a definition among all servers of a hub."""

    server: str
    kind: Kind
    name: str
    """The name on its server; the URI template of a resource template."""

    def __str__(self) -> str:
        return (
            f"{self.server}: {self.kind} {self.name!a}"
            if self.kind != "instructions"
            else f"{self.server}: {self.kind}"
        )


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The definitions that one server lists now, with their members as received."""

    tools: Mapping[str, Mapping[str, Raw]] = {}
    prompts: Mapping[str, Mapping[str, Raw]] = {}
    templates: Mapping[str, Mapping[str, Raw]] = {}
    instructions: str | None = None

    def parts(self) -> dict[Kind, Mapping[str, Mapping[str, Raw]]]:
        """All definitions by kind and name."""
        given: dict[str, Mapping[str, Raw]] = {}
        if self.instructions:
            given[INSTRUCTIONS_NAME] = {"text": Raw(msgspec.json.encode(self.instructions))}
        return {"instructions": given, "tool": self.tools, "prompt": self.prompts, "template": self.templates}


def pinned_members(members: Mapping[str, Raw]) -> dict[str, Raw]:
    """The members of a list entry that belong to its definition, undecoded."""
    raw_meta = members.get(_META)
    if raw_meta is None:
        return dict(members)
    kept = {name: value for name, value in members.items() if name != _META}
    try:
        meta = _decode_members(raw_meta)
    except msgspec.DecodeError:
        return kept  # not an object: clients ignore it, and the hub replaces it
    pinned = {key: meta[key] for key in PINNED_META_KEYS if key in meta}
    return kept | ({_META: Raw(msgspec.json.encode(pinned))} if pinned else {})


def parse_definition(members: Mapping[str, Raw]) -> Definition | None:
    """Decode the definition in a list entry; None if it cannot be decoded, and so cannot be approved."""
    try:
        definition = {name: msgspec.json.decode(value) for name, value in pinned_members(members).items()}
        json.dumps(definition, ensure_ascii=False).encode()  # lone surrogates cannot be written to a file
    except (ValueError, RecursionError):
        return None
    return definition


def definition_digest(definition: Definition) -> str:
    """Return the SHA-256 of a definition: equal for the same values in any order and spelling."""
    try:
        return canonical_digest({"definition": definition})
    except InvalidParams:
        # Integers beyond 2^53 have no canonical form; the different member name separates the two forms.
        text = json.dumps(definition, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return canonical_digest({"definition_text": text})
