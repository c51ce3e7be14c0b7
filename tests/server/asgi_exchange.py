"""Requests and WebSockets given to an ASGI app without a server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.http.raw_http import TIMEOUT_S, call

from hubbub import AsgiApp

LOOPBACK = ("127.0.0.1", 8000)


class AsgiExchange:
    """One request or WebSocket: the messages to the app, and those that it sends."""

    def __init__(self, path: str = "/mcp", **scope: Any) -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 5),
            "server": LOOPBACK,
            **scope,
        }
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[Any] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def run(self, app: Callable[..., Awaitable[None]], body: Any = None) -> "AsgiExchange":
        """Send a complete request, and return when the app has returned."""
        if self.scope["type"] == "http":
            data = b"" if body is None else json.dumps(body).encode()
            self.incoming.put_nowait({"type": "http.request", "body": data})
        else:
            self.incoming.put_nowait({"type": "websocket.connect"})
        async with asyncio.timeout(TIMEOUT_S):
            await app(self.scope, self.incoming.get, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def json(self) -> Any:
        return json.loads(b"".join(message.get("body", b"") for message in self.sent[1:]))


async def call_app(app: AsgiApp, path: str = "/mcp", *, body: Any = None, **scope: Any) -> AsgiExchange:
    return await AsgiExchange(path, **scope).run(app, call("echo", {"text": "hi"}) if body is None else body)
