"""Shares of a bounded table among its owners."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hubbub.pack import Shares
from hubbub.shares import SharedSlots


def fill(shares: Shares, owner: str) -> None:
    while shares.has_room(owner):
        shares.take(owner)


def test_one_owner_alone_gets_seven_eighths() -> None:
    shares = Shares(1024)
    fill(shares, "ada")
    assert len(shares) == 896


def test_indistinguishable_callers_may_use_the_whole_table() -> None:
    shares = Shares(1024)
    fill(shares, "")
    assert len(shares) == 1024


def test_a_later_owner_still_gets_a_share() -> None:
    shares = Shares(1024)
    held = []
    for owner in ("ada", "bob", "cid"):
        before = len(shares)
        fill(shares, owner)
        held.append(len(shares) - before)
    assert held == [896, 112, 14]


def test_the_last_slot_is_reserved_for_an_owner_without_slots() -> None:
    for limit in range(2, 9):
        shares = Shares(limit)
        fill(shares, "ada")
        assert len(shares) == limit - 1
        fill(shares, "bob")
        assert shares.held_by("bob") == 1


def test_a_table_with_one_slot_can_be_used() -> None:
    shares = Shares(1)
    fill(shares, "ada")
    assert len(shares) == 1


@given(st.integers(1, 60), st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(-9, 9))))
def test_the_limit_holds_and_owners_without_slots_are_removed(limit: int, steps: list[tuple[str, int]]) -> None:
    shares = Shares(limit)
    held: dict[str, int] = {}
    for owner, amount in steps:
        if amount > 0 and shares.has_room(owner, amount):
            shares.take(owner, amount)
            held[owner] = held.get(owner, 0) + amount
        elif amount < 0 and held.get(owner, 0) >= -amount:
            shares.give_back(owner, -amount)
            held[owner] += amount
        assert len(shares) == sum(held.values()) <= limit
        assert set(shares.owners) == {owner for owner, amount in held.items() if amount}


async def start_waiting(slots: SharedSlots, *owners: str) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(slots.take(owner), name=owner) for owner in owners]
    await asyncio.sleep(0)
    return tasks


async def test_a_free_slot_goes_to_the_waiter_with_the_fewest_slots() -> None:
    slots = SharedSlots(9)
    for owner in ["ada"] * 6 + ["bob"] * 2:
        assert slots.take_nowait(owner)
    waiting = await start_waiting(slots, "ada", "bob", "cid", "cid", "bob")
    order = []
    for _ in range(5):
        order += [task.get_name() for task in waiting if task.done()]
        waiting = [task for task in waiting if not task.done()]
        slots.give_back("ada")
        await asyncio.sleep(0)
    assert order == ["cid", "cid", "bob", "ada"]
    assert [task.done() for task in waiting] == [True]


async def test_a_slot_left_by_a_waiter_is_not_lost() -> None:
    slots = SharedSlots(1)
    await slots.take("ada")
    gone, given, last = await start_waiting(slots, "ada", "bob", "cid")
    gone.cancel()  # its turn comes before it is notified
    slots.give_back("ada")
    given.cancel()  # at the moment it gets the slot
    await asyncio.wait([gone, given])
    await asyncio.wait_for(last, 60)
    slots.give_back("cid")
    assert slots.taken == 0
    assert slots.take_nowait("ada")
