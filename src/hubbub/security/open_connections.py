"""Open connections of authenticated callers, which end when their credential is revoked.

A credential is checked when a request arrives, but streams, WebSockets and long calls
outlive that moment. So each of them is registered here, and its credential is checked
again every `CREDENTIAL_CHECK_INTERVAL_S`. A connection ends if its credential is refused, has
expired, or now stands for another principal or other scopes. Anonymous callers are never
registered, nor are requests that are answered without waiting. `hubbub.server.http.endpoint` owns the only instance.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from hubbub import bounds
from hubbub.protocol.calls import Principal
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.security.gate import unauthorized

logger = logging.getLogger("hubbub.security")
_Credential = tuple[bytes | None, bytes | None]


class OpenConnection(msgspec.Struct, eq=False):
    """A request that waits for something, or a WebSocket."""

    headers: Headers
    principal: Principal
    end: Callable[[], object]
    path: str = ""
    is_stream: bool = False
    """Whether it stays open without a call, as a WebSocket does."""
    opened_at: float = msgspec.field(default_factory=time.time)
    refusal: Refusal | None = None
    """Why it was ended; None while its credential is valid."""
    is_closed: bool = False
    closed: asyncio.Event | None = None
    """Made when something waits for its end."""

    def log_out(self) -> None:
        """End it, because its caller was logged out."""
        if self.refusal is None:
            self.refusal = unauthorized("The operator ended the sessions of this caller; connect again")
        self.end()

    async def wait_closed(self) -> None:
        """Wait until it has ended."""
        if not self.is_closed:
            self.closed = self.closed or asyncio.Event()
            await self.closed.wait()


class OpenConnections:
    """Every open connection of authenticated callers."""

    def __init__(
        self,
        authenticate: Callable[[Headers], Awaitable[Principal | Refusal]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authenticate = authenticate
        self._clock = clock
        self._connections: set[OpenConnection] = set()
        self._checks: dict[_Credential, asyncio.Task[None]] = {}
        self._check_at = 0.0

    def __len__(self) -> int:
        return len(self._connections)

    def add(
        self,
        headers: Headers,
        principal: Principal,
        end: Callable[[], object],
        *,
        path: str = "",
        is_stream: bool = False,
    ) -> OpenConnection:
        """Register a connection; `end` is called at each check that finds its credential revoked."""
        connection = OpenConnection(headers, principal, end, path, is_stream)
        self._connections.add(connection)
        return connection

    def remove(self, connection: OpenConnection) -> None:
        """Remove a connection that has ended."""
        self._connections.discard(connection)
        connection.is_closed = True
        if connection.closed is not None:
            connection.closed.set()

    def find(self, matches: Callable[[Principal], bool]) -> list[OpenConnection]:
        """Return the open connections of these principals."""
        return [connection for connection in self._connections if matches(connection.principal)]

    def sweep(self) -> None:
        """Start checking every credential, if it is time. A slow check does not delay the others."""
        now = self._clock()
        if not self._connections or now < self._check_at:
            return
        self._check_at = now + bounds.CREDENTIAL_CHECK_INTERVAL_S
        groups: dict[_Credential, list[OpenConnection]] = {}
        for connection in self._connections:
            groups.setdefault(_credential(connection.headers), []).append(connection)
        for credential, connections in groups.items():
            if credential not in self._checks:
                task = asyncio.ensure_future(self._check(connections))
                self._checks[credential] = task
                task.add_done_callback(partial(self._finish_check, credential))

    def _finish_check(self, credential: _Credential, task: asyncio.Task[None]) -> None:
        del self._checks[credential]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("credential_not_checked", exc_info=error)

    async def _check(self, connections: list[OpenConnection]) -> None:
        outcome = await self._authenticate(connections[0].headers)
        ended_count = 0
        for connection in connections:
            refusal = _revocation(outcome, connection.principal)
            if refusal is not None and connection in self._connections:
                ended_count += connection.refusal is None
                connection.refusal = refusal
                connection.end()
        if ended_count:
            fields = {"principal": connections[0].principal.name, "connections": ended_count}
            logger.info("credential_revoked", extra=fields)


def _revocation(outcome: Principal | Refusal, principal: Principal) -> Refusal | None:
    if isinstance(outcome, Refusal):
        return outcome if outcome.status == 401 else None  # other refusals mean that it cannot be checked at the moment
    if outcome != principal:
        return unauthorized("This credential has changed since the connection was opened; connect again")
    return None


def _credential(headers: Headers) -> _Credential:
    return headers.raw(b"x-api-key"), headers.raw(b"authorization")
