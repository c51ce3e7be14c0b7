"""The control client of the soak run: it calls continually, and every answer must be correct."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import connect

from bench.http_generator import HOST
from bench.soak import wire
from bench.soak.wire import Connection

_ADDRESS = "127.0.0.1"  # the load comes from other addresses
_PAUSE_S = 0.005
_ANSWER_TIMEOUT_S = 30.0
_SHOWN_ERRORS = 10

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class ControlClient:
    """Calls over HTTP in both eras and over a WebSocket, on connections that stay open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.calls = 0
        self.error_count = 0
        self.errors: list[str] = []
        """The first errors."""

    async def run(self) -> None:
        """Call until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for open_connection in (self._open_modern, self._open_legacy, self._open_websocket):
                tasks.create_task(self._call(open_connection))

    async def _call(self, open_connection: Callable[[], Any]) -> None:
        numbers = itertools.count(1)
        while True:
            try:
                async with open_connection() as ask:
                    for number in numbers:
                        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                            message = await ask(wire.call_message(number, f"control {number}"))
                        wire.check_result(message, number, f"control {number}")
                        self.calls += 1
                        await asyncio.sleep(_PAUSE_S)
            except Exception as error:
                self.error_count += 1
                if len(self.errors) < _SHOWN_ERRORS:
                    self.errors.append(f"{open_connection.__name__}: {error!r}")
                await asyncio.sleep(_PAUSE_S)

    @asynccontextmanager
    async def _open_modern(self) -> AsyncIterator[Ask]:
        async with Connection(self._port, _ADDRESS) as connection:

            async def ask(message: dict[str, Any]) -> dict[str, Any]:
                return (await connection.ask(wire.modern_request(message))).message()

            yield ask

    @asynccontextmanager
    async def _open_legacy(self) -> AsyncIterator[Ask]:
        async with Connection(self._port, _ADDRESS) as connection:
            session = await wire.open_session(connection)

            async def ask(message: dict[str, Any]) -> dict[str, Any]:
                return (await connection.ask(wire.legacy_request(message, session))).message()

            yield ask

    @asynccontextmanager
    async def _open_websocket(self) -> AsyncIterator[Ask]:
        async with connect(f"ws://{HOST}:{self._port}/mcp-ws", proxy=None) as client:

            async def ask(message: dict[str, Any]) -> dict[str, Any]:
                await client.send(json.dumps(message))
                answer: dict[str, Any] = json.loads(await client.recv())
                return answer

            await ask(wire.initialize_message())
            await client.send(json.dumps(wire.INITIALIZED))
            yield ask
