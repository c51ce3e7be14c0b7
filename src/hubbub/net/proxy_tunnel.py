"""Opens a tunnel through an HTTP proxy: one CONNECT request over a socket, before anything else is sent.

Used for plain HTTP too, so that there is one code path, and so that a proxy never sees headers or bodies of TLS
connections and never caches those of others.
"""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Final

_MAX_HEAD_BYTES: Final = 16 * 1024
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r?\n")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")


async def open_tunnel(connected_socket: socket.socket, host: str, port: int) -> None:
    """Ask the proxy at the other end to connect to a host.

    Raises:
        OSError: it refuses, or its answer is not HTTP. The message does not quote the answer.
    """
    loop = asyncio.get_running_loop()
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    await loop.sock_sendall(connected_socket, f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    head = b""
    while (end := _HEAD_END.search(head)) is None:
        data = await loop.sock_recv(connected_socket, _MAX_HEAD_BYTES)
        if not data:
            raise _failed("closed the connection")
        head += data
        if len(head) > _MAX_HEAD_BYTES:
            raise _failed("sent an answer that is too long")
    status = _STATUS_LINE.match(head)
    if status is None:
        raise _failed("did not answer with HTTP")
    if not 200 <= int(status[1]) < 300:
        raise _failed(f"refused to connect, with status {int(status[1])}")
    if end.end() != len(head):
        raise _failed("sent data before the request")


def _failed(reason: str) -> OSError:
    return ConnectionAbortedError(0, f"the egress proxy {reason}")
