"""Cost of lists and idle clients for the hub: 1,000 tools through views, 1,000 sessions. Hubbub only."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
from typing import Any

from bench import messages
from bench.bare_servers import bare_stdio, on_generator_core
from bench.floors.many_tools import CHANGING, THINGS, VERBS
from bench.http_generator import Connection, free_port
from bench.http_runs import open_session, run_server
from bench.hub_process import hub_command
from bench.process import ServerProcess
from bench.suite import Bound, Goal, Measure, Values

_HUB_RUNS = 3
_VIEWS = 20
_OTHER_TOOL = "check_thing_0"
_SETTLE_S = 3.0
"""Time until the background work of a start is done."""
_REPEATS = 50
_CHANGES = 20
_HIDDEN = "delete"
_SHOWN = (len(VERBS) - 1) * THINGS
_FIRST_SESSIONS = 200  # so that one-time allocations do not count
_SESSIONS = 1_000
_BODY = re.compile(rb"\{.*\}", re.DOTALL)

MEASURES = [
    Measure(
        "list_first_cpu_ms", "1,000 tools, filtered and listed for the first time, CPU", "ms", Goal(Bound.VALUE, 5)
    ),
    Measure("list_view_cpu_ms", "1,000 tools, listed through another view, CPU", "ms", Goal(Bound.VALUE, 5)),
    Measure("list_again_cpu_ms", "1,000 tools, listed again, CPU", "ms", Goal(Bound.VALUE, 5)),
    Measure("list_changed_cpu_ms", "1,000 tools, read again after a change and listed, CPU", "ms"),
    Measure("sessions_mb", "1,000 idle sessions", "MB", Goal(Bound.VALUE, 10)),
    Measure("hub_resident_mb", "resident memory with them", "MB"),
]


def measure() -> Values:
    """Measure lists and sessions. Lists use several hubs, because each has only one first list."""
    runs = [_lists() for _ in range(_HUB_RUNS)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]} | _sessions()


def _lists() -> Values:
    include = json.dumps([f"{verb}_*" for verb in VERBS])
    views = "".join(f'[views.v{n}]\ninclude = {include}\nexclude = ["{_HIDDEN}_*"]\n' for n in range(_VIEWS))
    many_tools = on_generator_core([sys.executable, "-m", "bench.floors.many_tools"])

    async def work(hub: ServerProcess, clients: list[Connection]) -> Values:
        client, paths = clients[0], [f"{messages.PATH}/v{number}" for number in range(_VIEWS)]
        sessions = [await open_session(client, path) for path in paths]
        await client.ask(messages.call(sessions[0], _OTHER_TOOL, paths[0]))  # connects the upstream
        await asyncio.sleep(_SETTLE_S)
        start = hub.cpu_s()
        _check(hub, await _list(client, sessions[0], paths[0]))
        first = hub.cpu_s()
        for session, path in zip(sessions[1:], paths[1:], strict=True):
            _check(hub, await _list(client, session, path))
        other_views = hub.cpu_s()
        for _ in range(_REPEATS):
            await _list(client, sessions[0], paths[0])
        again = hub.cpu_s()
        for _ in range(_CHANGES):
            await _change(client, sessions[0], paths[0])
        changed = hub.cpu_s()
        return {
            "list_first_cpu_ms": (first - start) * 1e3,
            "list_view_cpu_ms": (other_views - first) / (_VIEWS - 1) * 1e3,
            "list_again_cpu_ms": (again - other_views) / _REPEATS * 1e3,
            "list_changed_cpu_ms": (changed - again) / _CHANGES * 1e3,
        }

    port = free_port()
    with hub_command({"many": many_tools}, port, views) as command:
        return run_server(command, port, work)


async def _list(client: Connection, session: str, path: str) -> list[dict[str, Any]]:
    """List all pages."""
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = _result(await client.ask(messages.list_tools(session, cursor, path)))
        tools += page["tools"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return tools


def _check(hub: ServerProcess, tools: list[dict[str, Any]]) -> None:
    # Without the tools that the hub itself adds.
    things = [tool["name"] for tool in tools if "_thing_" in tool["name"]]
    if len(things) != _SHOWN or any(name.startswith(_HIDDEN) for name in things):
        raise hub.make_error(f"the view shows {len(things)} tools and should show {_SHOWN}")


async def _change(client: Connection, session: str, path: str) -> None:
    """Make the server change its tools, and list until the change is visible."""
    answer = await client.ask(messages.call(session, CHANGING, path))
    version = f"Version {_result(answer)['content'][0]['text']}."
    while not any(tool["description"].endswith(version) for tool in await _list(client, session, path)):
        continue


def _result(answer: bytes) -> dict[str, Any]:
    found = _BODY.search(answer)
    assert found is not None, answer[:400]
    result: dict[str, Any] = json.loads(found[0])["result"]
    return result


def _sessions() -> Values:
    async def work(hub: ServerProcess, clients: list[Connection]) -> Values:
        await _open_idle_sessions(clients, _FIRST_SESSIONS)
        before_mb = hub.resident_mb()
        await _open_idle_sessions(clients, _SESSIONS)
        after_mb = hub.resident_mb()
        return {"sessions_mb": after_mb - before_mb, "hub_resident_mb": after_mb}

    port = free_port()
    with hub_command({"bare": on_generator_core(bare_stdio("legacy"))}, port) as command:
        return run_server(command, port, work)


async def _open_idle_sessions(clients: list[Connection], count: int) -> None:
    """Open sessions that initialize, list and call once, and then stay idle."""
    for number in range(count):
        client = clients[number % len(clients)]
        session = await open_session(client)
        await _list(client, session, messages.PATH)
        await client.check(messages.legacy_call(session))
