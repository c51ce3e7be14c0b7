"""Events are queued in order, limited in number, and wake waiting readers."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.room_agents import WAIT_S

from hubbub.packs.peers import limits
from hubbub.packs.peers.event_queue import EventFilter, EventQueue, event_size, iso_time


async def types(queue: EventQueue, count: int = 100, wanted: EventFilter | None = None) -> list[str]:
    return [event["type"] for event in await queue.read(count, 0, wanted or EventFilter())]


async def test_events_are_read_once_and_in_order() -> None:
    queue = EventQueue()
    for name in ("a", "b", "c"):
        queue.put(name, {"x": 1})
    assert await types(queue, 2) == ["a", "b"]
    assert await types(queue) == ["c"]
    assert await types(queue) == []
    assert queue.dropped == 0


async def test_the_oldest_events_are_dropped_over_the_count_or_size_limit() -> None:
    queue = EventQueue(limit=3, limit_bytes=1000)
    for name in "abcd":
        queue.put(name, {})
    assert (len(queue), queue.dropped) == (3, 1)
    queue.put("large", {}, 900)
    assert (await types(queue), queue.dropped) == (["large"], 4)
    queue.put("huge", {}, 5000)
    assert (await types(queue), queue.dropped) == (["huge"], 4)
    queue.put("small", {})
    assert await types(queue) == ["small"]


async def test_a_filtered_read_leaves_other_events_in_the_queue() -> None:
    queue = EventQueue()
    for name in ("file_a", "x", "file_b", "y"):
        queue.put(name, {})
    assert await types(queue, wanted=EventFilter(("file_*",))) == ["file_a", "file_b"]
    assert await types(queue, 1, EventFilter(("y",))) == ["y"]
    assert await types(queue) == ["x"]


async def test_one_read_is_limited_in_bytes() -> None:
    queue = EventQueue()
    for name in "abc":
        queue.put(name, {}, limits.PEER_EVENTS_ANSWER_BYTES // 2)
    assert await types(queue) == ["a", "b"]
    assert await types(queue) == ["c"]


async def test_each_event_wakes_one_reader() -> None:
    queue = EventQueue()
    readers = [asyncio.create_task(queue.read(1, 10)) for _ in range(2)]
    await asyncio.sleep(0)
    queue.put("a", {})
    queue.put("b", {})
    async with asyncio.timeout(WAIT_S):
        found = [(await reader)[0]["type"] for reader in readers]
    assert sorted(found) == ["a", "b"]


async def test_a_cancelled_reader_loses_no_event() -> None:
    queue = EventQueue()
    first, second = (asyncio.create_task(queue.read(10, 10)) for _ in range(2))
    await asyncio.sleep(0)
    queue.put("a", {})  # Wakes the first, which never gets to read.
    first.cancel()
    async with asyncio.timeout(WAIT_S):
        assert [event["type"] for event in await second] == ["a"]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing_the_queue_wakes_all_readers() -> None:
    queue = EventQueue()
    reader = asyncio.create_task(queue.read(1, 60))
    await asyncio.sleep(0)
    queue.close()
    async with asyncio.timeout(WAIT_S):
        assert await reader == []
        assert await queue.read(1, 60) == []


def put_data(queue: EventQueue, uuid: str, number: int, size: int = 200) -> None:
    queue.put("data_received", {"uuid": uuid, "data": number}, size)


async def read_data(queue: EventQueue, uuid: str) -> list[int]:
    return [event["data"] for event in await queue.read(10_000) if event.get("uuid") == uuid]


async def test_a_flooding_peer_displaces_only_its_own_messages() -> None:
    queue = EventQueue()
    queue.put("ready", {})
    for number in range(30):
        put_data(queue, "bob", number)
        for _ in range(1000):
            put_data(queue, "mallory", number)
    assert len(queue) == limits.PEER_EVENTS
    assert await types(queue, 1) == ["ready"]
    assert await read_data(queue, "bob") == list(range(30))


async def test_large_messages_of_one_peer_displace_only_its_own() -> None:
    queue = EventQueue(limit_bytes=100_000)
    for number in range(30):
        put_data(queue, "bob", number)
        for _ in range(10):
            put_data(queue, "mallory", number, 20_000)
    assert await read_data(queue, "bob") == list(range(30))


async def test_a_large_message_of_a_quiet_peer_is_kept() -> None:
    queue = EventQueue(limit_bytes=10_000)
    for number in range(100):
        put_data(queue, f"peer {number % 50}", number)
    put_data(queue, "bob", 1, 9000)
    assert await read_data(queue, "bob") == [1]


async def test_flooding_peers_get_equal_shares_of_the_queue() -> None:
    queue = EventQueue(limit=90)
    for number in range(1000):
        put_data(queue, "bob", number)
    for number in range(1000):
        for uuid in ("carol", "dave"):
            put_data(queue, uuid, number)
    counts = Counter(event["uuid"] for event in await queue.read(1000))
    assert counts == {"bob": 30, "carol": 30, "dave": 30}


async def test_file_progress_displaces_neither_messages_nor_session_events() -> None:
    queue = EventQueue(limit=50)
    queue.put("ready", {})
    queue.put("connection_failed", {"detail": {"uuid": "bob", "reason": "x"}})
    put_data(queue, "bob", 1)
    for number in range(500):
        queue.put("file_chunk_rejected", {"transfer_id": f"t{number}", "seq": 0, "reason": "x"})
    assert (await types(queue))[:4] == ["ready", "connection_failed", "data_received", "file_chunk_rejected"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "take", "some"]), st.integers(1, 400), st.sampled_from("abc")), max_size=60
    )
)
def test_every_event_is_read_queued_or_counted_as_dropped_within_the_limits(script: list[tuple[str, int, str]]) -> None:
    async def run_scenario() -> None:
        queue, put, taken = EventQueue(limit=10, limit_bytes=1500), 0, 0
        for action, number, uuid in script:
            if action == "put":
                queue.put("even" if number % 2 else "odd", {"uuid": uuid, "size": number}, number)
                put += 1
            else:
                taken += len(await queue.read(number % 5 + 1, 0, EventFilter(("odd",) if action == "some" else ())))
            assert len(queue) <= 10
            assert put == taken + len(queue) + queue.dropped
        left = len(queue)
        rest = await queue.read(100)
        assert len(rest) == left
        assert sum(event["size"] for event in rest) <= 1500
        before = queue.dropped  # an empty queue has room for as much as a new one
        for number in range(10):
            queue.put("odd", {"uuid": "abc"[number % 3]}, 150)
        assert (len(queue), queue.dropped) == (10, before)

    asyncio.run(run_scenario())


def test_event_times_are_iso_8601_with_milliseconds() -> None:
    assert iso_time(0.5) == "1970-01-01T00:00:00.500Z"
    assert event_size("x" * 100) > 100
