"""The composition root: puts servers on transports. The only place that wires the layers together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from hubbub import bounds
from hubbub.ports import Connect
from hubbub.server.connection import Connection
from hubbub.server.http.call_stream import ResponseMode
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


def serve_http(
    server: Server,
    *,
    host: str = "127.0.0.1",
    port: int = 3000,
    mode: ResponseMode = "auto",
    limit: int = bounds.MESSAGE_BYTES,
    started: Callable[[str], None] = lambda url: None,
) -> int:
    """Serve any number of clients over HTTP until the process is told to stop; its exit code."""
    from hubbub.security.gate import EdgeSettings, Gate
    from hubbub.server.http.endpoint import Endpoint
    from hubbub.transports import http, http_server, old_pair, websocket

    gate = Gate(EdgeSettings(bind_host=host))
    listener = http_server.listen(host, port)

    async def main() -> None:
        pair = old_pair.OldPair(connector(server))
        endpoint = Endpoint(server, gate=gate, mode=mode, old_pair=pair)
        sockets = websocket.WebSockets(connector(server), endpoint.admit, limit=limit)
        over_http = http.application(endpoint, limit=limit)

        async def app(scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
            serve = over_http if scope["type"] == "http" else sockets
            await serve(scope, receive, send)

        def end_streams() -> None:
            endpoint.end_streams()
            pair.end_streams()
            sockets.end()

        async with server.running():
            started(f"http://{host}:{listener.getsockname()[1]}")
            await http_server.serve(app, listener, end_streams=end_streams, limit=limit)

    with asyncio.Runner(loop_factory=http_server.new_event_loop) as runner:
        runner.run(main())
    return 0
