"""The soak run: `python -m bench.soak --seconds 3600`; bench/README.md explains it.

Exit code 1 if the control client or a correct exchange got a wrong answer, the server logged
an exception, or descriptors, threads, sessions or memory were left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from random import Random

import uvloop

from bench.http_generator import HOST, free_port, wait_for_listener
from bench.process import BenchError, ServerProcess, pin_generator
from bench.soak.control import ControlClient
from bench.soak.kinds import KINDS, REQUEST_TIMEOUT_S, Kind, LoadSource
from bench.soak.wire import Connection

_WARM_UP_S = 60.0
_SAMPLE_S = 300.0
_KIND_TIMEOUT_S = 60.0
_SESSION_IDLE_S = 20.0
_QUIET_TIMEOUT_S = _SESSION_IDLE_S + 60
_POLL_S = 0.2
_SHOWN_FAILURES = 10
_GAUGE = re.compile(r"^(hubbub_\w+) (\S+)$", re.MULTILINE)
_METRICS_REQUEST = f"GET /metrics HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()


def _build_command(port: int) -> list[str]:
    """Return the server's command: with short timeouts, and limits that the load does not reach."""
    return [
        *(".venv/bin/hubbub", "serve", "bench/soak/tools.py", "--port", str(port), "--max-connections", "20000"),
        *("--head-s", str(REQUEST_TIMEOUT_S), "--body-s", str(REQUEST_TIMEOUT_S), "--slow-reader-s", "5"),
        *("--max-sessions", "100000", "--session-idle-s", str(_SESSION_IDLE_S)),
    ]


class Soak:
    """One run."""

    def __init__(self, server: ServerProcess, port: int, options: argparse.Namespace) -> None:
        self._server = server
        self._port = port
        self._options = options
        self._control = ControlClient(port)
        self._counts: Counter[tuple[Kind, str]] = Counter()
        self._failures: list[str] = []
        self._started = time.monotonic()

    async def run(self) -> list[str]:
        """Run, print, and return what was wrong."""
        seconds = self._options.seconds
        warm_up_s = min(_WARM_UP_S, seconds / 4)
        gauges = await self._read_gauges()
        print(f"{'seconds':>8} {'resident MB':>12} {'descriptors':>12} {'threads':>8}  gauges", flush=True)
        async with self._load():
            await asyncio.sleep(warm_up_s)
        await self._wait_until_quiet(gauges)
        start_mb, descriptors, threads = await self._sample("after the warm-up, idle")
        async with self._load():
            end = time.monotonic() + seconds - warm_up_s
            while (left := end - time.monotonic()) > 0:
                await asyncio.sleep(min(_SAMPLE_S, left))
                await self._sample("under load")
        problems = await self._wait_until_quiet(gauges, descriptors)
        end_mb, _, end_threads = await self._sample("at the end, idle")
        self._print_counts()
        if end_mb - start_mb > self._options.max_growth_mb:
            problems.append(f"resident memory grew by {end_mb - start_mb:.1f} MB, from {start_mb:.1f} MB")
        if end_threads > threads:
            problems.append(f"{end_threads - threads} threads were left")
        return problems + self._list_failures()

    @contextlib.asynccontextmanager
    async def _load(self) -> AsyncIterator[None]:
        """Run the control client and all workers during this block, and then close all of their connections."""
        workers = (self._work(Random(f"{self._options.seed} {number}")) for number in range(self._options.workers))
        tasks = [asyncio.ensure_future(work) for work in (self._control.run(), *workers)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, random: Random) -> None:
        source, kinds, weights = LoadSource(self._port, random), list(KINDS), list(KINDS.values())
        while True:
            [kind] = random.choices(kinds, weights)
            try:
                async with asyncio.timeout(_KIND_TIMEOUT_S):
                    await kind(source)
            except Exception as error:
                self._counts[kind, "failed"] += 1
                if len(self._failures) < _SHOWN_FAILURES:
                    self._failures.append(f"{kind.__name__}: {error!r}")
                await asyncio.sleep(_POLL_S)
            else:
                self._counts[kind, "done"] += 1

    async def _sample(self, state: str) -> tuple[float, int, int]:
        """Print and return resident memory, descriptors and threads."""
        server = self._server
        gauges = await self._read_gauges()
        sample = server.resident_mb(), server.descriptors(), server.threads()
        shown = " ".join(f"{name.removeprefix('hubbub_')}={value:.0f}" for name, value in gauges.items())
        passed_s = time.monotonic() - self._started
        print(f"{passed_s:8.0f} {sample[0]:12.1f} {sample[1]:12} {sample[2]:8}  {shown} ({state})", flush=True)
        return sample

    async def _read_gauges(self) -> dict[str, float]:
        async with Connection(self._port, HOST) as connection:
            response = await connection.ask(_METRICS_REQUEST)
        return {name: float(value) for name, value in _GAUGE.findall(response.body.decode())}

    async def _wait_until_quiet(self, gauges: dict[str, float], descriptors: int | None = None) -> list[str]:
        """Wait until gauges and descriptors are not above these values; return those that still are."""
        end = time.monotonic() + _QUIET_TIMEOUT_S
        while True:
            found, held = await self._read_gauges(), self._server.descriptors()
            left = [
                f"{name} is {found[name]:.0f}, not {gauges[name]:.0f}" for name in gauges if found[name] > gauges[name]
            ]
            if descriptors is not None and held > descriptors:
                left.append(f"{held - descriptors} descriptors were left")
            if not left or time.monotonic() > end:
                return left
            await asyncio.sleep(_POLL_S)

    def _print_counts(self) -> None:
        print(f"\n{'kind':<16} {'done':>10} {'failed':>8}")
        print(f"{'control':<16} {self._control.calls:>10} {self._control.error_count:>8}")
        for kind in KINDS:
            print(f"{kind.__name__:<16} {self._counts[kind, 'done']:>10} {self._counts[kind, 'failed']:>8}")

    def _list_failures(self) -> list[str]:
        failed = sum(count for (_, outcome), count in self._counts.items() if outcome == "failed")
        problems = []
        if self._control.error_count:
            problems += [f"{self._control.error_count} calls of the control client failed:", *self._control.errors]
        if failed:
            problems += [f"{failed} exchanges of the load failed:", *self._failures]
        if "Traceback" in (logged := self._server.read_stderr()):
            problems += ["the server logged exceptions:", *logged.splitlines()[:40]]
        return problems


def main() -> int:
    """Run, print what was wrong, and return 1 if there was anything."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Mixed load and faults for a long time.")
    parser.add_argument("--seconds", type=float, default=3600.0, help="duration of the load (default: an hour)")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="seed of the random choices, to repeat a run")
    parser.add_argument("--workers", type=int, default=64, help="concurrent exchanges (default: 64)")
    parser.add_argument("--max-growth-mb", type=float, default=10.0, help="growth of resident memory (default: 10)")
    options = parser.parse_args()
    pin_generator()
    port = free_port()
    print(f"soak: {options.seconds:.0f} seconds, {options.workers} workers, seed {options.seed}", flush=True)
    with ServerProcess(_build_command(port)) as server:
        try:
            wait_for_listener(server, port)
            problems = uvloop.run(Soak(server, port, options).run())
        except OSError as error:
            raise server.make_error(f"no metrics: {error}") from error
        finally:
            server.terminate()
    print("\n" + "\n".join(problems or ["no leaks, and every answer was correct"]))
    return 1 if problems else 0


try:
    sys.exit(main())
except BenchError as failure:
    sys.exit(f"soak: {failure}")
