"""The line before a busy upstream."""

import asyncio

import pytest

from hubbub.errors import Overloaded
from hubbub.hub.slots import Slots


def soon() -> float:
    return asyncio.get_running_loop().time() + 5


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
    await asyncio.wait_for(slots.take(soon()), 1)
    assert slots.running == 1


async def test_a_call_whose_caller_is_asked_lends_its_slot() -> None:
    slots = Slots("calls", 1, 10)
    await slots.take(soon())
    slots.lend()
    await asyncio.wait_for(slots.take(soon()), 1)
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
    await asyncio.wait_for(slots.idle(), 1)
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
    await asyncio.wait_for(idle, 1)
