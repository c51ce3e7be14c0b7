"""Requests and WebSockets given to an ASGI app without a server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.http.wire import PATIENCE_S, call

from hubbub import AsgiApp

LOOPBACK = ("127.0.0.1", 8000)


class Exchange:
    """One request or WebSocket: what the app is given and what it sends."""

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

    async def run(self, app: Callable[..., Awaitable[None]], body: Any = None) -> "Exchange":
        """Send a whole request, and return when the app has."""
        if self.scope["type"] == "http":
            data = b"" if body is None else json.dumps(body).encode()
            self.incoming.put_nowait({"type": "http.request", "body": data})
        else:
            self.incoming.put_nowait({"type": "websocket.connect"})
        async with asyncio.timeout(PATIENCE_S):
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


async def ask(app: AsgiApp, path: str = "/mcp", *, body: Any = None, **scope: Any) -> Exchange:
    return await Exchange(path, **scope).run(app, call("echo", {"text": "hi"}) if body is None else body)
