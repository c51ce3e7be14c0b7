"""Measure a client: connect, call `echo` sequentially, then concurrently.

CPU is the client's own process, all threads; a server that it has started is not counted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

TEXT = "a text of 20 letters"
IN_FLIGHT = (1, 16)
_WARM_UP = 0.2  # share of a phase

Call = Callable[[str], Awaitable[str]]
Connect = Callable[[list[str], bool], AbstractAsyncContextManager[Call]]
"""Connects to a server, given as a command or a single URL; the second argument says whether it is modern."""
Connected = AsyncIterator[Call]


def main(connect: Connect) -> None:
    """`CALLER SECONDS legacy|modern URL` or `CALLER SECONDS legacy|modern COMMAND...`."""
    seconds, era, *place = sys.argv[1:]
    print(json.dumps(asyncio.run(_measure(connect, place, era == "modern", float(seconds)))))


async def _measure(connect: Connect, place: list[str], is_modern: bool, seconds: float) -> dict[str, float]:
    values = {}
    async with connect(place, is_modern) as call:
        await _check(call)
        values["start_cpu_ms"] = time.process_time() * 1e3
        for window in IN_FLIGHT:
            await _flow(call, window, seconds * _WARM_UP)
            cpu_s, wall_s = -time.process_time(), -time.perf_counter()
            calls = await _flow(call, window, seconds)
            cpu_s, wall_s = cpu_s + time.process_time(), wall_s + time.perf_counter()
            values[f"{window}_cpu_us"] = cpu_s / calls * 1e6
            values[f"{window}_per_s"] = calls / wall_s
    return values


async def _check(call: Call) -> None:
    answer = await call(TEXT)
    if answer != TEXT:
        raise SystemExit(f"a wrong answer: {answer!r}")


async def _flow(call: Call, window: int, seconds: float) -> int:
    """Keep this many calls in flight; return the number of answered calls."""
    end = time.perf_counter() + seconds

    async def work() -> int:
        calls = 0
        while time.perf_counter() < end:
            await _check(call)
            calls += 1
        return calls

    return sum(await asyncio.gather(*(work() for _ in range(window))))
