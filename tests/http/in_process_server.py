"""An HTTP server in the loop of the test, where remaining resources can be counted."""

import asyncio
import gc
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.http.playground import make_server
from tests.http.raw_http import TIMEOUT_S, Site, call

from hubbub import Server
from hubbub.app import make_http_server, open_listener
from hubbub.server.http.app import HttpApp
from hubbub.settings import ServeSettings
from hubbub.transports import http_server

_GAUGE = re.compile(rb"^hubbub_(sessions|streams) ([0-9.]+)$", re.MULTILINE)


class ResourceCount(NamedTuple):
    """Numbers of resources that a caller can use."""

    tasks: int
    connections: int
    listeners: int
    sessions: int
    streams: int
    rounds: int


class RunningServer:
    """A server in this loop."""

    def __init__(self, server: Server, http: http_server.HttpServer, port: int) -> None:
        self.server = server
        self.http = http
        self.site = Site(port)

    async def count_resources(self) -> ResourceCount:
        """Count the resources, without the connection of this request."""
        metrics = await self.site.get("/metrics")
        assert metrics.status == 200
        gauges = {name.decode(): int(float(value)) for name, value in _GAUGE.findall(metrics.body)}
        await wait_until(lambda: not any(_is_closing(each) for each in self.http.connections))
        return ResourceCount(
            tasks=len(asyncio.all_tasks()),
            connections=len(self.http.connections),
            listeners=len(self.server.broadcaster),
            sessions=gauges["sessions"],
            streams=gauges["streams"],
            rounds=len(self.server.rounds),
        )

    async def wait_for_count(self, wanted: ResourceCount, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the resources are back to these numbers."""
        seen = None
        try:
            async with asyncio.timeout(timeout_s):
                while (seen := await self.count_resources()) != wanted:
                    gc.collect()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"left over: {seen}, wanted {wanted}: {asyncio.all_tasks()}") from None

    async def history(self) -> list[str]:
        """Return what the tools of the playground recorded."""
        answer = await self.site.post(call("history"))
        return list(json.loads(answer.json["result"]["content"][0]["text"]))

    async def wait_for_history(self, what: str) -> None:
        """Wait until a tool has recorded this entry."""
        async with asyncio.timeout(TIMEOUT_S):
            while what not in await self.history():
                await asyncio.sleep(0.02)


def _is_closing(connection: Any) -> bool:
    return bool(connection.transport.is_closing())


async def wait_until(condition: Any, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def run_server(server: Server | None = None, **settings: Any) -> AsyncIterator[RunningServer]:
    """Serve on a free port until the block ends, then stop the server, which must not time out."""
    server = make_server() if server is None else server
    serve_settings = ServeSettings(port=0, **{"drain_s": 3, **settings})
    app = HttpApp(server, serve_settings)
    is_up = asyncio.Event()
    http = make_http_server(app, serve_settings)
    with open_listener(serve_settings) as listener:
        port = 0 if serve_settings.unix_socket else listener.getsockname()[1]
        async with app.running():
            task = asyncio.create_task(http.serve(listener, is_up.set))
            try:
                await is_up.wait()
                yield RunningServer(server, http, port)
            finally:
                http.stop()
                async with asyncio.timeout(TIMEOUT_S):
                    await task
