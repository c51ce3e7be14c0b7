"""The signalling server and client on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.room_agents import WAIT_S, signalling
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from hubbub import SettingsError
from hubbub.pack.http import Backoff
from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import SignallingFailed, StreamIdTaken, WireError
from hubbub.packs.peers.signalling import (
    Alert,
    Candidates,
    Description,
    FallbackData,
    IncomingMessage,
    Listing,
    MemberJoined,
    PlayRequest,
    read_message,
)
from hubbub.packs.peers.signalling_client import SignallingClient
from hubbub.packs.peers.signalling_command import main
from hubbub.packs.peers.signalling_router import SignalLimits
from hubbub.packs.peers.signalling_server import client_network

HUBBUB = Path(sys.executable).parent / "hubbub"


def make_client(
    host: str, name: str = "ann", room: str = "r"
) -> tuple[SignallingClient, asyncio.Queue[IncomingMessage]]:
    client, received = SignallingClient(host, room, name, Backoff((0.05,), jitter=0)), asyncio.Queue[IncomingMessage]()
    client.on_message = received.put_nowait
    return client, received


async def fetch_path(host: str, path: str) -> tuple[int, str, str]:
    def fetch() -> tuple[int, str, str]:
        try:
            with urllib.request.urlopen(host.replace("ws:", "http:") + path, timeout=60) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, "", ""

    return await asyncio.to_thread(fetch)


# -- the client with the server ------------------------------------------------------


async def test_two_clients_join_and_exchange_descriptions() -> None:
    async with signalling() as host:
        (ann, to_ann), (bob, to_bob) = make_client(host), make_client(host, "bob")
        try:
            assert (await ann.join()).members == ()
            (listed,) = (await bob.join()).members
            assert listed.stream_id == "ann"
            async with asyncio.timeout(WAIT_S):
                assert isinstance(await to_ann.get(), MemberJoined)
                joined = await to_ann.get()
                assert isinstance(joined, MemberJoined)
                assert joined.member.stream_id == "bob"
                bob.send({"request": "play", "streamID": "ann"})
                asked = await to_ann.get()
                assert isinstance(asked, PlayRequest)
                ann.send({"UUID": asked.uuid, "session": "s", "streamID": "ann", "description": {"type": "offer"}})
                assert await to_bob.get() == Description(listed.uuid, "s", {"type": "offer"}, None, "ann")
        finally:
            await ann.close()
            await bob.close()


async def test_joining_with_a_stream_id_in_use_raises() -> None:
    async with signalling() as host:
        (ann, _), (second, _) = make_client(host), make_client(host)
        try:
            await ann.join()
            with pytest.raises(StreamIdTaken, match="already in use"):
                await second.join()
            assert not second.is_joined
        finally:
            await ann.close()


@pytest.mark.parametrize("host", ["ws://127.0.0.1:9", "http://127.0.0.1:9", "example", ""])
async def test_joining_without_a_server_raises_an_error_with_advice(host: str) -> None:
    client, _ = make_client(host)
    with pytest.raises(SignallingFailed, match=r"start one with `hubbub signal`|must begin with ws://"):
        await client.join()


async def test_joining_a_full_room_raises_with_the_message_of_the_server() -> None:
    async with signalling(SignalLimits(clients_per_room=1)) as host:
        (ann, _), (bob, _) = make_client(host), make_client(host, "bob")
        try:
            await ann.join()
            with pytest.raises(SignallingFailed, match="full"):
                await bob.join()
        finally:
            await ann.close()


async def test_a_client_rejoins_after_a_server_restart_and_sends_queued_messages() -> None:
    async with signalling() as host:
        ann, received = make_client(host)
        port = int(host.rpartition(":")[2])
        await ann.join()
    lost: list[tuple[str, float]] = []
    back, is_lost = asyncio.Event(), asyncio.Event()

    def on_lost(reason: str, wait_s: float) -> None:
        lost.append((reason, wait_s))
        is_lost.set()

    ann.on_lost = on_lost
    ann.on_rejoined = back.set
    try:
        async with asyncio.timeout(60):
            await is_lost.wait()
            is_up = ann.is_joined
            assert not is_up
            for number in range(limits.SIGNAL_OFFLINE_MESSAGES + 5):
                ann.send({"request": f"unknown {number}"})  # which the server answers with an error
            async with signalling(port=port):
                await back.wait()
                assert isinstance(await received.get(), Listing)
                assert ann.is_joined
                for number in range(5, limits.SIGNAL_OFFLINE_MESSAGES + 5):
                    assert await received.get() == Alert(f"unknown request 'unknown {number}'", is_error=True)
    finally:
        await ann.close()


async def test_joining_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIGNAL_JOIN_S", 0.2)
    async with signalling() as host, connect(host):
        pass
    from websockets.asyncio.server import serve

    async def stay_silent(socket: Any) -> None:
        await socket.wait_closed()

    async with serve(stay_silent, "127.0.0.1", 0) as server:
        client, _ = make_client(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")
        with pytest.raises(SignallingFailed, match="did not confirm the join"):
            await client.join()


async def test_a_server_that_does_not_answer_seed_is_accepted() -> None:
    from websockets.asyncio.server import serve

    received: list[dict[str, Any]] = []

    async def serve_without_seeded(socket: Any) -> None:
        async for text in socket:
            received.append(json.loads(text))
            if received[-1]["request"] == "joinroom":
                await socket.send(json.dumps({"request": "listing", "list": [{"UUID": "u", "streamID": "bob"}, 7, {}]}))

    async with serve(serve_without_seeded, "127.0.0.1", 0) as server:
        client, _ = make_client(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")
        try:
            listing = await client.join()
        finally:
            await client.close()
    assert [member.stream_id for member in listing.members] == ["bob"]
    assert [message["request"] for message in received] == ["joinroom", "seed"]


# -- the server alone ----------------------------------------------------------------


async def test_health_and_metrics_are_served_over_http() -> None:
    async with signalling() as host:
        ann, _ = make_client(host)
        try:
            await ann.join()
            status, kind, body = await fetch_path(host, "/health")
            assert (status, kind) == (200, "application/json")
            assert json.loads(body) == {"status": "ok", "clients": 1, "rooms": 1}
            status, _, body = await fetch_path(host, "/metrics")
            assert status == 200
            assert "hubbub_signal_clients 1.0" in body
            assert (await fetch_path(host, "/"))[0] == 426
        finally:
            await ann.close()


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        (None, True),
        ("http://localhost:3000", True),
        ("http://127.0.0.1", True),
        ("https://friend.example", True),
        ("https://evil.example", False),
        ("http://localhost.evil.example", False),
        ("null", False),
        ("http://[", False),
    ],
)
async def test_browser_origins_that_are_not_allowed_are_refused(origin: Origin | None, is_allowed: bool) -> None:
    async with signalling(allowed_origins=("https://friend.example",)) as host:
        if is_allowed:
            async with connect(host, origin=origin):
                return
        with pytest.raises(InvalidStatus):
            await connect(host, origin=origin)


async def close_code(host: str, *texts: str | bytes) -> int | None:
    """Send these; return the close code of the server."""
    async with connect(host, max_size=None) as socket:
        try:
            for text in texts:
                await socket.send(text)
            async with asyncio.timeout(60):
                while True:
                    await socket.recv()
        except ConnectionClosed:
            return socket.close_code


async def test_invalid_messages_close_only_their_own_connection() -> None:
    async with signalling(SignalLimits(messages=20)) as host:
        ann, received = make_client(host)
        try:
            await ann.join()
            assert await close_code(host, "not json") == 1008
            assert await close_code(host, "x" * (limits.SIGNAL_MESSAGE_BYTES + 1)) == 1009
            assert await close_code(host, *(['{"a":1}'] * 30)) == 1008
            bob, _ = make_client(host, "bob")
            await bob.join()
            await bob.close()
            assert isinstance(await received.get(), MemberJoined)
        finally:
            await ann.close()


async def test_a_client_that_joins_no_room_in_time_is_disconnected() -> None:
    async with signalling(join_grace_s=0.1) as host:
        assert await close_code(host) == 1006


async def test_a_client_that_publishes_or_plays_needs_no_room() -> None:
    async with signalling(join_grace_s=2) as host, connect(host) as publisher, connect(host) as viewer:
        await publisher.send('{"request":"seed","streamID":"ann"}')
        assert json.loads(await publisher.recv())["request"] == "seeded"
        await viewer.send('{"request":"play","streamID":"ann"}')
        asked = json.loads(await publisher.recv())
        assert asked["request"] == "offerSDP"
        assert await close_code(host) == 1006  # A client without requests is disconnected by now; these two stay.
        await publisher.send(json.dumps({"UUID": asked["UUID"], "description": "x"}))
        assert json.loads(await viewer.recv())["description"] == "x"


@pytest.mark.parametrize(
    ("remote", "network"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3::4", 5, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::1", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
        (None, ""),
    ],
)
def test_ipv6_addresses_of_one_64_network_count_as_one(remote: Any, network: str) -> None:
    class Connection:
        remote_address = remote

    assert client_network(Connection()) == network  # type: ignore[arg-type]


async def test_a_client_that_does_not_answer_pings_is_disconnected() -> None:
    async with signalling(idle_s=0.4) as host:
        # A client that never reads after the handshake.
        reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        async with asyncio.timeout(60):
            while await reader.read(1000):
                pass
        writer.close()
        assert json.loads((await fetch_path(host, "/health"))[2])["clients"] == 0


async def test_connections_of_one_address_are_limited() -> None:
    async with signalling(SignalLimits(clients_per_address=1)) as host:
        ann, _ = make_client(host)
        try:
            await ann.join()
            assert await close_code(host) == 1008
        finally:
            await ann.close()


async def test_unfinished_handshakes_count_against_the_limit_per_address() -> None:
    async with signalling(SignalLimits(clients_per_address=2)) as host:
        port = int(host.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            silent.append((reader, writer))
            async with asyncio.timeout(WAIT_S):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        finally:
            for _, writer in silent:
                writer.close()
        ann, _ = make_client(host)
        async with asyncio.timeout(WAIT_S):
            while not ann.is_joined:
                ann, _ = make_client(host)
                with contextlib.suppress(
                    SignallingFailed
                ):  # The server may not have detected yet that they are closed.
                    await ann.join()
        await ann.close()


# -- messages of the server -----------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
requests = st.sampled_from(
    [
        "listing",
        "transferred",
        "someonejoined",
        "videoaddedtoroom",
        "offerSDP",
        "play",
        "alert",
        "error",
        "bye",
        "rejected",
    ]
)
fields = ["UUID", "streamID", "list", "session", "description", "vector", "type", "candidates", "message", "bye"]


@given(
    message=st.dictionaries(
        st.sampled_from(fields), json_values | st.sampled_from(["local", "remote", "u"]), max_size=6
    ),
    request=st.none() | requests | json_values,
)
def test_arbitrary_server_messages_are_read_or_refused(message: dict[str, Any], request: Any) -> None:
    if request is not None:
        message["request"] = request
    try:
        read = read_message(message)
    except WireError:
        return
    assert read is None or isinstance(read, IncomingMessage)


@given(message=json_values)
def test_a_server_message_that_is_not_an_object_is_refused(message: Any) -> None:
    if not isinstance(message, dict):
        with pytest.raises(WireError):
            read_message(message)


def test_messages_of_peers_are_read() -> None:
    assert read_message(
        {"UUID": "u", "type": "local", "candidates": "00", "session": "s", "vector": "11", "more": 1}
    ) == Candidates("u", "s", "local", "00", "11")
    assert read_message({"UUID": "u", "pipe": {}, "__fallback": True}) == FallbackData("u", {})
    assert read_message({"UUID": "u", "pipe": None, "__fallback": True}) == FallbackData("u", None)
    assert read_message({"pipe": {}, "__fallback": True}) is read_message({"UUID": "u", "pipe": {}}) is None


# -- the command ----------------------------------------------------------------------


def test_a_host_beyond_loopback_needs_the_insecure_flag() -> None:
    with pytest.raises(SettingsError, match="--insecure"):
        main(["--host", "0.0.0.0"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "99999"], "port must be 0-65535; try another --port"),
        (["--host", "nowhere.invalid", "--insecure"], "try another --host"),
    ],
)
def test_an_unusable_address_is_reported_in_one_line(arguments: list[str], message: str) -> None:
    done = subprocess.run([HUBBUB, "signal", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("hubbub: cannot listen on ")
    assert message in done.stderr


def test_the_signal_command_serves_until_sigterm() -> None:
    with subprocess.Popen([HUBBUB, "signal", "--port", "0"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert "ws://127.0.0.1:" in line
            host = line.split("ws://")[1].split()[0]
            with urllib.request.urlopen(f"http://{host}/health", timeout=60) as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            process.kill()


def test_a_port_in_use_is_reported_without_a_traceback() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [HUBBUB, "signal", "--port", port], capture_output=True, text=True, timeout=60, env=dict(os.environ)
        )
    assert done.returncode != 0
    assert "try another --port" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_client_that_sends_pings_and_does_not_read_the_pongs_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SIGNAL_QUEUE_BYTES", 64 * 1024)
    async with signalling() as host, connect(host, ping_interval=None, max_queue=1) as socket:
        socket.transport.pause_reading()
        ping = b"\x89\xfd\x00\x00\x00\x00" + b"x" * 125
        async with asyncio.timeout(60):
            while not socket.transport.is_closing():
                socket.transport.write(ping * 1000)
                await asyncio.sleep(0)
