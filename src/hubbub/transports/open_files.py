"""Raises the limit on open files, and accepts only as many connections as fit into it.

A process at its limit accepts no connection, so that one caller could lock out all others, without an error message.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

from hubbub import bounds

if sys.platform != "win32":
    import resource

logger = logging.getLogger("hubbub.http")
_SHARE_OF_SMALL_LIMIT: Final = 2
"""At most one half of the limit is reserved."""


def fit_connections(max_connections: int) -> int:
    """Let this process open enough files for so many connections; return how many it may have.

    Programs that it starts inherit the limit, so it is not raised further. The hard limit is not changed.
    """
    if sys.platform == "win32":  # its sockets are not files
        return max_connections
    limit = _raise_limit(max_connections + bounds.RESERVED_FILES)
    if limit is None:
        return max_connections
    reserved = min(bounds.RESERVED_FILES, limit // _SHARE_OF_SMALL_LIMIT)
    connections = max(min(max_connections, limit - reserved), 1)
    if limit < max_connections:
        logger.warning(
            "max_connections is %d, but this process may open only %d files, so that it accepts %d connections; "
            "raise the limit to %d (`ulimit -n`, LimitNOFILE= of systemd) or lower max_connections",
            max_connections,
            limit,
            connections,
            max_connections + bounds.RESERVED_FILES,
        )
    return connections


def _raise_limit(wanted: int) -> int | None:
    """Raise the limit on open files to at least this number if the system allows it; return it. None: no limit."""
    if sys.platform == "win32":
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    if soft >= wanted:
        return soft
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # macOS refuses some values below the hard limit
        return soft
    return raised
