"""Coroutines that share a task run, whatever happens to others of the same task."""

import asyncio
from contextvars import ContextVar

import pytest
from tests.clock import yield_to_loop
from tests.http.in_process_server import run_server
from tests.http.raw_http import call

from hubbub import Server
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


async def test_coroutines_of_one_task_have_context_variables_of_their_own() -> None:
    """What docs/tools.md says about tasks and context variables."""
    variable: ContextVar[str] = ContextVar("variable")
    seen: dict[str, tuple[asyncio.Task[object] | None, str | None]] = {}
    event = asyncio.Event()

    async def work(name: str, *, waits: bool = False) -> None:
        before = variable.get(None)
        variable.set(name)
        if waits:
            await event.wait()
        seen[name] = (asyncio.current_task(), before if variable.get() == name else variable.get())

    shared: SharedTasks[str] = SharedTasks(lambda name, task: None)
    for name in ("one", "two"):
        shared.start(name, work(name))
    shared.start("waiting", work("waiting", waits=True))
    shared.start("behind it", work("behind it"))
    await yield_to_loop()
    event.set()
    await yield_to_loop()
    assert {before for _, before in seen.values()} == {None}
    assert seen["one"][0] is seen["two"][0]
    assert seen["waiting"][0] is not seen["behind it"][0]


async def test_calls_of_different_callers_do_not_see_context_variables_of_each_other() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    found: list[str | None] = []
    server = Server("variables")

    @server.tool
    async def remember(text: str) -> None:
        found.append(variable.get(None))
        variable.set(text)

    async with run_server(server) as instance:
        await asyncio.gather(*(instance.site.post(call("remember", {"text": str(number)})) for number in range(50)))
    assert found == [None] * 50
