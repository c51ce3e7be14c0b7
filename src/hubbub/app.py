"""The composition root: puts servers on transports. The only place that wires the layers together."""

from __future__ import annotations

import asyncio
from typing import Literal

from hubbub import bounds
from hubbub.ports import Connect
from hubbub.server.connection import Connection
from hubbub.server.server import Server


def connector(server: Server) -> Connect:
    """Makes the connection of one client to this server, for any transport with two byte streams."""
    return lambda send, drained: Connection(server, send, drained=drained)


def serve_stdio(server: Server, *, limit: int = bounds.MESSAGE_BYTES) -> int:
    """Serve one client on stdin and stdout until it leaves; the exit code of the process."""
    from hubbub.transports import stdio

    source, sink = stdio.claim_streams()

    async def main() -> None:
        async with server.running():
            await stdio.serve(connector(server), source, sink, limit=limit)

    asyncio.run(main())
    return 0


def run(server: Server, transport: Literal["stdio"] = "stdio") -> None:
    """Serve until the client leaves: the last line of a script that is a server."""
    raise SystemExit(serve_stdio(server))
