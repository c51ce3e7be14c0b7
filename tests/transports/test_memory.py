"""`Client(server)`: both ends in one process, in every version."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hubbub import (
    SUPPORTED_PROTOCOL_VERSIONS,
    Client,
    ConnectionClosed,
    Context,
    RemoteError,
    Server,
    ServerConfig,
    SettingsError,
    bounds,
)

every_version = pytest.mark.parametrize("version", SUPPORTED_PROTOCOL_VERSIONS)


class LifespanRecorder:
    """A server that records when its lifespan opens and closes."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.server = Server("alive", lifespan=self.lifespan)
        self.server.tool(self.state)

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[str]:
        async with asyncio.timeout(None):  # may only be closed by the task that opened it
            self.events.append("opened")
            yield "state"
            self.events.append("closed")

    async def state(self, context: Context) -> str:
        return str(context.lifespan)


@every_version
async def test_the_client_uses_the_configured_version(version: str) -> None:
    async with Client(Server("s"), protocol_version=version) as client:
        assert client.protocol_version == version
        assert client.server_info.name == "s"


async def test_without_a_version_the_newest_is_used() -> None:
    async with Client(Server("s")) as client:
        assert client.protocol_version == SUPPORTED_PROTOCOL_VERSIONS[-1]


@every_version
async def test_the_lifespan_is_open_while_a_client_is_connected(version: str) -> None:
    recorder = LifespanRecorder()
    async with Client(recorder.server, protocol_version=version) as client:
        assert recorder.events == ["opened"]
        assert (await client.call_tool("state")).text == "state"
    assert recorder.events == ["opened", "closed"]


async def test_concurrent_clients_share_one_run_of_the_server() -> None:
    recorder = LifespanRecorder()
    first, second = Client(recorder.server), Client(recorder.server)
    await asyncio.gather(first.start(), second.start())
    # In separate tasks, as fixtures do that open and close a client.
    await asyncio.create_task(first.close())
    assert (await second.call_tool("state")).text == "state"
    assert recorder.events == ["opened"]
    await asyncio.create_task(second.close())
    assert recorder.events == ["opened", "closed"]
    async with Client(recorder.server):
        assert recorder.events == ["opened", "closed", "opened"]


async def test_closing_a_client_of_a_running_server_leaves_it_running() -> None:
    recorder = LifespanRecorder()
    async with recorder.server.running():
        async with Client(recorder.server) as client:
            assert (await client.call_tool("state")).text == "state"
        assert recorder.events == ["opened"]


def test_a_server_can_be_used_in_several_event_loops_in_sequence() -> None:
    recorder = LifespanRecorder()

    async def use() -> None:
        async with Client(recorder.server) as client:
            assert (await client.call_tool("state")).text == "state"

    asyncio.run(use())
    asyncio.run(use())
    assert recorder.events == ["opened", "closed"] * 2


async def test_a_lifespan_that_fails_to_open_fails_the_start() -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield  # type: ignore[unreachable]  # makes it a generator

    server = Server("s", lifespan=broken)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no database"):
            await Client(server).start()


async def test_closing_raises_the_error_of_a_lifespan_that_fails_to_close() -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        yield
        raise RuntimeError("not saved")

    client = await Client(Server("s", lifespan=broken)).start()
    with pytest.raises(RuntimeError, match="not saved"):
        await client.close()
    await client.close()


async def test_closing_cancels_running_calls() -> None:
    server = Server("s")
    started, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    before = asyncio.all_tasks()
    async with Client(server) as client:
        call = asyncio.create_task(client.call_tool("endless"))
        await started.wait()
    assert ended.is_set()
    with pytest.raises(ConnectionClosed):
        await call
    with pytest.raises(ConnectionClosed):
        await client.call_tool("endless")
    assert asyncio.all_tasks() == before
    assert len(server.broadcaster) == 0


async def test_requests_beyond_the_concurrency_limit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 2)
    server = Server("s")
    may_end = asyncio.Event()
    running: list[int] = []

    @server.tool
    async def hold(number: int) -> int:
        running.append(number)
        if len(running) == 2:
            may_end.set()
        await may_end.wait()
        return number

    async with Client(server) as client:
        results = await asyncio.gather(*(client.call_tool("hold", {"number": number}) for number in range(7)))
        assert [result.structured_content for result in results] == list(range(7))


async def test_closing_fails_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("s")
    started = asyncio.Event()

    @server.tool
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    client = await Client(server).start()
    monkeypatch.setattr(bounds, "IN_FLIGHT", 1)
    calls = [asyncio.create_task(client.call_tool("endless")) for _ in range(3)]
    await started.wait()
    await client.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionClosed] * 3


@every_version
async def test_a_message_over_the_limit_is_refused(version: str) -> None:
    server = Server("s")
    server.message_bytes = 2000

    @server.tool
    async def echo(text: str) -> str:
        return text

    async with Client(server, protocol_version=version) as client:
        with pytest.raises(RemoteError, match=r"larger than .*2000 bytes"):
            await client.call_tool("echo", {"text": "x" * 2000})
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_each_client_has_its_own_state_until_it_closes() -> None:
    server = Server("s")
    ended: list[str] = []
    server.on_scope_end(ended.append)

    @server.tool
    async def scope(context: Context) -> str:
        return str(context.scope)

    async with Client(server, protocol_version="2025-11-25") as one:
        async with Client(server, protocol_version="2025-11-25") as other:
            scopes = [(await client.call_tool("scope")).text for client in (one, other)]
        assert ended == scopes[1:]
    assert ended == scopes[::-1]
    assert len(set(scopes)) == 2


@every_version
async def test_a_client_in_the_process_has_every_scope(version: str) -> None:
    server = Server("s")

    @server.tool(scopes=("notes:write",))
    async def write() -> str:
        return "written"

    async with Client(server, protocol_version=version) as client:
        assert (await client.call_tool("write")).text == "written"


async def test_a_slow_callback_applies_backpressure_to_the_server() -> None:
    server = Server("s")

    @server.tool
    async def count(context: Context, steps: int) -> None:
        for step in range(steps):
            await context.progress(step)

    received: list[float] = []

    async def slow(progress: object) -> None:
        await asyncio.sleep(0)
        received.append(progress.progress)  # type: ignore[attr-defined]

    async with Client(server) as client:
        await client.call_tool("count", {"steps": 3000}, progress=slow)
    assert received[:3] == [0, 1, 2]
    assert len(received) > 2990


def test_a_server_in_the_process_has_no_address() -> None:
    config = ServerConfig(id="here", server=Server("s"))
    assert (config.transport, config.is_remote, config.target) == ("memory", False, "s")
    for wrong in ({"url": "https://example.com/mcp"}, {"command": "server"}, {"headers": {"A": "b"}}):
        with pytest.raises(SettingsError, match="cannot be used with the transport memory"):
            ServerConfig(id="here", server=Server("s"), **wrong)
    with pytest.raises(SettingsError, match="protocol_version"):
        Client(Server("s"), protocol_version="2020-01-01")


async def test_closing_may_be_cancelled_and_repeated() -> None:
    recorder = LifespanRecorder()
    client = await Client(recorder.server).start()
    closing = asyncio.create_task(client.close())
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    await client.close()
    assert recorder.events == ["opened", "closed"]
