"""One timer serves the deadlines of all pending requests."""

import asyncio

import pytest
from tests.clock import advance_and_settle, advance_clock

from hubbub.client.requests import Deadlines


def future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


def seconds_from_now(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_each_request_times_out_at_its_own_deadline() -> None:
    deadlines = Deadlines()
    late, soon, never = future(), future(), future()
    for answer, at in ((late, seconds_from_now(150)), (soon, seconds_from_now(30)), (never, float("inf"))):
        deadlines.add(answer, at)
    for answer, seconds, other in ((soon, 40, late), (late, 120, never)):
        advance_clock(seconds)
        with pytest.raises(TimeoutError):
            await answer
        assert not other.done()


async def test_a_deadline_can_be_paused_and_resumed() -> None:
    deadlines = Deadlines()
    answer, other = future(), future()
    clock = deadlines.add(answer, seconds_from_now(30))
    deadlines.add(other, seconds_from_now(60))
    clock.reschedule(None)
    assert clock.when() is None
    advance_clock(60)
    with pytest.raises(TimeoutError):
        await other
    assert not clock.expired()
    clock.reschedule(seconds_from_now(10))
    advance_clock(10)
    with pytest.raises(TimeoutError):
        await answer
    assert clock.expired()


async def test_answered_and_cancelled_requests_do_not_time_out() -> None:
    deadlines = Deadlines()
    answered, abandoned, last = future(), future(), future()
    deadlines.add(answered, seconds_from_now(10))
    deadlines.remove(deadlines.add(abandoned, seconds_from_now(10)))
    deadlines.add(last, seconds_from_now(50))
    answered.set_result(None)
    advance_clock(50)
    with pytest.raises(TimeoutError):
        await last
    assert not abandoned.done()
    assert answered.result() is None


async def test_after_closing_no_deadline_fires() -> None:
    deadlines = Deadlines()
    answer = future()
    deadlines.add(answer, seconds_from_now(10))
    deadlines.close()
    await advance_and_settle(50)
    assert not answer.done()
