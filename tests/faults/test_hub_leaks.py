"""Callers and servers that disconnect during calls leave no resources in the process of the hub."""

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
from tests.faults.hub_harness import FAULTY_SERVER, wait_until
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import ResourceCount, RunningServer, run_server
from tests.http.raw_http import JSON, call, request
from tests.hub.local_hubs import make_hub
from tests.hub.upstreams import ASKING_SERVER

from hubbub import ServerConfig, UpstreamConfig
from hubbub.hub.gateway import Gateway

ELICITATION: dict[str, Any] = {"elicitation": {}}
REPEATS = 8
MEASURED_TIMES = 3 * REPEATS


class LocalHub(NamedTuple):
    site: RunningServer
    hub: Gateway
    journal: Path

    async def ask(self, tool: str, **arguments: Any) -> Any:
        body, headers = modern_request("tools/call", {"name": tool, "arguments": arguments})
        return (await self.site.site.post(body, headers | {"Accept": "application/json"})).json["result"]

    def count_calls(self, tool: str) -> int:
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return sum(line.startswith(f"called {tool}") for line in lines)

    async def count_resources(self) -> tuple[ResourceCount, list[tuple[int, int]], int]:
        """Count the HTTP resources, the calls of each upstream, and the subscriptions."""
        states = [upstream.state for upstream in self.hub.upstreams.values()]
        return (
            await self.site.count_resources(),
            [(state.in_flight, state.waiting) for state in states],
            len(self.hub.subscriptions),
        )


@asynccontextmanager
async def start_local_hub(folder: Path, **options: Any) -> AsyncIterator[LocalHub]:
    """A hub in this loop, with a faulty server and one that sends client requests."""
    journal = folder / "journal"
    fields: dict[str, Any] = {"command": sys.executable, "protocol_version": "2025-11-25", "timeout_s": 10, **options}
    unwell = ServerConfig(id="unwell", args=[str(FAULTY_SERVER), "stdio", str(journal)], **fields)
    asker = ServerConfig(id="asker", args=[ASKING_SERVER], **fields)
    hub = make_hub(*(UpstreamConfig(id=config.id, remote=config, prefix="always") for config in (unwell, asker)))
    async with run_server(hub.main_front, limits=("off",)) as site:
        here = LocalHub(site, hub, journal)
        assert (await here.ask("unwell__echo", text="warm"))["content"][0]["text"] == "warm"
        assert (await here.ask("asker__pid"))["content"]
        yield here


async def wait_until_idle(here: LocalHub) -> Any:
    """Wait until the counts are the same five times in a row and no call runs; return them."""
    seen: list[Any] = []
    async with asyncio.timeout(60):
        while len(seen) < 5 or any(found != seen[-1] for found in seen[-5:]) or seen[-1][1] != [(0, 0), (0, 0)]:
            gc.collect()
            await asyncio.sleep(0.05)
            seen.append(await here.count_resources())
    return seen[-1]


async def wait_until_released(here: LocalHub, before: Any) -> None:
    """Wait until no count is higher than before; it may be lower if something was still ending then."""
    seen: Any = None
    try:
        async with asyncio.timeout(60):
            while True:
                counts, calls, subscriptions = seen = await here.count_resources()
                is_no_more = all(now <= then for now, then in zip(counts, before[0], strict=True))
                if is_no_more and calls == before[1] and subscriptions <= before[2]:
                    return
                gc.collect()
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"left over: {seen}, before {before}: {asyncio.all_tasks()}") from None


# -- ways to disconnect ---------------------------------------------------------------------------------


async def abandon_call(here: LocalHub) -> None:
    before = here.count_calls("hang")
    body, headers = modern_request("tools/call", {"name": "unwell__hang", "arguments": {}})
    async with here.site.site.connect() as link:
        await link.send_request("POST", "/mcp", JSON | headers, json.dumps(body).encode())
        await wait_until(lambda: here.count_calls("hang") > before)


async def end_session_during_call(here: LocalHub) -> None:
    session = await open_session(here.site.site, capabilities=ELICITATION)
    before = here.count_calls("hang")
    hanging = asyncio.create_task(session.post(call("unwell__hang")))
    await wait_until(lambda: here.count_calls("hang") > before)
    await session.end()
    hanging.cancel()
    await asyncio.wait([hanging])


async def leave_input_request_open(here: LocalHub) -> None:
    session = await open_session(here.site.site, capabilities=ELICITATION)
    async with session.call(call("asker__ask", {"say": "who?"})) as stream:
        assert (await stream.message())["method"] == "elicitation/create"
    await session.end()


async def abandon_listen_stream(here: LocalHub) -> None:
    body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with here.site.site.stream("POST", "/mcp", headers, body) as stream:
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"


async def crash_the_server(here: LocalHub) -> None:
    assert (await here.ask("unwell__crash"))["isError"] is True
    async with asyncio.timeout(60):
        while (await here.ask("unwell__echo", text="back")).get("isError"):
            await asyncio.sleep(0.05)


async def flood(here: LocalHub) -> None:
    assert (await here.ask("unwell__chatter", times=300))["content"]


async def call_as_plain(here: LocalHub) -> None:
    assert "result" in (await here.site.site.post(call("unwell__echo", {"text": "plain"}))).json
    assert "result" in (await here.site.site.post(request("tools/list"))).json


DEPARTURES: list[Callable[[LocalHub], Awaitable[None]]] = [
    abandon_call,
    end_session_during_call,
    leave_input_request_open,
    abandon_listen_stream,
    crash_the_server,
    flood,
    call_as_plain,
]


@pytest.mark.parametrize("leave", DEPARTURES, ids=lambda departure: departure.__name__)
async def test_callers_and_servers_that_disconnect_leave_no_resources(
    tmp_path: Path, leave: Callable[[LocalHub], Awaitable[None]]
) -> None:
    async with start_local_hub(tmp_path) as here:
        await leave(here)  # the sessions that this opens stay open for the next call
        before = await wait_until_idle(here)
        for _ in range(REPEATS):
            await leave(here)
        await wait_until_released(here, before)


async def test_failed_calls_do_not_grow_memory(tmp_path: Path) -> None:
    async with start_local_hub(tmp_path) as here:
        for leave in DEPARTURES:
            await leave(here)

        async def repeat(times: int) -> None:
            for _ in range(times):
                await here.ask("unwell__echo", text="x" * 2000)
                await abandon_call(here)
                await abandon_listen_stream(here)
                await call_as_plain(here)

        await repeat(REPEATS)
        gc.collect()
        tracemalloc.start()
        try:
            await repeat(REPEATS)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await repeat(MEASURED_TIMES)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown / MEASURED_TIMES < 1500, f"{grown / MEASURED_TIMES:.0f} bytes for each"
