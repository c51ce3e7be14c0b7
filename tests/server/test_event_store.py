"""Events kept for callers that come back: bounded together, and only what is really kept counts."""

import asyncio
import gc
import weakref

from hubbub import bounds
from hubbub.server.http.streams import EventStore, Stream


class Reader:
    """A caller that comes back for a stream."""

    def __init__(self) -> None:
        self.events: list[bytes] = []

    async def write(self, event: bytes) -> None:
        self.events.append(event)


def kept(stream: Stream) -> int:
    """How many events a caller gets who comes back and has seen none."""
    reader = Reader()
    stream.finish()
    asyncio.run(stream.pump(reader, after=0))  # type: ignore[arg-type]  # it only writes
    return len(reader.events)


def test_events_that_a_stream_gave_up_itself_push_out_no_others() -> None:
    store = EventStore(most_events=2 * bounds.STORED_EVENTS)
    quiet, busy = Stream(1, store), Stream(2, store)
    quiet.append(b"{}")
    for _ in range(10 * bounds.STORED_EVENTS):
        busy.append(b"{}")
    assert (kept(quiet), kept(busy)) == (1, bounds.STORED_EVENTS)


def test_a_stream_that_nobody_can_resume_makes_room_for_others() -> None:
    store = EventStore(most_events=10)
    gone, here = Stream(1, store), Stream(2, store)
    for _ in range(10):
        gone.append(b"{}")
    gone.discard()
    for _ in range(10):
        here.append(b"{}")
    assert (kept(gone), kept(here)) == (0, 10)


def test_the_oldest_event_of_all_goes_first() -> None:
    store = EventStore(most_events=3)
    first, second = Stream(1, store), Stream(2, store)
    first.append(b"{}")
    second.append(b"{}")
    first.append(b"{}")
    second.append(b"{}")
    assert (kept(first), kept(second)) == (1, 2)


def test_events_of_one_owner_push_out_only_its_own() -> None:
    store = EventStore(most_events=16, most_bytes=16 * 100)
    quiet, busy, large = Stream(1, store, "ada"), Stream(1, store, "bob"), Stream(2, store, "bob")
    quiet.append(b"{}")
    for _ in range(100):
        busy.append(b"{}")
        large.append(b"x" * 300)
    assert kept(quiet) == 1
    assert kept(busy) + kept(large) < 15
    quiet.append(b"{}")
    assert kept(quiet) == 2


def test_the_newest_event_is_kept_however_large_it_is() -> None:
    store, unused = (EventStore(most_events=16, most_bytes=100) for _ in range(2))
    for owner in ("", "ada"):
        stream = Stream(1, store, owner)
        stream.append(b"{}")
        stream.append(b"x" * 1000)
        assert kept(stream) == 1
        stream.discard()
    assert room_for_another(store) == room_for_another(unused)


def room_for_another(store: EventStore) -> int:
    """How many small events an owner can keep who has none."""
    stream = Stream(1, store, "bob")
    for _ in range(100):
        stream.append(b"")
    return kept(stream)


class Owner(str):
    """Can be weakly referenced, unlike a plain string."""


def test_an_owner_whose_events_are_gone_is_forgotten() -> None:
    store, owner = EventStore(), Owner("ada")
    stream, is_held = Stream(1, store, owner), weakref.ref(owner)
    stream.append(b"{}")
    stream.discard()
    del stream, owner
    gc.collect()
    assert is_held() is None
