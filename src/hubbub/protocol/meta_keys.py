"""Keys that Hubbub adds to `_meta`.

Keys begin with `dev.hubbub/`. Their former prefix, `hubbub/`, is deprecated: 0.1 reads and writes both.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

from hubbub.errors import HubbubDeprecationWarning

PREFIX: Final = "dev.hubbub/"
FORMER_PREFIX: Final = "hubbub/"

SERVER: Final = "server"
"""Of a list entry: the id of the server that it belongs to."""
STALE: Final = "stale"
"""Of a list entry: true while its server is down."""
REASON: Final = "reason"
"""Of a list entry: why its server is down."""
HUBS: Final = "hubs"
"""Of a list entry: the ids of the hubs that it came through, so that each recognizes its own entries."""
HUB: Final = "hub"
"""Of the status tool: the id of its hub."""
RESULT: Final = "result"
"""Of a result that was too large: where the full result can be read."""


def own_meta(name: str, value: Any) -> dict[str, Any]:
    """Return the entries of `_meta` for a value: under its key, and for one release under its former key."""
    return {PREFIX + name: value, FORMER_PREFIX + name: value}


def read_own_meta(meta: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values under a key and its former key; a hub of another release may change only one of them."""
    if FORMER_PREFIX + name in meta and PREFIX + name not in meta:
        warnings.warn(
            f"The _meta key {FORMER_PREFIX + name!r} is deprecated and will be ignored from Hubbub 0.2.0 on; "
            f"a server should write {PREFIX + name!r}",
            HubbubDeprecationWarning,
            stacklevel=2,
        )
    return [meta[prefix + name] for prefix in (PREFIX, FORMER_PREFIX) if prefix + name in meta]
