"""One timer for everything that is waited for."""

import asyncio

import pytest

from hubbub.client.deadlines import Deadlines


def future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


def after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_each_answer_is_too_late_at_its_own_time() -> None:
    deadlines = Deadlines()
    late, soon, never = future(), future(), future()
    for answer, at in ((late, after(0.15)), (soon, after(0.03)), (never, float("inf"))):
        deadlines.add(answer, at)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(soon, 5)
    assert not late.done()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(late, 5)
    assert not never.done()


async def test_a_clock_can_be_stopped_and_started_again() -> None:
    deadlines = Deadlines()
    answer, other = future(), future()
    clock = deadlines.add(answer, after(0.03))
    deadlines.add(other, after(0.06))
    clock.reschedule(None)
    assert clock.when() is None
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(other, 5)
    assert not clock.expired()
    clock.reschedule(after(0.01))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(answer, 5)
    assert clock.expired()


async def test_what_was_answered_or_given_up_is_left_alone() -> None:
    deadlines = Deadlines()
    answered, given_up, last = future(), future(), future()
    deadlines.add(answered, after(0.01))
    deadlines.remove(deadlines.add(given_up, after(0.01)))
    deadlines.add(last, after(0.05))
    answered.set_result(None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(last, 5)
    assert not given_up.done()
    assert answered.result() is None


async def test_after_closing_nothing_rings() -> None:
    deadlines = Deadlines()
    answer = future()
    deadlines.add(answer, after(0.01))
    deadlines.close()
    await asyncio.sleep(0.05)
    assert not answer.done()
