"""Coroutines that share a task run, whatever happens to others of the same task."""

import asyncio

import pytest
from tests.clock import yield_to_loop

from hubbub.transports.shared_tasks import SharedTasks


@pytest.mark.parametrize("iterations", [0, 1, 5])
async def test_a_task_that_is_cancelled_before_it_starts_swallows_nothing_that_comes_later(iterations: int) -> None:
    assigned: dict[str, asyncio.Task[object]] = {}
    ran = []

    async def work(name: str) -> None:
        ran.append(name)

    shared: SharedTasks[str] = SharedTasks(assigned.__setitem__)
    first = work("first")
    assigned["first"] = shared.start("first", first)
    assigned["first"].cancel()
    await yield_to_loop(iterations)
    assigned["second"] = shared.start("second", work("second"))
    assigned["third"] = shared.start("third", work("third"))
    await yield_to_loop()
    first.close()  # it is cancelled with its task, so nobody else does
    assert ran[-2:] == ["second", "third"]
    assert assigned["second"] is not assigned["first"]
    assert all(task.done() for task in assigned.values())


async def test_the_end_of_each_coroutine_is_reported_once() -> None:
    tasks: dict[str, asyncio.Task[object]] = {}
    ended: list[str] = []
    event = asyncio.Event()
    shared: SharedTasks[str] = SharedTasks(tasks.__setitem__, ended.append)

    async def finish() -> None: ...

    async def fail() -> None:
        raise ZeroDivisionError

    async def wait() -> None:
        await event.wait()

    shared.start("finished", finish())
    tasks["failed"] = shared.start("failed", fail())
    shared.start("after a failure", finish())
    await yield_to_loop()
    assert ended == ["finished", "failed", "after a failure"]
    for name in ("waiting", "waiting behind it", "cancelled", "finished behind them"):
        tasks[name] = shared.start(name, finish() if name.startswith("finished") else wait())
    await yield_to_loop()
    assert ended[3:] == ["finished behind them"]
    tasks["cancelled"].cancel()
    await yield_to_loop()
    assert ended[4:] == ["cancelled"]
    event.set()
    await yield_to_loop()
    assert ended[5:] == ["waiting", "waiting behind it"]
    with pytest.raises(ZeroDivisionError):
        await tasks["failed"]
