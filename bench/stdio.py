"""The stdio suite: one tool, `echo`, started as a client starts it and called through pipes."""

from __future__ import annotations

import statistics
import sys
import time

from bench.process import ServerProcess
from bench.stdio_generator import StdioClient
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values

_PEER_PYTHON = ".cache/bench/peers/bin/python"
_OURS = [".venv/bin/hubbub", "serve", "examples/echo.py", "--transport", "stdio"]
COMMANDS = {
    "hubbub": _OURS,
    "mcp": [_PEER_PYTHON, "bench/peers/mcp_echo.py", "--text-only"],
    "mcp-plain": [_PEER_PYTHON, "bench/peers/mcp_echo.py"],
    "floor": [sys.executable, "bench/floors/stdio_echo.py"],
}

_SHORT = "a text of 20 letters"
_LONG = (_SHORT * 4096)[: 64 * 1024]
_IN_FLIGHT = 64
_WARM_UP = 0.2  # share of a phase
_START_CPU = Measure("start_cpu_ms", "start to the answer of initialize, CPU", "ms", Goal(Bound.SHARE, 1 / 10))
_RESIDENT = Measure("resident_mb", "resident memory after the small calls", "MB", Goal(Bound.VALUE, 30))
_ONE_P50 = Measure("one_p50_us", "one call at a time, p50", "µs", Goal(Bound.SHARE, 1 / 4))


def _measure(pace: Pace) -> list[Round]:
    for command in COMMANDS.values():
        _measure_server(command, 0.05)  # compiles bytecode and fills the file cache
    rounds = []
    for number in range(pace.rounds):
        print(f"stdio: round {number + 1} of {pace.rounds}", file=sys.stderr)
        rounds.append({target: _measure_server(command, pace.phase_s) for target, command in COMMANDS.items()})
    return rounds


def _measure_server(command: list[str], phase_s: float) -> Values:
    """Measure a server: start, sequential calls, concurrent small calls, concurrent large calls."""
    start = time.perf_counter()
    with ServerProcess(command) as server:
        client = StdioClient(server)
        client.initialize()
        values = {"start_ms": (time.perf_counter() - start) * 1e3, "start_cpu_ms": server.cpu_s() * 1e3}
        values["resident_start_mb"] = server.resident_mb()
        client.send_initialized()
        client.call_sequentially(_SHORT, phase_s * _WARM_UP)
        cpu_s = -server.cpu_s()
        times = client.call_sequentially(_SHORT, phase_s)
        cpu_s += server.cpu_s()
        values["one_p50_us"] = statistics.median(times) * 1e6
        values["one_cpu_us"] = cpu_s / len(times) * 1e6
        values["one_p99_us"] = statistics.quantiles(times, n=100)[98] * 1e6
        client.call_concurrently(_SHORT, _IN_FLIGHT, phase_s * _WARM_UP)
        flow = client.call_concurrently(_SHORT, _IN_FLIGHT, phase_s)
        values["many_per_s"] = flow.calls / flow.wall_s
        values["many_cpu_us"] = flow.server_cpu_s / flow.calls * 1e6
        values["many_generator_percent"] = flow.generator_cpu_s / flow.wall_s * 100
        values["resident_mb"] = server.resident_mb()
        client.call_concurrently(_LONG, _IN_FLIGHT, phase_s * _WARM_UP)
        flow = client.call_concurrently(_LONG, _IN_FLIGHT, phase_s)
        values["large_cpu_us"] = flow.server_cpu_s / flow.calls * 1e6
        values["large_per_s"] = flow.calls / flow.wall_s
        values["resident_large_mb"] = server.resident_mb()
    return values


SUITE = Suite(
    name="stdio",
    ours="hubbub",
    peer="mcp",
    targets={
        "hubbub": "examples/echo.py, started with `hubbub serve`",
        "mcp": "mcp 2.3.0 MCPServer, structured output off: the same results as ours",
        "mcp-plain": "mcp 2.3.0 MCPServer with its defaults: text and structured output",
        "floor": "an asyncio loop that only decodes the call and encodes the text",
    },
    floor="floor",
    measures=[
        _START_CPU,
        _START_CPU.against("floor", 1.4),
        Measure("start_ms", "the same, wall clock", "ms"),
        _ONE_P50,
        _ONE_P50.against("floor", 1.4),
        Measure("one_p99_us", "one call at a time, p99", "µs"),
        Measure("one_cpu_us", "one call at a time, CPU a call", "µs"),
        Measure("many_per_s", "64 in flight, calls a second", "", Goal(Bound.MULTIPLE, 25)),
        Measure("many_cpu_us", "64 in flight, CPU a call", "µs", Goal(Bound.SHARE, 3.5), "floor"),
        Measure("many_generator_percent", "64 in flight, load of the generator", "%"),
        Measure("large_cpu_us", "64 KB of text, CPU a call", "µs", Goal(Bound.SHARE, 1 / 3)),
        Measure("large_per_s", "64 KB of text, calls a second", ""),
        Measure("resident_start_mb", "resident memory after the start", "MB"),
        _RESIDENT,
        _RESIDENT.against("floor", 1.2),
        Measure("resident_large_mb", "resident memory after the 64 KB calls", "MB"),
    ],
    measure=_measure,
)
