"""What a client in Python sends over HTTP: every exchange is kept, in the order of its answers.

The clients under test bring their own HTTP; we only give them a client that remembers.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

PATIENCE_S = 60.0
Place = list[str] | str
"""Where a server is: the command that serves one client on stdio, or the URL of one that runs."""


class Exchange(NamedTuple):
    """One request and the head of its answer."""

    method: str
    status: int
    session: str | None
    last_event_id: str | None


class Traffic:
    """Everything that one client exchanged with the server."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self._headers = dict(headers or {})
        self._arrived = asyncio.Event()

    def client(
        self, headers: Mapping[str, str] | None = None, timeout: Any = None, auth: Any = None, **_: Any
    ) -> httpx2.AsyncClient:
        """A client that remembers; machines with a proxy must not ask it for ours."""
        hooks: dict[str, list[Any]] = {"response": [self._remember]}
        merged = self._headers | dict(headers or {})
        return httpx2.AsyncClient(headers=merged, timeout=60, trust_env=False, event_hooks=hooks)

    async def _remember(self, response: httpx2.Response) -> None:
        sent = response.request.headers
        exchange = Exchange(
            response.request.method, response.status_code, sent.get("mcp-session-id"), sent.get("last-event-id")
        )
        self.exchanges.append(exchange)
        self._arrived.set()

    def of(self, method: str) -> list[Exchange]:
        """The exchanges of one HTTP method."""
        return [exchange for exchange in self.exchanges if exchange.method == method]

    async def until(self, method: str, times: int = 1) -> None:
        """Wait for so many answers to requests of that method."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.of(method)) < times:
                self._arrived.clear()
                await self._arrived.wait()
