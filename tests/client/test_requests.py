"""One timer for everything that is waited for."""

import asyncio

import pytest
from tests.clock import pass_time, skip

from hubbub.client.requests import Deadlines


def future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


def after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_each_answer_is_too_late_at_its_own_time() -> None:
    deadlines = Deadlines()
    late, soon, never = future(), future(), future()
    for answer, at in ((late, after(150)), (soon, after(30)), (never, float("inf"))):
        deadlines.add(answer, at)
    for answer, seconds, other in ((soon, 40, late), (late, 120, never)):
        pass_time(seconds)
        with pytest.raises(TimeoutError):
            await answer
        assert not other.done()


async def test_a_clock_can_be_stopped_and_started_again() -> None:
    deadlines = Deadlines()
    answer, other = future(), future()
    clock = deadlines.add(answer, after(30))
    deadlines.add(other, after(60))
    clock.reschedule(None)
    assert clock.when() is None
    pass_time(60)
    with pytest.raises(TimeoutError):
        await other
    assert not clock.expired()
    clock.reschedule(after(10))
    pass_time(10)
    with pytest.raises(TimeoutError):
        await answer
    assert clock.expired()


async def test_what_was_answered_or_given_up_is_left_alone() -> None:
    deadlines = Deadlines()
    answered, given_up, last = future(), future(), future()
    deadlines.add(answered, after(10))
    deadlines.remove(deadlines.add(given_up, after(10)))
    deadlines.add(last, after(50))
    answered.set_result(None)
    pass_time(50)
    with pytest.raises(TimeoutError):
        await last
    assert not given_up.done()
    assert answered.result() is None


async def test_after_closing_nothing_rings() -> None:
    deadlines = Deadlines()
    answer = future()
    deadlines.add(answer, after(10))
    deadlines.close()
    await skip(50)
    assert not answer.done()
