"""The table of running calls: ids in use, and cancellation by id."""

import asyncio

import pytest
from msgspec import Raw

from hubbub import Overloaded
from hubbub.errors import IdInUse
from hubbub.server.running_calls import RunningCalls


async def test_an_id_is_in_use_until_its_call_ends_regardless_of_its_spelling() -> None:
    calls = RunningCalls()
    key = calls.reserve(Raw(b'"a"'))
    calls.start_in_current_task(key)
    with pytest.raises(IdInUse):
        calls.reserve(Raw(rb'"\u0061"'))
    calls.end(key)
    assert calls.reserve(Raw(rb'"\u0061"')) == key


async def test_a_full_table_refuses_calls() -> None:
    calls = RunningCalls()
    calls.start_in_current_task(calls.reserve(Raw(b"1"), 1))
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
    calls.start_in_current_task(key)
    calls.cancel(Raw(b"1"))
    calls.end(key)
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(later.set_result, "not cancelled")
    assert await later == "not cancelled"
