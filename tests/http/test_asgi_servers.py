"""`Server.asgi` mounted in FastAPI and Starlette, under three ASGI servers, with the official client and our own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tests.http.eras import modern_request
from tests.http.raw_http import JSON, TIMEOUT_S, Site, call, head
from tests.interop.python_client import ERAS, block_text, connect_sdk_client
from tests.ports import free_port
from websockets.asyncio.client import connect

from hubbub import Client, ServerConfig

ROOT = Path(__file__).parents[2]
APP = "tests.http.mounted_app:app"
MCP = "/tools/mcp"
COMMANDS = {
    "uvicorn": ("uvicorn", "--port={port}", "--timeout-graceful-shutdown=60"),
    "hypercorn": ("hypercorn", "--bind=127.0.0.1:{port}", "--workers=0", "--graceful-timeout=60"),
    "granian": ("granian", "--interface=asgi", "--port={port}"),
}
HYPERCORN_WORKERS = ("hypercorn", "--bind=127.0.0.1:{port}", "--graceful-timeout=1")


class AsgiServer:
    """A running ASGI server; its output is in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.port = free_port()
        self.log = log
        self.site = Site(self.port)
        words = [word.format(port=self.port) for word in command]
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words, APP], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip

    async def wait_until_up(self) -> None:
        """Wait until the server answers."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    assert (await self.site.get("/tools/health", {"Host": "localhost"})).status == 200
                    return
                except OSError:
                    assert self.process.poll() is None, self.log.read_text()
                    await asyncio.sleep(0.05)

    def stop(self) -> None:
        """Kill the process if it still runs."""
        self.process.terminate()
        try:
            self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@pytest.fixture(scope="module", params=COMMANDS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsgiServer]:
    server = AsgiServer(COMMANDS[request.param], tmp_path_factory.mktemp("asgi") / "log")
    try:
        asyncio.run(server.wait_until_up())
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_calls_tools_below_a_prefix(served: AsgiServer, era: str) -> None:
    async with connect_sdk_client(f"http://127.0.0.1:{served.port}{MCP}", era) as (client, _):
        assert (await client.call_tool("echo", {"text": "hi"})).structured_content == {"echo": "hi"}
        assert block_text((await client.call_tool("count", {"to": 3})).content[0]) == "counted to 3"


@pytest.mark.parametrize(
    ("transport", "path"), [("streamable_http", "/mcp"), ("sse", "/sse"), ("websocket", "/mcp-ws")]
)
async def test_our_client_calls_tools_over_every_transport(served: AsgiServer, transport: Any, path: str) -> None:
    scheme = "ws" if transport == "websocket" else "http"
    for mount, tool, arguments in (("/tools", "echo", {"text": "hi"}), ("/inner/others", "name", {})):
        url = f"{scheme}://127.0.0.1:{served.port}{mount}{path}"
        async with Client(ServerConfig(id="there", transport=transport, url=url)) as client:
            assert not (await client.call_tool(tool, arguments)).is_error


async def test_the_call_of_a_caller_that_disconnects_is_cancelled(served: AsgiServer) -> None:
    async def happened(what: str) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while what.encode() not in (await served.site.post(call("history"), path=MCP)).body:
                await asyncio.sleep(0.02)

    body, headers = modern_request("tools/call", {"name": "wait", "arguments": {"name": "gone"}})
    waiting = asyncio.create_task(served.site.post(body, headers, path=MCP))
    await happened("start gone")
    waiting.cancel()
    await asyncio.wait([waiting])
    await happened("cancelled gone")


async def test_paths_in_responses_have_the_prefix(served: AsgiServer) -> None:
    about = await served.site.get("/tools/", {"Host": "localhost"})
    assert about.json["endpoints"] == {"health": "/tools/health", "mcp": "/tools/mcp"}
    assert about.header("x-mcp-version") == "1.0.0"
    plain = await served.site.post(call("name"), path="/inner/others/mcp")
    assert "; Path=/inner/others;" in str(plain.header("set-cookie"))
    assert plain.header("x-parent") == "starlette"
    assert (await served.site.get("/mcp", {"Host": "localhost"})).status == 404


async def test_an_oversized_body_is_refused(served: AsgiServer) -> None:
    async with served.site.connect() as link:
        await link.send(head("POST", MCP, {"Host": "localhost", **JSON, "Content-Length": "5000000"}))
        assert (await link.read_response()).status == 413


class OpenStreams:
    """A stream of each kind, two idle WebSockets and a call, open while an ASGI server stops."""

    def __init__(self, server: AsgiServer, folder: Path) -> None:
        self._server, self._site = server, server.site
        self._door = folder / "door"
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        headers = {"Accept": "text/event-stream"}
        self.plain = await self._stack.enter_async_context(self._site.stream("GET", "/tools/mcp", headers))
        self.old = await self._stack.enter_async_context(self._site.stream("GET", "/tools/sse", headers))
        await self.old.next()
        address = f"ws://127.0.0.1:{self._server.port}/tools/mcp-ws"
        self.sockets = [await self._stack.enter_async_context(connect(address)) for _ in range(2)]
        body = call("wait_for_file", {"path": str(self._door)})
        self.call = asyncio.create_task(self._site.post(body, path=MCP))
        async with asyncio.timeout(TIMEOUT_S):
            while not self._door.with_suffix(".awaited").exists():
                await asyncio.sleep(0.02)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()
        await asyncio.wait([self.call])
        await self._stack.aclose()

    async def ended(self) -> list[int | None]:
        """Wait until the server has ended streams and WebSockets; return the close codes of the WebSockets."""
        assert await self.plain.rest() == []
        assert await self.old.rest() == []
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*(socket.wait_closed() for socket in self.sockets))
        return [socket.close_code for socket in self.sockets]

    async def answer(self) -> Any:
        """Let the call end; return its response."""
        self._door.touch()
        return (await self.call).json


@asynccontextmanager
async def stopping(command: Sequence[str], folder: Path) -> AsyncIterator[OpenStreams]:
    """Send SIGTERM to an ASGI server with open streams; it ends after the block and closes the lifespan."""
    server = AsgiServer(command, folder / "log")
    try:
        await server.wait_until_up()
        async with OpenStreams(server, folder) as streams:
            server.process.send_signal(signal.SIGTERM)
            yield streams
        await asyncio.to_thread(server.process.wait, TIMEOUT_S)
    finally:
        server.stop()
    output = server.log.read_text()
    assert output.count("lifespan: opened") == output.count("lifespan: closed") == 1, output


# uvicorn closes WebSockets too, a moment later than the app; granian may drop them without delivering the app's close.
CLOSE_CODES = {"uvicorn": {1001, 1012}, "hypercorn": {1001}, "granian": {1001, 1006}}


@pytest.mark.parametrize("kind", COMMANDS)
async def test_when_the_server_stops_streams_end_and_calls_are_answered(kind: str, tmp_path: Path) -> None:
    async with stopping(COMMANDS[kind], tmp_path) as streams:
        assert set(await streams.ended()) <= CLOSE_CODES[kind]
        assert "done" in str(await streams.answer())


async def test_streams_in_workers_of_hypercorn_end_after_its_graceful_timeout(tmp_path: Path) -> None:
    async with stopping(HYPERCORN_WORKERS, tmp_path) as streams:
        if sys.version_info < (3, 12):  # later ones wait until the clients disconnect
            assert set(await streams.ended()) == {1001}
