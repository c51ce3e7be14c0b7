"""The user id of the process at the other end of a Unix socket, as the kernel reports it."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Collection
from typing import Any, Final, cast

_PLATFORM: Final = str(sys.platform)  # a plain string, so that type checkers do not skip other systems
_LINUX_CREDENTIALS: Final = struct.Struct("3i")
"""`struct ucred`: process, user and group."""
_MACOS_CREDENTIALS: Final = struct.Struct("2I")
"""The start of `struct xucred`: version and user."""
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_XUCRED_VERSION: Final = 0


def can_read_peers() -> bool:
    """Whether this system reports the user of the other end."""
    return hasattr(socket, "AF_UNIX") and _PLATFORM in ("linux", "darwin")


def read_peer_uid(transport: asyncio.BaseTransport) -> int | None:
    """Return the user id of the process that opened a Unix socket; None if the system does not report it."""
    connected: Any = transport.get_extra_info("socket")
    try:
        if _PLATFORM == "linux":
            data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX_CREDENTIALS.size)
            return int(_LINUX_CREDENTIALS.unpack(data)[1])
        if _PLATFORM == "darwin":
            data = connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _MACOS_CREDENTIALS.size)
            version, uid = _MACOS_CREDENTIALS.unpack(data)
            return int(uid) if version == _XUCRED_VERSION else None
    except (OSError, struct.error):
        return None
    return None


class PeerCheck(asyncio.Protocol):
    """Passes a connection on if the user at the other end is allowed; otherwise closes it unread."""

    def __init__(self, uids: Collection[int], make_connection: Callable[[], asyncio.Protocol]) -> None:
        self._uids = uids
        self._make_connection = make_connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the user, and replace this protocol by that of the connection."""
        uid = read_peer_uid(transport)
        open_transport = cast("asyncio.Transport", transport)
        if uid is None or uid not in self._uids:
            open_transport.abort()
            return
        connection = self._make_connection()
        open_transport.set_protocol(connection)
        connection.connection_made(transport)
