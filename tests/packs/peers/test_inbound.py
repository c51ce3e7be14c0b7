"""Arbitrary messages from channels and the signalling server: nothing fails, and unadmitted peers stay refused.

The engine and the signalling server are fakes without a network, so that thousands of messages are cheap.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.payload_strategies import KINDS, json_values, payloads
from tests.packs.peers.room_agents import RecordingListener

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import Candidate, Channel, Connection
from hubbub.packs.peers.engine_channel import EngineChannel
from hubbub.packs.peers.errors import NegotiationFailed, WireError
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.signalling import IncomingMessage, Listing, OutgoingMessage, PlayRequest, read_message
from hubbub.packs.peers.trust import Trust
from hubbub.packs.peers.wire import ENVELOPE_MARK

GATES: list[dict[str, Any]] = [
    {"enforce_join_token": True, "join_token_secrets": ("sek",)},
    {"allow_peer_stream_ids": ("bob",)},
    {"require_session_mac": True, "allow_peer_stream_ids": ("bob",)},
]


class FakeChannel(EngineChannel):
    """A channel that records messages; it closes after `bye`."""

    def __init__(self, label: str) -> None:
        super().__init__(label, lambda: 262_144)
        self.sent: list[bytes | str] = []

    def _send_native(self, data: bytes | str) -> None:
        self.sent.append(data)
        if data == '{"bye":true}':
            asyncio.get_running_loop().call_soon(self.handle_close)

    def _buffered_bytes(self) -> int:
        return 0

    def _set_low_threshold(self, low: int) -> None: ...

    def _close_native(self) -> None: ...


class FakeConnection:
    """A connection whose channel opens immediately."""

    name = "fake"

    def __init__(self) -> None:
        self.on_candidate: Callable[[Candidate], None] = lambda _: None
        self.on_channel: Callable[[Channel], None] = lambda _: None
        self.on_state: Callable[[Any], None] = lambda _: None
        self.state: Any = "new"
        self.channels: list[FakeChannel] = []

    def create_channel(self, label: str) -> Channel:
        self.channels.append(FakeChannel(label))
        return self.channels[-1]

    async def offer(self, *, restart: bool = False) -> str:
        for channel in self.channels:
            channel.handle_open()
        return "v=0"

    async def answer(self, offer_sdp: str) -> str:
        raise NegotiationFailed("no")

    async def accept(self, answer_sdp: str) -> None:
        raise NegotiationFailed("no")

    async def add_candidate(self, candidate: Candidate) -> None: ...

    async def close(self) -> None:
        for channel in self.channels:
            channel.handle_close()


class FakeNetwork:
    """A fake engine and a fake signalling client."""

    name = "fake"
    is_joined = True

    def __init__(self) -> None:
        self.on_message: Callable[[IncomingMessage], None] = lambda _: None
        self.on_lost: Callable[[str, float], None] = lambda *_: None
        self.on_rejoined: Callable[[], None] = lambda: None
        self.connections: list[FakeConnection] = []
        self.sent_messages: list[OutgoingMessage] = []

    def connection(self, ice_servers: Any = (), *, relay_only: bool = False) -> Connection:
        self.connections.append(FakeConnection())
        return self.connections[-1]

    async def join(self) -> Listing:
        return Listing(())

    def send(self, message: OutgoingMessage) -> None:
        self.sent_messages.append(message)

    async def close(self) -> None: ...


async def run_pending() -> None:
    """Let started tasks run."""
    for _ in range(10):
        await asyncio.sleep(0)


def run_with_peer(
    scenario: Callable[[Mesh, FakeNetwork, FakeChannel, RecordingListener], Coroutine[Any, Any, None]], **options: Any
) -> None:
    """Run a scenario in which a peer at the address `u` has an open channel to us."""

    async def run_scenario() -> None:
        network, notes = FakeNetwork(), RecordingListener()
        mesh = Mesh(RoomOptions(room="hall", stream_id="ann", **options), notes, engine=network, signalling=network)
        await mesh.connect()
        try:
            network.on_message(PlayRequest("u"))
            await run_pending()
            (pipe,) = network.connections[0].channels
            assert pipe.sent
            await scenario(mesh, network, pipe, notes)
        finally:
            await mesh.disconnect()

    asyncio.run(run_scenario())


hellos = st.fixed_dictionaries(
    {},
    optional={
        "capabilities": st.dictionaries(st.sampled_from(["hubbub_v1", "bulk_v1", "sync_v1"]), st.booleans())
        | json_values,
        "public_key": st.just("KEY") | json_values,
        "join_token": json_values,
    },
)
envelopes = st.fixed_dictionaries(
    {
        "__vdo_mcp": st.just(ENVELOPE_MARK),
        "kind": st.sampled_from(KINDS) | st.just("sync.hello"),
        "ts": st.just(1),
        "nonce": st.sampled_from(["p_00000000", "h_0000000000000001"]),
        "room": st.just("hall") | st.text(max_size=3),
        "from_stream_id": st.sampled_from(["mallory", "ann", ""]),
        "payload": payloads | hellos,
    },
    optional={"mac": st.sampled_from(["", "0" * 64]) | json_values},
)
controls = st.dictionaries(
    st.sampled_from(["ping", "pong", "description", "candidates", "candidate", "vector", "iceRestartRequest", "info"]),
    json_values,
    min_size=1,
    max_size=2,
)
frames = envelopes.map(lambda it: {"pipe": it}) | json_values.map(lambda it: {"pipe": it}) | controls
strange = st.text(max_size=20) | st.binary(max_size=20)


@pytest.mark.parametrize("gate", GATES, ids=["token", "list", "mac"])
@given(script=st.lists(frames | strange, min_size=1, max_size=12))
def test_no_message_of_an_unadmitted_peer_reaches_the_listener(gate: dict[str, Any], script: list[Any]) -> None:
    public_key = Trust(RoomOptions(room="hall", stream_id="mallory")).hello()["public_key"]

    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        for frame in script:
            text = frame if isinstance(frame, str | bytes) else json.dumps(frame).replace('"KEY"', f'"{public_key}"')
            pipe.handle_message(text)
        await run_pending()
        assert (notes.data, notes.envelopes, notes.bytes, notes.ready) == ([], [], [], [])
        assert not mesh.send("secret").ok
        assert not any("secret" in str(text) for text in pipe.sent)
        assert not notes.of("sdk_error")

    run_with_peer(scenario, **gate)


def test_peers_over_the_limit_cause_one_event_per_interval() -> None:
    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        for number in range(100):
            network.on_message(PlayRequest(f"u{number}"))
        await run_pending()
        assert [event["detail"]["reason"] for event in notes.of("connection_failed")] == [
            "the limit of 1 peers is reached; raise max_peers to allow more"
        ]

    run_with_peer(scenario, max_peers=1)


def test_a_channel_with_too_many_unhandled_empty_messages_is_closed() -> None:
    pipe = FakeChannel("hubbub-bulk")
    pipe.handle_open()
    for _ in range(limits.PEER_QUEUE_BYTES // 32):
        pipe.handle_message(b"")
    assert not pipe.is_open


def test_events_about_refused_messages_of_one_peer_are_limited() -> None:
    mallory = Trust(RoomOptions(room="hall", stream_id="mallory"))
    hello = mallory.frame(None, "sync.hello", mallory.hello())
    frames = ['{"pipe":"x"}', hello, mallory.frame(None, "sync.what", {})]

    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        before = len(notes.events)
        for _ in range(500):
            for frame in frames:
                pipe.handle_message(frame)
        types = {event["type"] for event in notes.events[before:]}
        assert types == {"protocol_auth_failed", "sync_peer_rejected", "protocol_unknown"}
        assert len(notes.events) - before == limits.PEER_REFUSALS

    run_with_peer(scenario, allow_peer_stream_ids=("bob",))


@given(script=st.lists(frames | strange, min_size=1, max_size=12))
def test_arbitrary_frames_break_nothing_in_an_open_room(script: list[Any]) -> None:
    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        for frame in script:
            pipe.handle_message(frame if isinstance(frame, str | bytes) else json.dumps(frame))
        await run_pending()
        assert not notes.of("sdk_error")
        assert all(view.stream_id in (None, "mallory") for view in mesh.peers)
        mesh.send("on we go")

    run_with_peer(scenario)


messages = st.fixed_dictionaries(
    {"UUID": st.sampled_from(["u", "v"]) | json_values},
    optional={
        "request": st.sampled_from(
            ["play", "offerSDP", "listing", "someonejoined", "videoaddedtoroom", "bye", "alert"]
        ),
        "streamID": st.sampled_from(["mallory808d64", "bob808d64", "ann808d64", "x"]) | json_values,
        "session": st.just("SESSION") | st.text(max_size=4),
        "description": json_values,
        "vector": st.just("00" * 16) | json_values,
        "candidates": json_values,
        "type": st.sampled_from(["local", "remote"]),
        "list": json_values,
        "iceRestartRequest": st.booleans(),
    },
)


@given(script=st.lists(messages, min_size=1, max_size=15))
def test_arbitrary_signalling_messages_break_nothing(script: list[Any]) -> None:
    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        session = network.sent_messages[0]["session"]
        for message in script:
            if message.get("session") == "SESSION":
                message["session"] = session
            try:
                incoming = read_message(message)
            except WireError:
                continue
            if incoming is not None:
                network.on_message(incoming)
        await run_pending()
        assert not [event for event in notes.of("sdk_error") if "Error" in str(event)]
        assert len(mesh.peers) <= 1 + len(script)

    run_with_peer(scenario)


def test_play_requests_over_the_peer_limit_open_no_connections() -> None:
    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        for number in range(500):
            network.on_message(PlayRequest(f"caller{number}"))
        await run_pending()
        assert len(mesh.peers) == mesh.options.max_peers
        assert len(network.connections) == mesh.options.max_peers

    run_with_peer(scenario, max_peers=7)


class UnopenedConnection(FakeConnection):
    """A connection whose channel does not open."""

    async def offer(self, *, restart: bool = False) -> str:
        return "v=0"


class UnansweredNetwork(FakeNetwork):
    def connection(self, ice_servers: Any = (), *, relay_only: bool = False) -> Connection:
        self.connections.append(UnopenedConnection())
        return self.connections[-1]


def test_bye_is_the_reason_even_if_the_channel_closes_right_after_it() -> None:
    """A busy process handles both in one turn of its loop."""

    async def scenario(mesh: Mesh, network: FakeNetwork, pipe: FakeChannel, notes: RecordingListener) -> None:
        pipe.handle_message('{"bye":true}')
        pipe.handle_close()
        assert [event["detail"]["reason"] for event in notes.of("peer_disconnected")] == ["bye"]

    run_with_peer(scenario)


async def test_disconnect_sends_bye_on_a_channel_that_is_just_opening() -> None:
    """At the other peer it may be open already."""
    network = UnansweredNetwork()
    mesh = Mesh(RoomOptions(room="hall", stream_id="ann"), RecordingListener(), engine=network, signalling=network)
    await mesh.connect()
    network.on_message(PlayRequest("u"))
    await run_pending()
    (wire,) = network.connections
    wire.state = "connected"
    leaving = asyncio.create_task(mesh.disconnect())
    await run_pending()
    wire.channels[0].handle_open()
    await leaving
    assert wire.channels[0].sent[-1] == '{"bye":true}'


async def test_a_connection_that_never_opened_leaves_no_exception_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's exception handler is what writes "Future exception was never retrieved" to stderr."""
    monkeypatch.setattr(limits, "PEER_CONNECT_S", 0.01)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    network, notes = UnansweredNetwork(), RecordingListener()
    mesh = Mesh(RoomOptions(room="hall", stream_id="ann"), notes, engine=network, signalling=network)
    await mesh.connect()
    network.on_message(PlayRequest("u"))
    await notes.until(lambda: notes.of("connection_failed"))
    await mesh.disconnect()
    gc.collect()
    assert complaints == []
