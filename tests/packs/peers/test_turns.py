"""Turns: so many begin at once, the others wait."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.callers import calling
from tests.packs.peers.rooms import WAIT_S, Notes, signalling
from tests.packs.peers.test_reception import Unanswered, breath

from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.signalling import Joined, Member
from hubbub.packs.peers.turns import Turns


async def test_the_rest_wait_in_order_and_the_patient_come_last() -> None:
    begun: list[str] = []
    two = Turns(limit=2)
    for name in "abc":
        two.take(name, partial(begun.append, name))
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
    async with asyncio.timeout(WAIT_S):
        await begun.wait()


async def test_who_waits_no_longer_is_passed_over() -> None:
    begun: list[str] = []
    one = Turns(limit=1)
    for name in "abc":
        one.take(name, partial(begun.append, name))
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


async def test_rooms_that_share_turns_wait_for_each_other() -> None:
    one, meshes, played = Turns(limit=1), [], [Unanswered(), Unanswered()]
    for each in played:
        options = RoomOptions(room="hall", stream_id="ann")
        meshes.append(Mesh(options, Notes(), engine=each, signalling=each, turns=one))
        await meshes[-1].connect()
        each.on_message(Joined(Member("u", WireNames(None).stream("bob"))))
    await breath()
    assert [len(each.wires) for each in played] == [1, 0]
    await meshes[0].disconnect()
    await breath()
    assert [len(each.wires) for each in played] == [1, 1]
    await meshes[1].disconnect()


def test_servers_on_two_event_loops_of_one_process_reach_each_other() -> None:
    both_met = threading.Barrier(2)

    async def stay(host: str, name: str, other: str) -> None:
        async with calling(host) as caller:
            await caller.connect(name)
            await caller.until_knows(other)
            await asyncio.to_thread(both_met.wait, WAIT_S)

    async def play() -> None:
        async with signalling() as host:
            elsewhere = asyncio.to_thread(lambda: asyncio.run(stay(host, "bob", "ann")))
            await asyncio.gather(stay(host, "ann", "bob"), elsewhere)

    asyncio.run(play())


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
                three.take(key, partial(active.add, key), is_patient=is_patient)
            assert len(active) == min(3, len(wanted))
            assert active <= wanted

    asyncio.run(play())
