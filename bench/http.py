"""The HTTP suite: one tool, `echo`, called by 16 clients at once and by one alone, in both eras.

Hubbub runs with the features of a production server: Host and Origin checks, metrics,
and a rate limit that is counted but never reached. The bare protocol does the same, and nothing else.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

from bench import messages
from bench.http_generator import Connection, flow, free_port
from bench.http_runs import (
    ServerWork,
    concurrent_values,
    measure_phase,
    measure_start,
    open_sessions,
    run_server,
    sequential_values,
    without_sessions,
)
from bench.idle_connections import measure_idle_connection
from bench.process import ServerProcess
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values

_PEER_PYTHON = ".cache/bench/peers/bin/python"
# Commands without the port.
COMMANDS = {
    "hubbub": [".venv/bin/hubbub", "serve", "examples/echo.py", "--limit", "mcp=100000/second", "--port"],
    "mcp": [_PEER_PYTHON, "bench/peers/mcp_http_echo.py"],
    "bare": [sys.executable, "-m", "bench.floors.bare_protocol"],
}
_STREAMED = {"hubbub": ["--response", "sse"], "mcp": ["--sse"], "bare": ["--sse"]}
# One address may hold seven eighths of the connections.
_MANY_CONNECTIONS = {"hubbub": ["--max-connections", "20000"], "bare": []}
_WITH_SESSIONS = ("hubbub", "mcp")

# The values with uvicorn, and a margin for noise; bench/README.md has the figures.
_START = Goal(Bound.SHARE, 2.4)
_RESIDENT = Goal(Bound.SHARE, 1.5)

_CALLS = 10_000
_FIRST_SESSIONS = 200  # so that one-time allocations do not count
_SESSIONS = 3_000


def _measure(pace: Pace) -> list[Round]:
    # Once is enough, because other load does not change memory; it also compiles bytecode and fills the file cache.
    print("http: memory", file=sys.stderr)
    memory = {
        target: _run_target(target, _fill_memory if target in _WITH_SESSIONS else _call_often) for target in COMMANDS
    }
    for target, options in _MANY_CONNECTIONS.items():
        port = free_port()
        command = [*COMMANDS[target], str(port), *options]
        memory[target]["idle_connection_kb"] = measure_idle_connection(command, port)
    rounds = []
    for number in range(pace.rounds):
        print(f"http: round {number + 1} of {pace.rounds}", file=sys.stderr)
        rounds.append({target: _measure_target(target, pace.phase_s) | memory[target] for target in COMMANDS})
    return rounds


def _measure_target(target: str, phase_s: float) -> Values:
    """Measure a server that answers with JSON, then one that answers with SSE."""

    async def in_json(server: ServerProcess, clients: list[Connection]) -> Values:
        legacy, modern = await open_sessions(clients), without_sessions(clients)
        # Concurrent calls first, because idle connections are closed after a while.
        return {
            **concurrent_values("legacy", await measure_phase(server, legacy, phase_s)),
            **concurrent_values("modern", await measure_phase(server, modern, phase_s)),
            **sequential_values("legacy_one", await measure_phase(server, legacy[:1], phase_s)),
            **sequential_values("modern_one", await measure_phase(server, modern[:1], phase_s)),
        }

    async def in_events(server: ServerProcess, clients: list[Connection]) -> Values:
        return concurrent_values("events", await measure_phase(server, await open_sessions(clients), phase_s))

    return {
        **_run_target(target, in_json),
        **_run_target(target, in_events, _STREAMED[target]),
        **measure_start([*COMMANDS[target], str(port := free_port())], port),
    }


def _run_target(target: str, work: ServerWork, options: list[str] | None = None) -> Values:
    port = free_port()
    return run_server([*COMMANDS[target], str(port), *(options or [])], port, work)


async def _call_often(server: ServerProcess, clients: list[Connection]) -> Values:
    """Return the memory after many calls."""
    count = itertools.count(1)
    await flow(server, await open_sessions(clients), lambda: next(count) < _CALLS)
    return {"resident_mb": server.resident_mb()}


async def _fill_memory(server: ServerProcess, clients: list[Connection]) -> Values:
    """Return the memory after many calls, and the growth by idle sessions."""
    values = await _call_often(server, clients)
    await _open_idle_sessions(clients, _FIRST_SESSIONS)
    before_mb = server.resident_mb()
    await _open_idle_sessions(clients, _SESSIONS)
    return values | {"session_kb": (server.resident_mb() - before_mb) * 1024 / _SESSIONS}


async def _open_idle_sessions(clients: list[Connection], count: int) -> None:
    for client in itertools.islice(itertools.cycle(clients), count):
        await client.ask(messages.initialize())


def _measures() -> Iterator[Measure]:
    for era in ("legacy", "modern"):
        cpu = Measure(f"{era}_cpu_us", f"{era}, 16 clients, CPU a call", "µs", Goal(Bound.SHARE, 1 / 16))
        yield from (cpu, cpu.against("bare", 2.2))
    yield Measure("events_cpu_us", "legacy, answers as events, 16 clients, CPU a call", "µs", Goal(Bound.SHARE, 1 / 20))
    for era in ("legacy", "modern"):
        one = Measure(f"{era}_one_p50_us", f"{era}, one call at a time, p50", "µs", Goal(Bound.SHARE, 1 / 6))
        yield from (one, one.against("bare", 1.5))
    for era in ("legacy", "modern"):
        yield Measure(f"{era}_one_cpu_us", f"{era}, one call at a time, CPU a call", "µs")
    for era in ("legacy", "modern"):
        yield Measure(f"{era}_per_s", f"{era}, 16 clients, calls a second", "")
    yield Measure("events_per_s", "legacy, answers as events, 16 clients, calls a second", "")
    yield Measure("legacy_generator_percent", "legacy, 16 clients, load of the generator", "%")
    yield Measure("start_cpu_ms", "start to the answer of initialize, CPU", "ms", _START, "bare")
    yield Measure("start_ms", "the same, wall clock", "ms", peer="bare")
    yield Measure("resident_mb", "resident memory after 10,000 calls", "MB", _RESIDENT, "bare")
    yield Measure("session_kb", "an idle session", "KB", Goal(Bound.VALUE, 3))
    yield Measure("idle_connection_kb", "an idle connection, of 10,000", "KB", Goal(Bound.VALUE, 4), "bare")


SUITE = Suite(
    name="http",
    ours="hubbub",
    peer="mcp",
    targets={
        "hubbub": "examples/echo.py, started with `hubbub serve`; Host and Origin checks, a limit and metrics on",
        "mcp": "mcp 2.3.0 MCPServer, structured output off, as it installs: asyncio and h11",
        "bare": "a floor: the bare protocol, httptools on uvloop, with the same checks, limit and metrics",
    },
    measures=list(_measures()),
    measure=_measure,
    floor="bare",
)
