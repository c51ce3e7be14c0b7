"""Tool names: which are allowed, and how they are adapted to the limits of model providers.

A name stays as it is on the wire (`aw.get_state`). `safe_name` is what a listing
shows when asked to be safe, and `tool_key` what an agent's model sees. Both can
map two names to one: the registry then lists the original, and the agent refuses the second.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub import bounds
from hubbub.errors import DefinitionError

_NAME: Final = re.compile(r"[A-Za-z0-9_./-]+")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARACTERS: Final = 10


def check_name(name: str) -> None:
    """Refuse a tool name that the specification advises against.

    Raises: DefinitionError.
    """
    if len(name) > bounds.NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"Invalid tool name {name[:200]!r}; use 1 to {bounds.NAME_CHARACTERS} letters, digits and _ . / -"
        )


def safe_name(name: str, limit: int | None = None) -> str:
    """Map a name to letters, digits, `_` and `-`, within the limit; by default `MODEL_NAME_CHARACTERS`."""
    return _shorten(_replace_unsafe(name, "tool"), bounds.MODEL_NAME_CHARACTERS if limit is None else limit)


def tool_key(server_id: str, tool: str, limit: int) -> str:
    """Name a server's tool for an agent: `mcp_<server>__<tool>`, within the limit."""
    return _shorten(f"mcp_{_replace_unsafe(server_id, 'server')}__{_replace_unsafe(tool, 'tool')}", limit)


def _replace_unsafe(text: str, fallback: str) -> str:
    return _UNSAFE.sub("_", text.strip()) or fallback


def _shorten(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    prefix_length = limit - _DIGEST_CHARACTERS - 1
    if prefix_length < 1:
        raise DefinitionError(f"A name limit must be at least {_DIGEST_CHARACTERS + 2}, not {limit}")
    # hashlib loads OpenSSL, and names are almost never this long.
    from hashlib import sha256

    return f"{name[:prefix_length]}_{sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"
