"""The hub suite: calls of `echo` through a gateway to a bare server, on stdio and over HTTP, in both eras.

Every gateway has its own core; the bare server runs on the core of the generator. Only the
process of the gateway is measured, not the server that it starts.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator

from bench import hub_lists
from bench.bare_servers import bare_http, bare_stdio, on_generator_core
from bench.http_generator import HOST, Connection, free_port
from bench.http_runs import (
    concurrent_values,
    measure_phase,
    open_sessions,
    run_server,
    sequential_values,
    without_sessions,
)
from bench.hub_process import hub_command
from bench.messages import TEXT
from bench.process import ServerProcess
from bench.stdio_generator import StdioClient
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values

_TRANSPORTS, _ERAS = ("stdio", "http"), ("legacy", "modern")
_CELLS = [(transport, era) for transport in _TRANSPORTS for era in _ERAS]
_GATEWAYS = {
    "hubbub": _CELLS,
    "mcp-proxy": [("stdio", "legacy")],  # the only mode it supports: its HTTP upstreams are for stdio clients
    "fastmcp": _CELLS,
    "floor": _CELLS,
}
# Goals for the CPU of a call, with the peer. The peer of the suite supports one of the four.
_SHARES: dict[tuple[str, str], tuple[Goal | None, str | None]] = {
    ("stdio", "legacy"): (Goal(Bound.SHARE, 1 / 8), None),
    ("stdio", "modern"): (None, "fastmcp"),
    ("http", "legacy"): (Goal(Bound.SHARE, 1 / 12), "fastmcp"),
    ("http", "modern"): (Goal(Bound.SHARE, 1 / 12), "fastmcp"),
}
_MCP_PROXY = ".cache/bench/mcp-proxy/bin/mcp-proxy"
_FASTMCP = [".cache/bench/peers/bin/python", "bench/peers/fastmcp_proxy.py"]


def _measure(pace: Pace) -> list[Round]:
    for target in _GATEWAYS:
        _measure_target(target, 0.05)  # compiles bytecode and fills the file cache
    # Once is enough: other load does not change memory, and lists are measured in CPU time.
    print("hub: lists and sessions", file=sys.stderr)
    once = hub_lists.measure()
    rounds = []
    for number in range(pace.rounds):
        print(f"hub: round {number + 1} of {pace.rounds}", file=sys.stderr)
        # Each target has eight phases, so they are shorter than in other suites.
        round_values = {
            "direct": _measure_directly(pace.phase_s / 2),
            "bare": _measure_bare_protocol(pace.phase_s / 2),
        }
        round_values |= {target: _measure_target(target, pace.phase_s / 2) for target in _GATEWAYS}
        for target, cells in _GATEWAYS.items():
            for cell in ("_".join(cell) for cell in cells):
                key = f"{cell}_one_p50_us"
                round_values[target][f"{cell}_added_us"] = round_values[target][key] - round_values["direct"][key]
        round_values["hubbub"] |= once
        rounds.append(round_values)
    return rounds


def _measure_target(target: str, phase_s: float) -> Values:
    values: Values = {}
    for transport, era in _GATEWAYS[target]:
        if transport == "stdio":
            values |= _measure_gateway(target, transport, era, on_generator_core(bare_stdio(era)), phase_s)
        else:
            with bare_http(era, beside_generator=True) as port:
                values |= _measure_gateway(target, transport, era, [f"http://{HOST}:{port}/mcp"], phase_s)
    return values


def _measure_gateway(target: str, transport: str, era: str, place: list[str], phase_s: float) -> Values:
    """Measure a gateway in front of a bare server."""
    cell = f"{transport}_{era}"

    async def work(gateway: ServerProcess, clients: list[Connection]) -> Values:
        calling = await open_sessions(clients) if era == "legacy" else without_sessions(clients)
        return {
            **concurrent_values(cell, await measure_phase(gateway, calling, phase_s)),
            **sequential_values(f"{cell}_one", await measure_phase(gateway, calling[:1], phase_s)),
        }

    port = free_port()
    if target == "hubbub":
        with hub_command({"bare": place}, port) as command:
            return run_server(command, port, work)
    return run_server(_peer_command(target, era, place, port), port, work)


def _peer_command(target: str, era: str, place: list[str], port: int) -> list[str]:
    if target == "mcp-proxy":
        return [_MCP_PROXY, "--log-level", "WARNING", "--port", str(port), "--", *place]
    if target == "fastmcp":
        return [*_FASTMCP, str(port), era, *place]
    return [sys.executable, "-m", "bench.floors.gateway", str(port), *place]


def _measure_directly(phase_s: float) -> Values:
    """Measure direct calls of the bare servers."""
    values: Values = {}
    for era in _ERAS:
        with ServerProcess(bare_stdio(era), beside_generator=True) as server:
            client = StdioClient(server)
            client.call_sequentially(TEXT.decode(), phase_s / 5)
            times = client.call_sequentially(TEXT.decode(), phase_s)
            values[f"stdio_{era}_one_p50_us"] = statistics.median(times) * 1e6

        async def work(server: ServerProcess, clients: list[Connection]) -> Values:
            return sequential_values("one", await measure_phase(server, without_sessions(clients)[:1], phase_s))

        port = free_port()
        command = [sys.executable, "-m", "bench.floors.bare_http", str(port), era]
        values[f"http_{era}_one_p50_us"] = run_server(command, port, work, beside_generator=True)["one_p50_us"]
    return values


def _measure_bare_protocol(phase_s: float) -> Values:
    """Measure direct calls of the bare protocol, as the http suite does."""

    async def work(server: ServerProcess, clients: list[Connection]) -> Values:
        legacy, modern = await open_sessions(clients), without_sessions(clients)
        return {
            **concurrent_values("http_legacy", await measure_phase(server, legacy, phase_s)),
            **concurrent_values("http_modern", await measure_phase(server, modern, phase_s)),
        }

    port = free_port()
    return run_server([sys.executable, "-m", "bench.floors.bare_protocol", str(port)], port, work)


def _measures() -> Iterator[Measure]:
    for transport, era in _CELLS:
        cell, title = f"{transport}_{era}", f"{'HTTP' if transport == 'http' else transport}, {era}"
        share, peer = _SHARES[transport, era]
        cpu = Measure(f"{cell}_cpu_us", f"{title}, 16 in flight, CPU a call", "µs", share, peer)
        yield cpu
        if transport == "http":
            yield cpu.against("bare", 6.5)
        yield Measure(f"{cell}_one_cpu_us", f"{title}, one call at a time, CPU a call", "µs", peer=peer)
        yield Measure(f"{cell}_one_p50_us", f"{title}, one call at a time, p50", "µs", peer=peer)
        yield Measure(f"{cell}_added_us", f"{title}, added to a direct call, p50", "µs", Goal(Bound.SHARE, 3), "floor")
        yield Measure(f"{cell}_per_s", f"{title}, 16 in flight, calls a second", "", peer=peer)
        yield Measure(f"{cell}_generator_percent", f"{title}, 16 in flight, load of the generator", "%")
    yield from hub_lists.MEASURES


SUITE = Suite(
    name="hub",
    ours="hubbub",
    peer="mcp-proxy",
    targets={
        "hubbub": "`hubbub serve --mcp-json`; Host and Origin checks, a limit and metrics on",
        "mcp-proxy": "mcp-proxy 0.13.0, to servers on stdio and for legacy clients only",
        "fastmcp": "fastmcp-slim 4.1.4, `create_proxy` with a client that stays connected",
        "floor": "a floor: httptools on uvloop, bytes in and bytes out, and an id where it must be",
        "direct": "the bare server itself",
        "bare": "the bare protocol of the http suite, without a gateway: it checks, counts and answers",
    },
    measures=list(_measures()),
    measure=_measure,
    floor="floor",
)
