"""Which calls an upstream gets: the line before a busy one, and the breaker of a failing one."""

import asyncio

import pytest

from hubbub import Overloaded
from hubbub.hub.admission import Breaker, Slots
from hubbub.pack.http import Backoff


def soon() -> float:
    return asyncio.get_running_loop().time() + 600


async def started(slots: Slots, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(slots.take(soon())) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_who_comes_first_is_served_first() -> None:
    slots = Slots("calls", 1, 10)
    await slots.take(soon())
    first, second = await started(slots, 2)
    assert slots.waiting == 2
    slots.give_back()
    await first
    assert not second.done()
    slots.give_back()
    await second
    slots.give_back()
    assert (slots.running, slots.waiting) == (0, 0)


async def test_too_long_a_line_is_not_joined() -> None:
    slots = Slots("calls to x", 1, 1)
    await slots.take(soon())
    (waiting,) = await started(slots, 1)
    with pytest.raises(Overloaded, match="Too many calls to x at once"):
        await slots.take(soon())
    slots.give_back()
    await waiting


async def test_nobody_waits_beyond_the_deadline_or_after_leaving() -> None:
    slots = Slots("calls", 1, 10)
    await slots.take(soon())
    with pytest.raises(Overloaded):
        await slots.take(asyncio.get_running_loop().time() + 0.01)
    (leaving,) = await started(slots, 1)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert slots.waiting == 0
    slots.give_back()
    await slots.take(soon())
    assert slots.running == 1


async def test_a_slot_given_to_one_who_just_left_is_not_lost() -> None:
    slots = Slots("calls", 1, 10)
    await slots.take(soon())
    (leaving,) = await started(slots, 1)
    slots.give_back()
    leaving.cancel()
    await asyncio.wait([leaving])
    await asyncio.wait_for(slots.take(soon()), 60)
    assert slots.running == 1


async def test_a_call_whose_caller_is_asked_lends_its_slot() -> None:
    slots = Slots("calls", 1, 10)
    await slots.take(soon())
    slots.lend()
    await asyncio.wait_for(slots.take(soon()), 60)
    slots.take_again()
    assert slots.running == 2
    (waiting,) = await started(slots, 1)
    slots.give_back()
    await asyncio.sleep(0)
    assert not waiting.done()
    slots.give_back()
    await waiting


async def test_idle_is_when_nothing_runs_or_waits_or_is_lent() -> None:
    slots = Slots("calls", 2, 10)
    await asyncio.wait_for(slots.idle(), 60)
    await slots.take(soon())
    await slots.take(soon())
    slots.lend()
    idle = asyncio.create_task(slots.idle())
    slots.give_back()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not idle.done()
    slots.take_again()
    slots.give_back()
    await asyncio.wait_for(idle, 60)


@pytest.mark.parametrize("owner", ["", "ada"])
async def test_a_call_can_end_while_its_caller_is_asked(owner: str) -> None:
    slots = Slots("calls", 2, 10)
    await slots.take(soon(), owner)
    slots.lend(owner)
    idle = asyncio.create_task(slots.idle())
    await asyncio.sleep(0)
    slots.give_back(owner)
    slots.take_again(owner)
    await asyncio.wait_for(idle, 60)
    assert (slots.running, slots.lent, slots.waiting) == (0, 0, 0)


async def test_one_owner_leaves_room_for_another_in_the_line_too() -> None:
    slots = Slots("calls", 2, 2)
    await slots.take(soon(), "ada")
    waiting = asyncio.create_task(slots.take(soon(), "ada"))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await slots.take(soon(), "ada")
    await slots.take(soon(), "bob")
    next_bob = asyncio.create_task(slots.take(soon(), "bob"))
    await asyncio.sleep(0)
    assert slots.waiting == 2
    slots.give_back("ada")
    await waiting
    slots.give_back("bob")
    await next_bob


# -- the breaker ---------------------------------------------------------------


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(limit: int = 3) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(limit, backoff=Backoff((1.0, 5.0), jitter=0), clock=clock), clock


def test_it_opens_after_so_many_failures_in_a_row_and_says_why_and_for_how_long() -> None:
    breaker, _ = made()
    for _ in range(2):
        breaker.failed("slow")
    breaker.succeeded()
    for _ in range(2):
        assert breaker.admit()
        breaker.failed("slow")
    is_closed = breaker.is_closed
    assert is_closed
    breaker.failed("silent")
    assert not breaker.is_closed
    assert not breaker.admit()
    assert (breaker.reason, breaker.retry_in_s) == ("silent", 1.0)


def test_then_one_call_may_try_and_decides_for_the_others() -> None:
    breaker, clock = made(1)
    breaker.failed("gone")
    clock.now += 1
    assert breaker.admit()
    assert not breaker.admit()
    breaker.failed("still gone")
    assert breaker.retry_in_s == 5.0
    clock.now += 4.9
    assert not breaker.admit()
    clock.now += 0.2
    assert breaker.admit()
    breaker.succeeded()
    assert breaker.is_closed
    assert breaker.admit()
    assert breaker.admit()


def test_a_try_that_was_given_up_leaves_it_to_another() -> None:
    breaker, clock = made(1)
    breaker.failed("gone")
    clock.now += 2
    assert breaker.admit()
    breaker.abandoned()
    assert breaker.admit()


def test_failures_of_calls_that_began_earlier_do_not_make_the_wait_longer() -> None:
    breaker, _ = made(1)
    breaker.failed("gone")
    breaker.failed("gone too")
    assert breaker.retry_in_s == 1.0
    assert breaker.reason == "gone"


def test_a_sign_of_life_lets_one_try_at_once() -> None:
    breaker, _ = made(1)
    breaker.let_try()
    assert breaker.is_closed
    breaker.failed("gone")
    breaker.let_try()
    assert breaker.admit()
    assert not breaker.admit()
