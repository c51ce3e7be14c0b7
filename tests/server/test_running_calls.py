"""The table of running calls: ids in use, and cancellation by id."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest
from msgspec import Raw

from hubbub import Overloaded
from hubbub.errors import IdInUse
from hubbub.server.running_calls import RunningCalls

NO_TIMEOUT_S = 3600.0
"""Longer than the time limit of a test."""


def current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_an_id_is_in_use_until_its_call_ends_regardless_of_its_spelling() -> None:
    calls = RunningCalls()
    key = calls.reserve(Raw(b'"a"'))
    calls[key] = current_task()
    with pytest.raises(IdInUse):
        calls.reserve(Raw(rb'"\u0061"'))
    calls.end(key)
    assert calls.reserve(Raw(rb'"\u0061"')) == key


async def test_a_full_table_refuses_calls() -> None:
    calls = RunningCalls()
    calls[calls.reserve(Raw(b"1"), 1)] = current_task()
    with pytest.raises(Overloaded):
        calls.reserve(Raw(b"2"), 1)


async def test_a_call_that_was_just_started_cleans_up_when_it_is_cancelled() -> None:
    calls, steps = RunningCalls(), []

    async def serve(key: bytes) -> None:
        try:
            steps.append("began")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled by the client" if calls.is_cancelled(key) else "cancelled")
        finally:
            calls.end(key)

    key = calls.reserve(Raw(b"7"))
    task = calls.start(key, serve(key))
    calls.cancel(Raw(b"7"))
    await asyncio.wait([task])
    assert steps == ["began", "cancelled by the client"]
    assert not calls
    assert not calls.is_cancelled(key)


async def test_a_task_that_already_answered_is_not_cancelled() -> None:
    calls = RunningCalls()
    key = calls.reserve(Raw(b"1"))
    calls[key] = current_task()
    calls.cancel(Raw(b"1"))
    calls.end(key)
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(later.set_result, "not cancelled")
    assert await later == "not cancelled"


# -- calls that share a task -------------------------------------------------------


class RecordedCalls:
    """Calls that arrive together; records what they do."""

    def __init__(self) -> None:
        self.calls = RunningCalls()
        self.steps: list[str] = []
        self.tasks: dict[str, object] = {}

    def arrive(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        key = self.calls.reserve(Raw(f'"{name}"'.encode()))
        self.calls[key] = self.calls.start_soon(key, self._serve(name, key, work))

    def cancel(self, name: str) -> None:
        self.calls.cancel(Raw(f'"{name}"'.encode()))

    async def _serve(self, name: str, key: bytes, work: Callable[[], Awaitable[object]]) -> None:
        self.tasks[name] = asyncio.current_task()
        self.steps.append(f"{name} began")
        try:
            await work()
            self.steps.append(f"{name} ended")
        except asyncio.CancelledError:
            self.steps.append(f"{name} cancelled")
            raise
        finally:
            self.calls.end(key)


async def return_at_once() -> None:
    """Return without waiting."""


async def test_calls_that_end_at_once_start_in_order_of_arrival_and_not_before_their_client_has_sent_them() -> None:
    shared = RecordedCalls()
    for name in "abc":
        shared.arrive(name, return_at_once)
    assert shared.steps == []
    await shared.calls.wait(NO_TIMEOUT_S)
    assert shared.steps == ["a began", "a ended", "b began", "b ended", "c began", "c ended"]
    assert shared.tasks["a"] is shared.tasks["b"] is shared.tasks["c"]


async def test_a_call_that_waits_has_its_task_to_itself_and_delays_no_other() -> None:
    shared, opened = RecordedCalls(), asyncio.Event()

    async def with_timeout() -> None:
        async with asyncio.timeout(60):
            shared.tasks["b before"] = asyncio.current_task()
            await asyncio.sleep(0)
            await opened.wait()
            shared.tasks["b after"] = asyncio.current_task()

    async def open_it() -> None:
        opened.set()

    for name, work in {"a": return_at_once, "b": with_timeout, "c": opened.wait, "d": open_it}.items():
        shared.arrive(name, work)
    await shared.calls.wait(NO_TIMEOUT_S)
    assert shared.steps[:5] == ["a began", "a ended", "b began", "c began", "d began"]
    assert sorted(shared.steps[5:]) == ["b ended", "c ended", "d ended"]
    assert len({shared.tasks[name] for name in "bcd"}) == 3
    assert shared.tasks["b"] is shared.tasks["b before"] is shared.tasks["b after"]
    assert not shared.calls


async def test_calls_that_share_a_task_do_not_share_context_variables() -> None:
    shared, variable, seen = RecordedCalls(), ContextVar("variable", default="unset"), []

    async def change(value: str, *, waits: bool) -> None:
        seen.append(variable.get())
        variable.set(value)
        if waits:
            await asyncio.sleep(0)
        seen.append(variable.get())

    shared.arrive("a", lambda: change("a", waits=False))
    variable.set("set by the sender")
    shared.arrive("b", lambda: change("b", waits=True))
    shared.arrive("c", lambda: change("c", waits=True))
    await shared.calls.wait(NO_TIMEOUT_S)
    assert sorted(seen) == sorted(["unset", "a", "set by the sender", "b", "set by the sender", "c"])
    assert variable.get() == "set by the sender"


async def test_only_the_cancelled_one_of_calls_that_arrived_together_is_cancelled() -> None:
    shared, opened = RecordedCalls(), asyncio.Event()
    for name in "abc":
        shared.arrive(name, opened.wait)
    shared.cancel("b")
    shared.arrive("d", opened.wait)
    while "b cancelled" not in shared.steps:
        await asyncio.sleep(0)
    opened.set()
    await shared.calls.wait(NO_TIMEOUT_S)
    assert sorted(shared.steps) == sorted(
        ["a began", "b began", "c began", "d began", "b cancelled", "a ended", "c ended", "d ended"]
    )
    assert not shared.calls


async def test_a_cancellation_takes_effect_before_calls_that_arrive_later() -> None:
    shared = RecordedCalls()

    async def look() -> None:
        task = shared.tasks["a"]
        assert isinstance(task, asyncio.Task)
        shared.steps.append(f"{task.cancelling()} cancellations")

    shared.arrive("a", asyncio.Event().wait)
    await asyncio.sleep(0)
    shared.arrive("b", look)
    shared.cancel("a")
    shared.arrive("c", look)
    await shared.calls.wait(NO_TIMEOUT_S)
    b_steps, c_steps = ["b began", "0 cancellations", "b ended"], ["c began", "1 cancellations", "c ended"]
    assert shared.steps == ["a began", *b_steps, *c_steps, "a cancelled"]


async def test_a_handler_that_cancels_its_own_task_does_not_cancel_other_calls() -> None:
    shared = RecordedCalls()

    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    shared.arrive("a", cancel_itself)
    shared.arrive("b", lambda: asyncio.sleep(0))
    await shared.calls.wait(NO_TIMEOUT_S)
    assert shared.steps == ["a began", "a ended", "b began", "b ended"]


async def test_an_exception_of_one_call_does_not_reach_those_that_arrived_with_it() -> None:
    shared = RecordedCalls()

    class UnusualError(BaseException):
        pass

    async def fail() -> None:
        raise UnusualError

    shared.arrive("a", fail)
    shared.arrive("b", return_at_once)
    await shared.calls.wait(NO_TIMEOUT_S)
    task = shared.tasks["a"]
    assert isinstance(task, asyncio.Task)
    assert isinstance(task.exception(), UnusualError)
    assert shared.steps == ["a began", "b began", "b ended"]
