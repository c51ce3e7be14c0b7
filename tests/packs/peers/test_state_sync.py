"""Peers whose messages are lost, delayed, repeated or cut off converge once they can reach each other again.

The network is a fake, so that hundreds of rooms are cheap; state and messages are real.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.packs.peers import limits
from hubbub.packs.peers.js_json import parse, stringify
from hubbub.packs.peers.room import PeerView, RoomOptions, SendResult
from hubbub.packs.peers.state_sync import StateSync, split_pages
from hubbub.packs.peers.wire import Capabilities, Envelope

SESSIONS = 4
NAMES = ("ann", "bob", "bob", "zoe")
"""Two have the same name, as after a restart without saved state."""


def view(number: int, *, is_hubbub: bool = True) -> PeerView:
    return PeerView(
        uuid=f"u{number}", stream_id=NAMES[number], is_connected=True, handshake="ready", is_authenticated=True,
        rejected_reason=None, has_key=True, is_admitted=True, has_bulk=False,
        capabilities=Capabilities(hubbub_v1=is_hubbub), last_seen=0.0, last_heartbeat=0.0, max_message_size=262144,
    )  # fmt: skip


class FakeRoom:
    """The room of one session: its messages wait in the network until they are delivered."""

    def __init__(self, network: Network, number: int) -> None:
        self.options = RoomOptions(room="hall", stream_id=NAMES[number])
        self._network = network
        self._number = number

    @property
    def peers(self) -> list[PeerView]:
        return [view(other) for other in range(SESSIONS) if self._network.can_reach(self._number, other)]

    def find(self, target: str) -> PeerView | None:
        return next((peer for peer in self.peers if peer.uuid == target), None)

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> SendResult:
        recipients = [peer.uuid for peer in self.peers if to in (None, peer.uuid)]
        for uuid in recipients:
            self._network.waiting.append((self._number, int(uuid[1:]), kind, stringify(payload)))
        return SendResult(tuple(recipients))

    async def drain(self, uuid: str, low: int = 0) -> None: ...

    def queued_bytes(self, uuid: str) -> int:
        return 0


class FakeSession:
    """A session with shared state only."""

    def __init__(self, network: Network, number: int, page_entries: int) -> None:
        self.room: Any = FakeRoom(network, number)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.sync = StateSync(self, NAMES[number], 100, page_entries)

    def emit(self, type: str, /, **fields: Any) -> None:
        self.events.append((type, fields))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Network:
    """Which sessions can reach each other, and undelivered messages."""

    def __init__(self, page_entries: int) -> None:
        self.cut: set[frozenset[int]] = set()
        self.waiting: list[tuple[int, int, str, str]] = []
        self.sessions = [FakeSession(self, number, page_entries) for number in range(SESSIONS)]

    def can_reach(self, left: int, right: int) -> bool:
        return left != right and frozenset((left, right)) not in self.cut

    def connect(self, left: int, right: int) -> None:
        if left != right and frozenset((left, right)) in self.cut:
            self.cut.remove(frozenset((left, right)))
            self.sessions[left].sync.on_peer_ready(view(right))
            self.sessions[right].sync.on_peer_ready(view(left))

    def disconnect(self, left: int, right: int) -> None:
        if self.can_reach(left, right):
            self.cut.add(frozenset((left, right)))
            self.waiting = [each for each in self.waiting if {each[0], each[1]} != {left, right}]
            self.sessions[left].sync.on_peer_gone(view(right))
            self.sessions[right].sync.on_peer_gone(view(left))

    async def deliver(self, number: int, *, keep: bool = False) -> None:
        if not self.waiting:
            return
        sender, receiver, kind, text = self.waiting[number % len(self.waiting)]
        if not keep:
            del self.waiting[number % len(self.waiting)]
        envelope = Envelope(
            kind=kind, ts=1, nonce="p_1", room="hall", from_stream_id=NAMES[sender], payload=parse(text)
        )
        self.sessions[receiver].sync.on_envelope(view(sender), envelope)
        await self.settle()

    async def send_heartbeat(self, number: int) -> None:
        """Deliver a heartbeat of one session to all that it can reach."""
        for other in range(SESSIONS):
            if self.can_reach(number, other):
                self.sessions[other].sync.on_heartbeat(view(number), self.sessions[number].sync.shared.digest)

    async def settle(self) -> None:
        while any(session.tasks for session in self.sessions):
            await asyncio.sleep(0)

    async def deliver_all(self) -> None:
        """Deliver all waiting messages."""
        while self.waiting:
            await self.deliver(0)

    @property
    def digests(self) -> set[str]:
        return {session.sync.shared.digest for session in self.sessions}


numbers = st.integers(0, SESSIONS - 1)
keys = st.sampled_from(["a", "b", "c", "d"])
values = st.none() | st.integers(-3, 3) | st.text(max_size=2) | st.lists(st.booleans(), max_size=2)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), numbers, keys, values),
        st.tuples(st.just("set_silently"), numbers, keys, values),
        st.tuples(st.just("deliver"), st.integers(0, 100)),
        st.tuples(st.just("repeat"), st.integers(0, 100)),
        st.tuples(st.just("lose"), st.integers(0, 100)),
        st.tuples(st.just("disconnect"), numbers, numbers),
        st.tuples(st.just("connect"), numbers, numbers),
        st.tuples(st.just("heartbeat"), numbers),
    ),
    max_size=40,
)


async def run_script(network: Network, script: list[Any]) -> None:
    for step in script:
        match step:
            case ("set", session, key, value):
                sync = network.sessions[session].sync
                sync.send(sync.set(key, value), None)
            case ("set_silently", session, key, value):
                network.sessions[session].sync.set(key, value)
            case ("deliver", number):
                await network.deliver(number)
            case ("repeat", number):
                await network.deliver(number, keep=True)
            case ("lose", number) if network.waiting:
                del network.waiting[number % len(network.waiting)]
            case ("disconnect", left, right):
                network.disconnect(left, right)
            case ("connect", left, right):
                network.connect(left, right)
            case ("heartbeat", session):
                await network.send_heartbeat(session)


LINES = st.permutations(range(SESSIONS))


@given(script=steps, line=LINES, page_entries=st.sampled_from([1, 2, 100]))
@settings(max_examples=150)
def test_sessions_converge_over_a_line_of_neighbours(script: list[Any], line: list[int], page_entries: int) -> None:
    async def run_scenario() -> None:
        network = Network(page_entries)
        await run_script(network, script)
        # From now on only neighbours in the line can reach each other.
        near = {frozenset(pair) for pair in itertools.pairwise(line)}
        for left in range(SESSIONS):
            for right in range(left + 1, SESSIONS):
                (network.connect if frozenset((left, right)) in near else network.disconnect)(left, right)
        for _ in range(SESSIONS + 1):
            await network.deliver_all()
            for number in range(SESSIONS):
                await network.send_heartbeat(number)
        await network.deliver_all()
        assert len(network.digests) == 1
        entries = [session.sync.shared.entries for session in network.sessions]
        assert all(each == entries[0] for each in entries)
        await network.send_heartbeat(line[0])
        assert network.waiting == []  # Sessions with equal states send nothing more.

    with no_snapshot_pauses():
        asyncio.run(run_scenario())


class no_snapshot_pauses:
    """Disable the pauses between snapshots, which would only slow the tests down."""

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(limits, "STATE_SNAPSHOT_S", 0.0)
        self._patch.setattr(limits, "STATE_SNAPSHOT_PAUSE_MAX_S", 0.0)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def test_a_snapshot_in_pages_transfers_all_entries() -> None:
    async def run_scenario() -> None:
        network = Network(7)
        network.disconnect(0, 1)
        for number in range(50):
            network.sessions[0].sync.set(f"k{number}", "x" * number)
        network.connect(0, 1)
        await network.deliver_all()
        assert network.sessions[1].sync.shared.entries == network.sessions[0].sync.shared.entries
        merged = [fields for type, fields in network.sessions[1].events if type == "state_snapshot_merged"]
        assert [fields["offered"] for fields in merged] == [7] * 7 + [1]

    with no_snapshot_pauses():
        asyncio.run(run_scenario())


def test_pages_fit_into_frames_whatever_the_entries_are() -> None:
    async def run_scenario() -> None:
        network = Network(4096)
        sync = network.sessions[0].sync
        for number in range(40):
            sync.set(f"k{number}", "\N{SNOWMAN}" * (number * 700))
        sync.set("large", "x" * (limits.STATE_ENTRY_BYTES - 10))
        for page in split_pages(sync.shared.entries, 4096):
            payload = {"entries": [[entry.key, entry.value, entry.actor, entry.updated_at] for entry in page]}
            assert len(stringify(payload).encode()) < limits.PEER_FRAME_BYTES - 2048
        assert list(split_pages([], 5)) == [[]]

    asyncio.run(run_scenario())


def test_repeated_snapshot_requests_are_answered_one_at_a_time() -> None:
    async def run_scenario() -> None:
        network = Network(100)
        network.sessions[0].sync.set("k", 1)
        request = Envelope(kind="state.snapshot_req", ts=1, nonce="p", room="hall", from_stream_id="zoe", payload={})
        for _ in range(1000):
            network.sessions[0].sync.on_envelope(view(3), request)
        assert len(network.sessions[0].tasks) == 1
        for _ in range(10):
            await asyncio.sleep(0)
        assert len([each for each in network.waiting if each[2] == "state.snapshot"]) == 1
        for task in list(network.sessions[0].tasks):
            task.cancel()

    asyncio.run(run_scenario())


def test_snapshot_requests_back_off_if_digests_stay_different() -> None:
    async def run_scenario() -> None:
        network = Network(100)
        clock = 0.0
        patch.setattr("hubbub.packs.peers.state_sync.time.monotonic", lambda: clock)
        for number in range(600):
            clock = float(number)
            network.sessions[0].sync.on_heartbeat(view(1), "another digest")
        asked = [each for each in network.waiting if each[2] == "state.snapshot_req"]
        assert 8 <= len(asked) <= 14  # At 1, 2, 4 … seconds, then every two minutes.

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(run_scenario())


@pytest.mark.parametrize("kind", ["state.patch", "state.snapshot"])
def test_a_peer_that_fills_the_shared_state_leaves_room_for_others(kind: str) -> None:
    def send(sync: StateSync, number: int, entries: list[dict[str, Any]]) -> None:
        payloads = entries if kind == "state.patch" else [{"room": "hall", "entries": entries, "actor_clock": {}}]
        for payload in payloads:
            envelope = Envelope(
                kind=kind, ts=0, nonce="", room="hall", from_stream_id=NAMES[number], payload=payload
            )  # fmt: skip
            sync.on_envelope(view(number), envelope)

    async def run_scenario() -> None:
        sync = Network(100).sessions[0].sync
        send(sync, 3, [{"key": f"k{n}", "value": n, "actor": f"a{n}", "clock": 1} for n in range(500)])
        assert len(sync.shared) == 100
        send(sync, 1, [{"key": "b", "value": 1, "actor": "bob", "clock": 1}])
        assert sync.shared.get("b") is not None

    asyncio.run(run_scenario())


def test_a_heartbeat_without_a_different_digest_requests_no_snapshot() -> None:
    async def run_scenario() -> None:
        network = Network(100)
        network.sessions[0].sync.on_heartbeat(view(1), None)
        network.sessions[0].sync.on_heartbeat(view(1), network.sessions[0].sync.shared.digest)
        assert network.waiting == []

    asyncio.run(run_scenario())


def test_a_vdo_bridge_is_asked_for_a_snapshot_after_each_hello_and_a_hubbub_peer_once() -> None:
    async def run_scenario() -> None:
        network = Network(100)
        for _ in range(3):
            network.sessions[0].sync.on_peer_ready(view(1, is_hubbub=False))
            network.sessions[0].sync.on_peer_ready(view(2))
        assert [each[1] for each in network.waiting].count(1) == 3
        assert [each[1] for each in network.waiting].count(2) == 1

    with no_snapshot_pauses():
        asyncio.run(run_scenario())


@given(
    kind=st.sampled_from(["state.patch", "state.snapshot", "state.snapshot_req", "state.other"]),
    payload=st.dictionaries(
        st.sampled_from(["key", "value", "clock", "actor", "entries", "actor_clock", "room"]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.none(), max_size=2)
        | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    ),
)  # fmt: skip
def test_arbitrary_state_envelopes_break_nothing(kind: str, payload: dict[str, Any]) -> None:
    async def run_scenario() -> None:
        network = Network(100)
        network.sessions[0].sync.set("k", 1)
        envelope = Envelope(kind=kind, ts=1, nonce="p", room="hall", from_stream_id="bob", payload=payload)
        network.sessions[0].sync.on_envelope(view(1), envelope)
        await network.settle()
        assert network.sessions[0].sync.set("k", 2).clock < limits.STATE_CLOCK_MAX

    asyncio.run(run_scenario())
