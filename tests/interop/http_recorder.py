"""Records every HTTP exchange of a Python client, in the order of the responses.

The clients under test use httpx; they are given an httpx client that records.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

WAIT_S = 60.0
ServerAddress = list[str] | str
"""Where a server is: the command that serves one client on stdio, or the URL of one that runs."""


class RecordedExchange(NamedTuple):
    """One request and the head of its response."""

    method: str
    status: int
    session: str | None
    last_event_id: str | None


class HttpRecorder:
    """All HTTP exchanges of one client."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.exchanges: list[RecordedExchange] = []
        self._headers = dict(headers or {})
        self._recorded = asyncio.Event()

    def make_client(
        self, headers: Mapping[str, str] | None = None, timeout: Any = None, auth: Any = None, **_: Any
    ) -> httpx2.AsyncClient:
        """Make a recording client; it ignores the proxy of the machine."""
        hooks: dict[str, list[Any]] = {"response": [self._record]}
        merged = self._headers | dict(headers or {})
        return httpx2.AsyncClient(headers=merged, timeout=60, trust_env=False, event_hooks=hooks)

    async def _record(self, response: httpx2.Response) -> None:
        sent = response.request.headers
        exchange = RecordedExchange(
            response.request.method, response.status_code, sent.get("mcp-session-id"), sent.get("last-event-id")
        )
        self.exchanges.append(exchange)
        self._recorded.set()

    def by_method(self, method: str) -> list[RecordedExchange]:
        """Return the exchanges of one HTTP method."""
        return [exchange for exchange in self.exchanges if exchange.method == method]

    async def wait_for(self, method: str, times: int = 1) -> None:
        """Wait until this number of requests with that method got responses."""
        async with asyncio.timeout(WAIT_S):
            while len(self.by_method(method)) < times:
                self._recorded.clear()
                await self._recorded.wait()
