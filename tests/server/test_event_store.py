"""Events stored for callers that reconnect, within limits on their total number and size."""

import asyncio
import gc
import weakref

from hubbub import bounds
from hubbub.server.http.streams import EventStore, Stream


class Reader:
    """A caller that resumes a stream."""

    def __init__(self) -> None:
        self.events: list[bytes] = []

    async def write(self, event: bytes) -> None:
        self.events.append(event)


def count_stored(stream: Stream) -> int:
    """Return how many events a caller gets that resumes a stream from its start."""
    reader = Reader()
    stream.finish()
    asyncio.run(stream.pump(reader, after=0))  # type: ignore[arg-type]  # it only writes
    return len(reader.events)


def test_a_stream_at_its_own_limit_evicts_only_its_own_events() -> None:
    store = EventStore(max_events=2 * bounds.STORED_EVENTS_PER_STREAM)
    quiet, busy = Stream(1, store), Stream(2, store)
    quiet.append(b"{}")
    for _ in range(10 * bounds.STORED_EVENTS_PER_STREAM):
        busy.append(b"{}")
    assert (count_stored(quiet), count_stored(busy)) == (1, bounds.STORED_EVENTS_PER_STREAM)


def test_a_discarded_stream_frees_its_events() -> None:
    store = EventStore(max_events=10)
    gone, here = Stream(1, store), Stream(2, store)
    for _ in range(10):
        gone.append(b"{}")
    gone.discard()
    for _ in range(10):
        here.append(b"{}")
    assert (count_stored(gone), count_stored(here)) == (0, 10)


def test_the_oldest_event_of_all_streams_is_evicted_first() -> None:
    store = EventStore(max_events=3)
    first, second = Stream(1, store), Stream(2, store)
    first.append(b"{}")
    second.append(b"{}")
    first.append(b"{}")
    second.append(b"{}")
    assert (count_stored(first), count_stored(second)) == (1, 2)


def test_events_of_one_owner_evict_only_its_own() -> None:
    store = EventStore(max_events=16, max_bytes=16 * 100)
    quiet, busy, large = Stream(1, store, "ada"), Stream(1, store, "bob"), Stream(2, store, "bob")
    quiet.append(b"{}")
    for _ in range(100):
        busy.append(b"{}")
        large.append(b"x" * 300)
    assert count_stored(quiet) == 1
    assert count_stored(busy) + count_stored(large) < 15
    quiet.append(b"{}")
    assert count_stored(quiet) == 2


def test_the_newest_event_is_stored_even_if_it_exceeds_the_limit() -> None:
    store, unused = (EventStore(max_events=16, max_bytes=100) for _ in range(2))
    for owner in ("", "ada"):
        stream = Stream(1, store, owner)
        stream.append(b"{}")
        stream.append(b"x" * 1000)
        assert count_stored(stream) == 1
        stream.discard()
    assert count_capacity(store) == count_capacity(unused)


def count_capacity(store: EventStore) -> int:
    """Return how many small events can be stored for an owner that has none."""
    stream = Stream(1, store, "bob")
    for _ in range(100):
        stream.append(b"")
    return count_stored(stream)


class Owner(str):
    """Can be weakly referenced, unlike a plain string."""


def test_an_owner_without_events_is_removed_from_the_table() -> None:
    store, owner = EventStore(), Owner("ada")
    stream, is_held = Stream(1, store, owner), weakref.ref(owner)
    stream.append(b"{}")
    stream.discard()
    del stream, owner
    gc.collect()
    assert is_held() is None
