"""The whole HTTP side inside the test's own loop, where everything that is left over can be counted."""

import asyncio
import gc
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.http.playground import make_server
from tests.http.wire import PATIENCE_S, Site, call

from hubbub import AsgiApp, Server
from hubbub.app import make_http_server
from hubbub.settings import ServeSettings
from hubbub.transports import http_server

_GAUGE = re.compile(rb"^hubbub_(sessions|streams) ([0-9.]+)$", re.MULTILINE)


class Count(NamedTuple):
    """What a caller can leave behind."""

    tasks: int
    connections: int
    listeners: int
    sessions: int
    streams: int
    rounds: int


class Running:
    """A server that runs here."""

    def __init__(self, server: Server, http: http_server.HttpServer, port: int) -> None:
        self.server = server
        self.http = http
        self.site = Site(port)

    async def count(self) -> Count:
        """What there is, without the connection that asks."""
        figures = await self.site.get("/metrics")
        assert figures.status == 200
        gauges = {name.decode(): int(float(value)) for name, value in _GAUGE.findall(figures.body)}
        await until(lambda: not any(_is_idle(one) for one in self.http.server_state.connections))
        return Count(
            tasks=len(asyncio.all_tasks()),
            connections=len(self.http.server_state.connections),
            listeners=len(self.server.audience),
            sessions=gauges["sessions"],
            streams=gauges["streams"],
            rounds=len(self.server.rounds),
        )

    async def settles_at(self, wanted: Count, patience_s: float = PATIENCE_S) -> None:
        """Wait until nothing more is left than there was."""
        seen = None
        try:
            async with asyncio.timeout(patience_s):
                while (seen := await self.count()) != wanted:
                    gc.collect()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"left over: {seen}, wanted {wanted}: {asyncio.all_tasks()}") from None

    async def history(self) -> list[str]:
        """What the playground's tools remember."""
        answer = await self.site.post(call("history"))
        return list(json.loads(answer.json["result"]["content"][0]["text"]))

    async def happened(self, what: str) -> None:
        """Wait until a tool has noted something."""
        async with asyncio.timeout(PATIENCE_S):
            while what not in await self.history():
                await asyncio.sleep(0.02)


def _is_idle(connection: Any) -> bool:
    return bool(connection.transport.is_closing())


async def until(true: Any, patience_s: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(patience_s):
        while not true():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(server: Server | None = None, **settings: Any) -> AsyncIterator[Running]:
    """Serve on a free port until the block ends; that everything ends with it is part of every test."""
    server = make_server() if server is None else server
    chosen = ServeSettings(port=0, **{"drain_s": 3, **settings})
    app = AsgiApp(server, chosen)
    listener = http_server.listen(*chosen.address)
    up = asyncio.Event()
    http = make_http_server(app, server, chosen, up.set)
    port = listener.getsockname()[1]
    async with app.running():
        task = asyncio.create_task(http_server.serve(http, listener))
        try:
            await up.wait()
            yield Running(server, http, port)
        finally:
            http.stop()
            async with asyncio.timeout(PATIENCE_S):
                await task
