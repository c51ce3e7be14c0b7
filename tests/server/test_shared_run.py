"""One run of a server, shared by the apps, clients and hubs of a process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.clock import advance_clock, yield_to_loop

from hubbub import Client, Context, DefinitionError, Hub, Server
from hubbub.testing import connect


@dataclass
class Answer:
    is_sure: bool


class RecordedLifespan:
    """A server whose lifespan can be held while it opens and while it closes."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.may_open, self.may_close = asyncio.Event(), asyncio.Event()
        self.server = Server("s", lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[None]:
        try:
            self.events.append("opening")
            await self.may_open.wait()
            yield
            self.events.append("closing")
            await self.may_close.wait()
        finally:
            self.events.append("closed")


async def test_a_client_that_connects_while_the_lifespan_closes_waits_for_the_next_run() -> None:
    lifespan_record = RecordedLifespan()
    lifespan_record.may_open.set()
    first = Client(lifespan_record.server)
    await first.start()
    leaving = asyncio.create_task(first.close())
    while "closing" not in lifespan_record.events:
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    second = Client(lifespan_record.server)
    coming = asyncio.create_task(second.start())
    await yield_to_loop()
    assert lifespan_record.events == ["opening", "closing"]
    lifespan_record.may_close.set()
    await coming
    assert lifespan_record.events == ["opening", "closing", "closed", "opening"]
    await second.close()


async def test_a_lifespan_that_hangs_while_opening_is_cancelled_with_its_last_client() -> None:
    lifespan_record = RecordedLifespan()
    starting = asyncio.create_task(Client(lifespan_record.server).start())
    while "opening" not in lifespan_record.events:
        await asyncio.sleep(0)
    starting.cancel()
    await yield_to_loop()
    advance_clock(60)
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert lifespan_record.events == ["opening", "closed"]


def recording_server(name: str = "s") -> tuple[Server, list[str]]:
    """A server, and a list of when its lifespan was opened and closed."""
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        events.append("opened")
        yield "state"
        events.append("closed")

    server = Server(name, lifespan=lifespan)

    @server.tool
    async def state(context: Context) -> str:
        return str(context.lifespan)

    return server, events


async def test_apps_clients_and_hubs_share_one_run() -> None:
    server, events = recording_server()
    async with AsyncExitStack() as last:
        async with server.asgi().lifespan(), server.asgi().lifespan(), server.running():
            await last.enter_async_context(Client(Hub([server])))
            client = await last.enter_async_context(Client(server))
        assert (await client.call_tool("state")).text == "state"
        assert events == ["opened"]
    assert events == ["opened", "closed"]


async def test_a_client_that_leaves_first_does_not_close_what_an_app_uses() -> None:
    server, events = recording_server()
    app = server.asgi()
    async with Client(server):
        opened = app.lifespan()
        await opened.__aenter__()
    assert events == ["opened"]
    await opened.__aexit__(None, None, None)
    assert events == ["opened", "closed"]


async def test_a_second_app_leaves_suspended_calls_of_the_first_alone() -> None:
    server = Server("s")

    @server.tool
    async def ask(context: Context) -> str:
        server.asgi()
        answer = await context.elicit("Really?", Answer)
        return answer.action

    async with connect(server, elicitation=["decline"]) as client:
        assert (await client.call_tool("ask")).text == "decline"


@pytest.mark.parametrize("use", [Server.running, Server.in_memory, lambda server: server.asgi().lifespan()])
async def test_use_in_another_loop_at_the_same_time_is_refused(use: Callable[[Server], Any]) -> None:
    server, events = recording_server("shop")

    async def use_it() -> None:
        async with use(server):
            pass

    with ThreadPoolExecutor() as threads:
        async with Client(server) as client:
            with pytest.raises(DefinitionError, match=r"server 'shop' is in use in another event loop.*build another"):
                await asyncio.wrap_future(threads.submit(asyncio.run, use_it()))
            assert (await client.call_tool("state")).text == "state"
            assert events == ["opened"]
        await asyncio.wrap_future(threads.submit(asyncio.run, use_it()))
    assert events == ["opened", "closed"] * 2


async def test_a_hub_in_another_loop_at_the_same_time_is_refused() -> None:
    hub = Hub([recording_server()[0]], name="team")

    async def use_it() -> None:
        async with Client(hub):
            pass

    with ThreadPoolExecutor() as threads:
        async with hub:
            with pytest.raises(DefinitionError, match="hub 'team' is in use in another event loop"):
                await asyncio.wrap_future(threads.submit(asyncio.run, use_it()))


def test_a_server_left_open_in_a_closed_loop_can_run_again() -> None:
    server, events = recording_server()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(Client(server).start())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    async def use() -> str:
        async with Client(server) as client:
            return (await client.call_tool("state")).text

    assert asyncio.run(use()) == "state"
    assert events[-2:] == ["opened", "closed"]


async def test_a_lifespan_that_fails_while_open_ends_every_user_of_the_server() -> None:
    may_fail = asyncio.Event()

    async def work() -> None:
        await may_fail.wait()
        raise OSError("database lost")

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            yield

    async def run(server: Server) -> None:
        async with server.asgi().lifespan():
            may_fail.set()
            await asyncio.Event().wait()

    server = Server("s", lifespan=lifespan)
    done, _ = await asyncio.wait([asyncio.create_task(run(server)) for _ in range(2)])
    for task in done:
        assert isinstance(error := task.exception(), ExceptionGroup)
        assert [str(one) for one in error.exceptions] == ["database lost"]


async def test_cancelling_one_user_of_the_server_is_not_a_lifespan_failure() -> None:
    server, events = recording_server()
    started = asyncio.Event()

    async def run() -> None:
        async with server.running():
            started.set()
            await asyncio.Event().wait()

    async with Client(server):
        running = asyncio.create_task(run())
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert events == ["opened"]
    assert events == ["opened", "closed"]
