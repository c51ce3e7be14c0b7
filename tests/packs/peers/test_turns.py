"""Turns: so many begin at once, the others wait."""

from __future__ import annotations

import asyncio
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.peers.turns import Turns, turns


async def test_the_rest_wait_in_order_and_the_patient_come_last() -> None:
    begun: list[str] = []
    two = Turns(limit=2)
    for name in "abc":
        two.take(name, lambda name=name: begun.append(name))
    two.take("patient", lambda: begun.append("patient"), is_patient=True)
    two.take("d", lambda: begun.append("d"))
    assert begun == ["a", "b"]
    two.done("a")
    assert begun == ["a", "b", "c"]
    two.done("b")
    two.done("c")
    assert begun == ["a", "b", "c", "d", "patient"]


async def test_who_has_a_turn_may_begin_again() -> None:
    begun: list[str] = []
    one = Turns(limit=1)
    for _ in range(2):
        one.take("a", lambda: begun.append("a"))
    assert begun == ["a", "a"]


async def test_a_turn_that_is_never_given_back_ends_by_itself() -> None:
    one = Turns(limit=1, longest_s=0.01)
    begun = asyncio.Event()
    one.take("a", lambda: None)
    one.take("b", begun.set)
    async with asyncio.timeout(5):
        await begun.wait()


async def test_who_waits_no_longer_is_passed_over() -> None:
    begun: list[str] = []
    one = Turns(limit=1)
    for name in "abc":
        one.take(name, lambda name=name: begun.append(name))
    one.done("b")
    one.done("a")
    one.done("nobody")
    assert begun == ["a", "c"]


async def test_thousands_may_give_their_turn_back_at_once() -> None:
    begun: list[int] = []
    one = Turns(limit=1)
    one.take("first", lambda: None)

    def begin(number: int) -> None:
        begun.append(number)
        one.done(number)

    for number in range(5000):
        one.take(number, partial(begin, number))
    one.done("first")
    assert begun == list(range(5000))


async def test_all_rooms_of_a_process_share_their_turns() -> None:
    assert turns() is turns()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.booleans()), max_size=60))
def test_never_more_than_the_limit_and_nobody_is_forgotten(script: list[tuple[bool, int, bool]]) -> None:
    async def play() -> None:
        active: set[int] = set()
        wanted: set[int] = set()
        three = Turns(limit=3)
        for is_done, key, is_patient in script:
            if is_done:
                active.discard(key)
                wanted.discard(key)
                three.done(key)
            else:
                wanted.add(key)
                three.take(key, lambda key=key: active.add(key), is_patient=is_patient)
            assert len(active) == min(3, len(wanted))
            assert active <= wanted

    asyncio.run(play())
