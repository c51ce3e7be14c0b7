"""The connection throttle: a limited number of connections start at once, others wait."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.callers import connected_caller
from tests.packs.peers.room_agents import WAIT_S, RecordingListener, signalling
from tests.packs.peers.test_inbound import UnansweredNetwork, run_pending

from hubbub.packs.peers.connection_throttle import ConnectionThrottle
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.signalling import Member, MemberJoined


async def test_waiting_keys_start_in_order_and_low_priority_ones_last() -> None:
    started: list[str] = []
    two = ConnectionThrottle(limit=2)
    for name in "abc":
        two.acquire(name, partial(started.append, name))
    two.acquire("patient", lambda: started.append("patient"), is_low_priority=True)
    two.acquire("d", lambda: started.append("d"))
    assert started == ["a", "b"]
    two.release("a")
    assert started == ["a", "b", "c"]
    two.release("b")
    two.release("c")
    assert started == ["a", "b", "c", "d", "patient"]


async def test_a_key_that_holds_a_slot_can_start_again() -> None:
    started: list[str] = []
    one = ConnectionThrottle(limit=1)
    for _ in range(2):
        one.acquire("a", lambda: started.append("a"))
    assert started == ["a", "a"]


async def test_a_slot_that_is_never_released_expires() -> None:
    one = ConnectionThrottle(limit=1, max_hold_s=0.01)
    started = asyncio.Event()
    one.acquire("a", lambda: None)
    one.acquire("b", started.set)
    async with asyncio.timeout(WAIT_S):
        await started.wait()


async def test_a_key_released_while_waiting_is_skipped() -> None:
    started: list[str] = []
    one = ConnectionThrottle(limit=1)
    for name in "abc":
        one.acquire(name, partial(started.append, name))
    one.release("b")
    one.release("a")
    one.release("nobody")
    assert started == ["a", "c"]


async def test_thousands_of_immediate_releases_do_not_recurse() -> None:
    started: list[int] = []
    one = ConnectionThrottle(limit=1)
    one.acquire("first", lambda: None)

    def begin(number: int) -> None:
        started.append(number)
        one.release(number)

    for number in range(5000):
        one.acquire(number, partial(begin, number))
    one.release("first")
    assert started == list(range(5000))


async def test_rooms_with_a_shared_throttle_wait_for_each_other() -> None:
    one, meshes, networks = ConnectionThrottle(limit=1), [], [UnansweredNetwork(), UnansweredNetwork()]
    for network in networks:
        options = RoomOptions(room="hall", stream_id="ann")
        meshes.append(Mesh(options, RecordingListener(), engine=network, signalling=network, throttle=one))
        await meshes[-1].connect()
        network.on_message(MemberJoined(Member("u", WireNames(None).wire_stream_id("bob"))))
    await run_pending()
    assert [len(network.connections) for network in networks] == [1, 0]
    await meshes[0].disconnect()
    await run_pending()
    assert [len(network.connections) for network in networks] == [1, 1]
    await meshes[1].disconnect()


def test_servers_on_two_event_loops_of_one_process_reach_each_other() -> None:
    both_met = threading.Barrier(2)

    async def stay(host: str, name: str, other: str) -> None:
        async with connected_caller(host) as caller:
            await caller.connect(name)
            await caller.wait_for_peers(other)
            await asyncio.to_thread(both_met.wait, WAIT_S)

    async def run_scenario() -> None:
        async with signalling() as host:
            elsewhere = asyncio.to_thread(lambda: asyncio.run(stay(host, "bob", "ann")))
            await asyncio.gather(stay(host, "ann", "bob"), elsewhere)

    asyncio.run(run_scenario())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.booleans()), max_size=60))
def test_active_keys_never_exceed_the_limit_and_none_is_forgotten(script: list[tuple[bool, int, bool]]) -> None:
    async def run_scenario() -> None:
        active: set[int] = set()
        wanted: set[int] = set()
        three = ConnectionThrottle(limit=3)
        for is_done, key, is_patient in script:
            if is_done:
                active.discard(key)
                wanted.discard(key)
                three.release(key)
            else:
                wanted.add(key)
                three.acquire(key, partial(active.add, key), is_low_priority=is_patient)
            assert len(active) == min(3, len(wanted))
            assert active <= wanted

    asyncio.run(run_scenario())
