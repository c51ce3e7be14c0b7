"""What callers and servers that leave in the middle leave behind in a hub: nothing, in the hub's own process."""

import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.faults.behind_a_hub import UNWELL, until
from tests.http.eras import modern, open_session
from tests.http.in_process import Count, Running, running
from tests.http.wire import JSON, call, request
from tests.hub.assembled import hub_of
from tests.hub.ends import ASKER

from hubbub import ServerConfig, UpstreamConfig
from hubbub.hub.gateway import Gateway

ASKED: dict[str, Any] = {"elicitation": {}}
TIMES = 8
AFTER_WARMING = 3 * TIMES


class Here(NamedTuple):
    site: Running
    hub: Gateway
    journal: Path

    async def ask(self, tool: str, **arguments: Any) -> Any:
        body, headers = modern("tools/call", {"name": tool, "arguments": arguments})
        return (await self.site.site.post(body, headers | {"Accept": "application/json"})).json["result"]

    def called(self, tool: str) -> int:
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return sum(line.startswith(f"called {tool}") for line in lines)

    async def left(self) -> tuple[Count, list[tuple[int, int]], int]:
        """What there is: for HTTP, of calls for each upstream, of subscriptions."""
        states = [upstream.state for upstream in self.hub.upstreams.values()]
        return (
            await self.site.count(),
            [(state.in_flight, state.waiting) for state in states],
            len(self.hub.subscriptions),
        )


@asynccontextmanager
async def serving(folder: Path, **options: Any) -> AsyncIterator[Here]:
    """A hub in this loop, with a server that misbehaves and one that asks."""
    journal = folder / "journal"
    fields: dict[str, Any] = {"command": sys.executable, "protocol_version": "2025-11-25", "timeout_s": 10, **options}
    unwell = ServerConfig(id="unwell", args=[str(UNWELL), "stdio", str(journal)], **fields)
    asker = ServerConfig(id="asker", args=[ASKER], **fields)
    hub = hub_of(*(UpstreamConfig(id=config.id, remote=config, prefix="always") for config in (unwell, asker)))
    async with running(hub.main, limits=("off",)) as site:
        here = Here(site, hub, journal)
        assert (await here.ask("unwell__echo", text="warm"))["content"][0]["text"] == "warm"
        assert (await here.ask("asker__pid"))["content"]
        yield here


async def at_rest(here: Here) -> Any:
    """What there is once nothing ends any more: the same five times in a row, and no call."""
    seen: list[Any] = []
    async with asyncio.timeout(60):
        while len(seen) < 5 or any(found != seen[-1] for found in seen[-5:]) or seen[-1][1] != [(0, 0), (0, 0)]:
            gc.collect()
            await asyncio.sleep(0.05)
            seen.append(await here.left())
    return seen[-1]


async def settles_at(here: Here, before: Any) -> None:
    """Wait until there is no more than before; there may be less, if something was still ending then."""
    seen: Any = None
    try:
        async with asyncio.timeout(60):
            while True:
                counts, calls, subscriptions = seen = await here.left()
                is_no_more = all(now <= then for now, then in zip(counts, before[0], strict=True))
                if is_no_more and calls == before[1] and subscriptions <= before[2]:
                    return
                gc.collect()
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"left over: {seen}, before {before}: {asyncio.all_tasks()}") from None


# -- ways to leave ---------------------------------------------------------------------------------


async def give_up_a_call(here: Here) -> None:
    before = here.called("hang")
    body, headers = modern("tools/call", {"name": "unwell__hang", "arguments": {}})
    async with here.site.site.link() as link:
        await link.ask("POST", "/mcp", JSON | headers, json.dumps(body).encode())
        await until(lambda: here.called("hang") > before)


async def end_a_session_with_a_call(here: Here) -> None:
    session = await open_session(here.site.site, capabilities=ASKED)
    before = here.called("hang")
    hanging = asyncio.create_task(session.post(call("unwell__hang")))
    await until(lambda: here.called("hang") > before)
    await session.end()
    hanging.cancel()
    await asyncio.wait([hanging])


async def leave_a_question_open(here: Here) -> None:
    session = await open_session(here.site.site, capabilities=ASKED)
    async with session.call(call("asker__ask", {"say": "who?"})) as stream:
        assert (await stream.message())["method"] == "elicitation/create"
    await session.end()


async def leave_a_listen(here: Here) -> None:
    body, headers = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with here.site.site.stream("POST", "/mcp", headers, body) as stream:
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"


async def crash_the_server(here: Here) -> None:
    assert (await here.ask("unwell__crash"))["isError"] is True
    async with asyncio.timeout(60):
        while (await here.ask("unwell__echo", text="back")).get("isError"):
            await asyncio.sleep(0.05)


async def flood(here: Here) -> None:
    assert (await here.ask("unwell__chatter", times=300))["content"]


async def call_as_plain(here: Here) -> None:
    assert "result" in (await here.site.site.post(call("unwell__echo", {"text": "plain"}))).json
    assert "result" in (await here.site.site.post(request("tools/list"))).json


LEAVING: list[Callable[[Here], Awaitable[None]]] = [
    give_up_a_call,
    end_a_session_with_a_call,
    leave_a_question_open,
    leave_a_listen,
    crash_the_server,
    flood,
    call_as_plain,
]


@pytest.mark.parametrize("leave", LEAVING, ids=lambda way: way.__name__)
async def test_nothing_is_left_of_callers_and_servers_that_leave(
    tmp_path: Path, leave: Callable[[Here], Awaitable[None]]
) -> None:
    async with serving(tmp_path) as here:
        await leave(here)  # sessions with servers that this opens are kept for the next
        before = await at_rest(here)
        for _ in range(TIMES):
            await leave(here)
        await settles_at(here, before)


async def test_memory_does_not_grow_with_calls_that_fail(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        for leave in LEAVING:
            await leave(here)

        async def some(times: int) -> None:
            for _ in range(times):
                await here.ask("unwell__echo", text="x" * 2000)
                await give_up_a_call(here)
                await leave_a_listen(here)
                await call_as_plain(here)

        await some(TIMES)
        gc.collect()
        tracemalloc.start()
        try:
            await some(TIMES)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await some(AFTER_WARMING)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown / AFTER_WARMING < 1500, f"{grown / AFTER_WARMING:.0f} bytes for each"
