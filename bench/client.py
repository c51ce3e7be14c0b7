"""The client suite: Hubbub's client beside the official SDK's and FastMCP's, all calling the same bare server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from bench.bare_servers import bare_http, bare_stdio
from bench.http_generator import HOST
from bench.process import ServerProcess
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values

_PEER_PYTHON = ".cache/bench/peers/bin/python"
_PYTHONS = {"hubbub": ".venv/bin/python", "mcp": _PEER_PYTHON, "fastmcp": _PEER_PYTHON}
_MODULES = {"hubbub": "hubbub.client", "mcp": "mcp", "fastmcp": "fastmcp"}
_ERAS = ("legacy", "modern")
_SHARE = Goal(Bound.SHARE, 1 / 3)


def _measure(pace: Pace) -> list[Round]:
    for target in _PYTHONS:
        _measure_target(target, 0.05)  # compiles bytecode and fills the file cache
    rounds = []
    for number in range(pace.rounds):
        print(f"client: round {number + 1} of {pace.rounds}", file=sys.stderr)
        # Each target has eight phases, so they are shorter than in other suites.
        rounds.append({target: _measure_target(target, pace.phase_s / 2) for target in _PYTHONS})
    return rounds


def _measure_target(target: str, phase_s: float) -> Values:
    """Measure the import of a client, and its calls in each era on stdio and over HTTP."""
    values = {"import_cpu_ms": _import_cpu_ms(target)}
    for era in _ERAS:
        values |= _call(target, f"stdio_{era}", [str(phase_s), era, *bare_stdio(era)])
        with bare_http(era) as port:
            values |= _call(target, f"http_{era}", [str(phase_s), era, f"http://{HOST}:{port}/mcp"])
    return values


def _import_cpu_ms(target: str) -> float:
    code = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"
    return float(_output([_PYTHONS[target], "-c", code.format(_MODULES[target])])) * 1e3


def _call(target: str, name: str, arguments: list[str]) -> Values:
    printed = _output([_PYTHONS[target], "-m", f"bench.callers.{target}_caller", *arguments])
    return {f"{name}_{key}": value for key, value in json.loads(printed).items()}


def _output(command: list[str]) -> bytes:
    """Run a program and return its output."""
    with ServerProcess(command) as process:
        printed = b""
        while chunk := os.read(process.output, 1 << 16):
            printed += chunk
        if not printed:
            raise process.make_error("it has failed")
        return printed


def _measures() -> Iterator[Measure]:
    yield Measure("import_cpu_ms", "import, CPU", "ms", Goal(Bound.SHARE, 1 / 5))
    for transport, what in (("stdio", "stdio"), ("http", "HTTP")):
        yield Measure(f"{transport}_legacy_start_cpu_ms", f"{what}, start to the first answer, CPU", "ms")
        for era in _ERAS:
            for window, description in ((1, "one call at a time"), (16, "16 in flight")):
                key = f"{transport}_{era}_{window}"
                yield Measure(f"{key}_cpu_us", f"{what}, {era}, {description}, CPU a call", "µs", _SHARE)
                yield Measure(f"{key}_per_s", f"{what}, {era}, {description}, calls a second", "")


SUITE = Suite(
    name="client",
    ours="hubbub",
    peer="mcp",
    targets={
        "hubbub": "hubbub.client, on asyncio's own loop",
        "mcp": "mcp 2.3.0 Client",
        "fastmcp": "fastmcp-slim 4.1.4 Client",
    },
    measures=list(_measures()),
    measure=_measure,
)
