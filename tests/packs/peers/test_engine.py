"""One suite for both engines, and for one of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import (
    Candidate,
    Channel,
    Connection,
    IceServer,
    available_engines,
    load_engine,
    read_max_message_size,
)
from hubbub.packs.peers.errors import (
    ChannelClosed,
    EngineMissing,
    FrameTooLarge,
    NegotiationFailed,
    PeersError,
    QueueFull,
)

PAIRS = [("wrtc", "wrtc"), ("aiortc", "aiortc"), ("wrtc", "aiortc"), ("aiortc", "wrtc")]
every_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)
every_engine = pytest.mark.parametrize("name", ["wrtc", "aiortc"])


class ConnectionPair:
    """Two connections and the channel between them."""

    def __init__(self, pair: tuple[str, str]) -> None:
        self.left: Connection = load_engine(pair[0]).connection()
        self.right: Connection = load_engine(pair[1]).connection()
        self.near: Channel = self.left.create_channel("sendChannel")
        self.channels: asyncio.Queue[Channel] = asyncio.Queue()
        self.right.on_channel = self.channels.put_nowait

    async def connect(self) -> None:
        self.left.on_candidate = lambda found: self._add_candidate(self.right, found)
        self.right.on_candidate = lambda found: self._add_candidate(self.left, found)
        await self.left.accept(await self.right.answer(await self.left.offer()))
        async with asyncio.timeout(60):
            await self.near.wait_open()
            self.far = await self.channels.get()

    def _add_candidate(self, to: Connection, found: Candidate) -> None:
        self._late = asyncio.ensure_future(to.add_candidate(found))

    async def close(self) -> None:
        await self.left.close()
        await self.right.close()


@asynccontextmanager
async def connected_pair(pair: tuple[str, str]) -> AsyncIterator[ConnectionPair]:
    connections = ConnectionPair(pair)
    try:
        await connections.connect()
        yield connections
    finally:
        await connections.close()


def collect_messages(channel: Channel) -> asyncio.Queue[bytes | str]:
    inbox: asyncio.Queue[bytes | str] = asyncio.Queue()
    channel.on_message = inbox.put_nowait
    return inbox


async def next_message(inbox: asyncio.Queue[bytes | str]) -> bytes | str:
    async with asyncio.timeout(60):
        return await inbox.get()


@every_pair
async def test_messages_of_every_size_arrive_in_both_directions(pair: tuple[str, str]) -> None:
    async with connected_pair(pair) as connections:
        assert connections.far.label == "sendChannel"
        assert connections.far.is_open
        there, back = collect_messages(connections.far), collect_messages(connections.near)
        messages: list[bytes | str] = [
            "",
            b"",
            "x",
            b"\x00",
            "é\u2028😀",
            b"k" * 65536,
            "t" * limits.PEER_FRAME_BYTES,
            b"b" * limits.PEER_FRAME_BYTES,
        ]
        for message in messages:
            connections.near.send(message)
            connections.far.send(message)
        assert [await next_message(there) for _ in messages] == messages
        assert [await next_message(back) for _ in messages] == messages


@every_pair
async def test_a_message_too_large_is_refused_and_the_channel_stays_usable(pair: tuple[str, str]) -> None:
    async with connected_pair(pair) as connections:
        inbox = collect_messages(connections.far)
        assert connections.near.max_message_size == limits.PEER_FRAME_BYTES
        for message in (b"x" * (limits.PEER_FRAME_BYTES + 1), "é" * (limits.PEER_FRAME_BYTES // 2 + 1)):
            with pytest.raises(FrameTooLarge):
                connections.near.send(message)
        connections.near.send("after")
        assert await next_message(inbox) == "after"


def flood(channel: Channel) -> int:
    """Send without waiting; return how many messages were accepted before one was refused."""
    for accepted in range(1000):
        try:
            channel.send(accepted.to_bytes(4, "big") + b"x" * 65532)
        except QueueFull:
            return accepted
    raise AssertionError("every message was accepted")


@every_pair
async def test_sending_is_refused_at_the_queue_limit_and_queued_messages_arrive(pair: tuple[str, str]) -> None:
    async with connected_pair(pair) as connections:
        inbox = collect_messages(connections.far)
        accepted = flood(connections.near)
        assert connections.near.buffered_amount <= limits.PEER_QUEUE_BYTES
        async with asyncio.timeout(60):
            await connections.near.drain()
            assert connections.near.buffered_amount <= limits.PEER_LOW_WATER_BYTES
            numbers = [int.from_bytes((await inbox.get())[:4], "big") for _ in range(accepted)]  # type: ignore[arg-type]
        assert numbers == list(range(accepted))


@every_pair
async def test_messages_before_a_handler_is_set_are_kept(pair: tuple[str, str]) -> None:
    async with connected_pair(pair) as connections:
        for number in range(50):
            connections.near.send(str(number))
        second = connections.left.create_channel("other")
        async with asyncio.timeout(60):
            await second.wait_open()
            other = await connections.channels.get()
        echo = collect_messages(other)
        second.send("now the fifty are there")
        await next_message(echo)
        inbox = collect_messages(connections.far)
        assert [await next_message(inbox) for _ in range(50)] == [str(number) for number in range(50)]


@every_pair
async def test_the_answering_side_can_open_a_second_channel_later(pair: tuple[str, str]) -> None:
    async with connected_pair(pair) as connections:
        made = connections.right.create_channel("hubbub-bulk")
        arrived: asyncio.Queue[Channel] = asyncio.Queue()
        connections.left.on_channel = arrived.put_nowait
        async with asyncio.timeout(60):
            await made.wait_open()
            channel = await arrived.get()
        assert channel.label == "hubbub-bulk"
        inbox = collect_messages(channel)
        made.send(b"bytes")
        assert await next_message(inbox) == b"bytes"


@every_pair
async def test_closing_one_connection_closes_the_other_while_it_is_sending(pair: tuple[str, str]) -> None:
    async with connected_pair(pair) as connections:
        closed = asyncio.Event()
        connections.near.on_close = closed.set
        for _ in range(64):
            connections.near.send(b"x" * 65536)
        draining = asyncio.ensure_future(connections.near.drain(0))
        await connections.right.close()
        assert not connections.far.is_open
        async with asyncio.timeout(60):
            if pair[0] == "aiortc" and pair[1] == "wrtc":
                # wrtc sends nothing when it closes; the other side would notice only by missing answers.
                await connections.left.close()
            await closed.wait()
            with pytest.raises(ChannelClosed):
                await draining
        with pytest.raises(ChannelClosed):
            connections.near.send("late")
        assert connections.near.buffered_amount == 0


@every_engine
async def test_closing_twice_reports_the_close_once(name: str) -> None:
    connection = load_engine(name).connection()
    channel = connection.create_channel("sendChannel")
    reported: list[str] = []
    channel.on_close = lambda: reported.append("channel")
    connection.on_state = reported.append
    await connection.close()
    await connection.close()
    assert reported == ["channel", "closed"]
    assert connection.state == "closed"
    with pytest.raises(ChannelClosed):
        await channel.wait_open()
    with pytest.raises(ChannelClosed):
        await channel.drain()
    with pytest.raises(ChannelClosed):
        connection.create_channel("late")


@every_engine
async def test_sending_on_a_channel_that_is_not_open_is_refused(name: str) -> None:
    connection = load_engine(name).connection()
    try:
        with pytest.raises(ChannelClosed, match="not open"):
            connection.create_channel("sendChannel").send("early")
    finally:
        await connection.close()


@every_engine
@pytest.mark.parametrize("sdp", ["", "x", "v=0", "v=0\r\nm=application\r\n", "\x00" * 100, "a=" * 10_000])
async def test_an_unreadable_description_is_refused(name: str, sdp: str) -> None:
    for use in ("answer", "accept"):
        connection = load_engine(name).connection()
        connection.create_channel("sendChannel")
        if use == "accept":
            await connection.offer()
        try:
            with pytest.raises(NegotiationFailed):
                await getattr(connection, use)(sdp)
        finally:
            await connection.close()


@every_pair
async def test_a_damaged_description_works_or_raises_a_peers_error(pair: tuple[str, str]) -> None:
    connections = ConnectionPair(pair)
    try:
        lines = (await connections.left.offer()).split("\r\n")
        for number in range(0, len(lines), 3):
            damaged = [*lines[:number], lines[number][: len(lines[number]) // 2], *lines[number + 1 :]]
            other = load_engine(pair[1]).connection()
            try:
                async with asyncio.timeout(60):
                    await other.answer("\r\n".join(damaged))
            except PeersError:
                pass
            finally:
                await other.close()
    finally:
        await connections.close()


@every_engine
@pytest.mark.parametrize("text", ["", "candidate:", "candidate:1 1 udp x 1.2.3.4 5 typ host", "\x00", "c" * 5000])
async def test_an_unreadable_candidate_is_ignored(name: str, text: str) -> None:
    async with connected_pair((name, name)) as connections:
        inbox = collect_messages(connections.far)
        await connections.left.add_candidate(Candidate(text))
        connections.near.send("still here")
        assert await next_message(inbox) == "still here"


@every_engine
async def test_a_relay_only_connection_without_a_relay_has_no_candidates(name: str) -> None:
    connection = load_engine(name).connection([IceServer("turn:127.0.0.1:9", "u", "p")], relay_only=True)
    connection.create_channel("sendChannel")
    try:
        async with asyncio.timeout(60):
            assert "a=candidate" not in await connection.offer()
    finally:
        await connection.close()


@every_engine
async def test_no_stun_server_is_used_by_default(name: str) -> None:
    connection = load_engine(name).connection()
    connection.create_channel("sendChannel")
    try:
        assert "srflx" not in await connection.offer()
    finally:
        await connection.close()


@every_engine
async def test_an_ice_server_with_an_invalid_url_is_refused(name: str) -> None:
    with pytest.raises(NegotiationFailed):
        await _offer_with(name, "gopher:example.com")


async def _offer_with(name: str, url: str) -> None:
    connection = load_engine(name).connection([IceServer(url)])
    try:
        connection.create_channel("sendChannel")
        await connection.offer()
    finally:
        await connection.close()


def test_wrtc_is_the_default_engine() -> None:
    assert available_engines() == ["wrtc", "aiortc"]
    assert load_engine().name == "wrtc"


def test_a_missing_engine_is_an_error_that_names_the_extra() -> None:
    with pytest.raises(EngineMissing, match="install Hubbub with its extra 'peers"):
        load_engine("libdatachannel")


@given(sdp=st.text(max_size=40) | st.integers(0, 10**20).map(lambda size: f"v=0\r\na=max-message-size:{size}\r\n"))
def test_the_max_message_size_of_a_peer_is_bounded_by_our_limit(sdp: str) -> None:
    assert 0 < read_max_message_size(sdp) <= limits.PEER_FRAME_BYTES


def test_the_default_max_message_size_is_64_kib() -> None:
    assert read_max_message_size("v=0\r\n") == 65536
    assert read_max_message_size("a=max-message-size:1000\r\n") == 1000
    assert read_max_message_size("a=max-message-size:0\r\n") == limits.PEER_FRAME_BYTES
