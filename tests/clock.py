"""The event loop of async tests. Its clock can be advanced, so that no test waits for a deadline.

    call = asyncio.create_task(client.call_tool("hang", timeout_s=60))
    await server.asked()          # an event: the call is under way
    pass_time(60)                 # its deadline is now
    with pytest.raises(DeadlineExceeded):
        await call

Only timers of this loop see it (`asyncio.timeout`, `call_later`, `loop.time()`), not other processes.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

POLL_S, WAIT_S = 0.01, 60.0


class AdjustableClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock also counts the time that was skipped."""

    def __init__(self) -> None:
        self.skipped_s = 0.0
        self.deadline: asyncio.Timeout | None = None
        self.left_open: list[str] = []
        super().__init__()

    def time(self) -> float:
        return super().time() + self.skipped_s

    def close(self) -> None:
        if not self.is_closed():
            # Read here, because the garbage collector would attribute them to a later test.
            transports = list(self._transports.values())  # type: ignore[attr-defined]
            self.left_open = [
                f"{transport!r} of {transport.get_protocol()!r}, {transport.get_extra_info('socket')!r}"
                for transport in transports
                if transport.get_extra_info("socket").fileno() != -1
            ]
        super().close()


async def _within_deadline(test: Coroutine[Any, Any, None], deadline_s: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdjustableClockLoop)
    async with asyncio.timeout(deadline_s) as loop.deadline:
        await test


def run_test(test: Coroutine[Any, Any, None], deadline_s: float) -> None:
    """Run a test in a loop of its own; fail it if it takes longer than `deadline_s` of real time."""
    with asyncio.Runner(loop_factory=AdjustableClockLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, AdjustableClockLoop)
        runner.run(_within_deadline(test, deadline_s))
    assert not loop.left_open, f"the test left connections open: {loop.left_open}"


def advance_clock(seconds: float) -> None:
    """Advance the clock of the running loop: timers that are due by then run next."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdjustableClockLoop)
    loop.skipped_s += seconds
    if loop.deadline is not None and (when := loop.deadline.when()) is not None:
        loop.deadline.reschedule(when + seconds)


async def advance_and_settle(seconds: float) -> None:
    """Advance the clock, and run every timer that is due by then."""
    timer = asyncio.create_task(asyncio.sleep(seconds))
    await asyncio.sleep(0)
    advance_clock(seconds)
    await timer


def measure_cpu_s(work: Callable[[], object], times: int = 3) -> float:
    """Measure the CPU time of a function, which does not depend on the load of the machine, for comparisons."""
    durations = []
    for _ in range(times):
        started = time.thread_time()
        work()
        durations.append(time.thread_time() - started)
    return min(durations)


async def yield_to_loop(number: int = 30) -> None:
    """Let the loop run several times, so that data sent between its sockets arrives and is processed."""
    for _ in range(number):
        await asyncio.sleep(0)


async def wait_until(is_true: Callable[[], object], describe: Callable[[], object] = asyncio.all_tasks) -> None:
    """Wait until a condition holds. The time limit only keeps a failing test from hanging."""
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {describe()}"
        await asyncio.sleep(POLL_S)
