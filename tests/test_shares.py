"""Shares of a bounded table among its owners."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.pack import Shares
from hubbub.shares import SharedSlots, tenant_of


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


def test_a_tenant_gets_no_more_by_having_more_users() -> None:
    shares = Shares(1024)
    for number in range(1024):
        fill(shares, f"acme/user{number}#key")
    assert len(shares) == 896
    fill(shares, "beta/ada#key")
    assert shares.held_by("beta/ada#key") == 98  # seven eighths of the 112 that an owner without a tenant would get


def test_one_user_of_a_tenant_leaves_room_for_the_others() -> None:
    for limit in range(3, 9):
        shares = Shares(limit)
        fill(shares, "acme/ada#key")
        assert len(shares) == limit - 2
        assert shares.has_room("acme/bob#key")
        shares.take("acme/bob#key")
        assert not shares.has_room("acme/eve#key")
        assert shares.has_room("beta/ada#key")


@pytest.mark.parametrize(
    ("owner", "tenant"),
    [("acme/ada#k1", "acme"), ("/ops#k1", ""), ("key:ada", ""), ("2001:db8::/64", ""), ("https://idp/ada", "")],
)
def test_only_names_of_principals_of_tenants_have_a_tenant(owner: str, tenant: str) -> None:
    assert tenant_of(owner) == tenant


OWNERS = ["", "key:a", "key:b", "acme/ada#1", "acme/bob#1", "acme/bob#2", "beta/ada#1"]


@given(st.integers(1, 60), st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(-9, 9))))
def test_a_table_is_divided_among_tenants_and_then_among_their_principals(
    limit: int, steps: list[tuple[str, int]]
) -> None:
    """All principals of a tenant together get what one owner without a tenant would get, and each a part of that."""
    shares, groups = Shares(limit), Shares(limit)
    for owner, amount in steps:
        tenant = tenant_of(owner)
        if amount < 0 and shares.held_by(owner) >= -amount:
            shares.give_back(owner, -amount)
            groups.give_back(tenant or owner, -amount)
        elif amount > 0:
            has_room = shares.has_room(owner, amount)
            if not tenant or not shares.held_by(owner):
                assert has_room == groups.has_room(tenant or owner, amount)
            elif has_room:
                assert groups.has_room(tenant, amount)
            if has_room:
                shares.take(owner, amount)
                groups.take(tenant or owner, amount)
                if tenant and shares.held_by(owner) > amount:
                    assert groups.has_room(tenant), "the last place of a tenant is for a principal that holds none"
        assert len(shares) == len(groups) <= limit
        for name in OWNERS:
            assert shares.usage(name) == (groups.held_by(tenant_of(name) or name), shares.held_by(name))


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


async def test_a_free_slot_goes_to_the_tenant_with_the_fewest_slots() -> None:
    slots = SharedSlots(8)
    for number in range(7):
        assert slots.take_nowait(f"acme/user{number}#key")
    assert slots.take_nowait("beta/ada#key")
    assert not slots.take_nowait("acme/new#key")
    acme, beta = await start_waiting(slots, "acme/new#key", "beta/bob#key")
    for number in range(2):
        slots.give_back(f"acme/user{number}#key")
    await asyncio.sleep(0)
    assert (acme.done(), beta.done()) == (False, True)
    slots.give_back("acme/user2#key")
    await asyncio.sleep(0)
    assert acme.done()


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


def test_callers_with_tokens_of_an_issuer_are_no_tenant() -> None:
    shares = Shares(64)
    for number in range(64):
        owner = f"https://login.example#user{number}"
        assert shares.has_room(owner)
        shares.take(owner)
    assert shares.total == 64
