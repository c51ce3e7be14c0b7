"""Events kept for callers that come back: bounded together, and only what is really kept counts."""

from hubbub import bounds
from hubbub.server.http.streams import EventStore, Stream


def kept(stream: Stream) -> int:
    return len(stream._events)


def test_events_that_a_stream_gave_up_itself_push_out_no_others():
    store = EventStore(most_events=2 * bounds.STORED_EVENTS)
    quiet, busy = Stream(1, store), Stream(2, store)
    quiet.append(b"{}")
    for _ in range(10 * bounds.STORED_EVENTS):
        busy.append(b"{}")
    assert (kept(quiet), kept(busy)) == (1, bounds.STORED_EVENTS)


def test_a_stream_that_nobody_can_resume_makes_room_for_others():
    store = EventStore(most_events=10)
    gone, here = Stream(1, store), Stream(2, store)
    for _ in range(10):
        gone.append(b"{}")
    gone.discard()
    for _ in range(10):
        here.append(b"{}")
    assert (kept(gone), kept(here)) == (0, 10)


def test_the_oldest_event_of_all_goes_first():
    store = EventStore(most_events=3)
    first, second = Stream(1, store), Stream(2, store)
    first.append(b"{}")
    second.append(b"{}")
    first.append(b"{}")
    second.append(b"{}")
    assert (kept(first), kept(second)) == (1, 2)
