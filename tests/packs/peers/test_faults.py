"""Failures while agents work: servers that restart, agents that die, peers that send garbage.

Every agent is a separate process and is called over MCP. Replies to single invalid messages are tested in `files` and
`test_inbound`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.packs.peers.processes import SignalServerProcess, started
from tests.packs.peers.room_agents import signalling
from tests.packs.peers.scripted_peer import ScriptedPeer
from tests.packs.peers.served_agents import ServedAgent, serve_agents

from hubbub import HubbubError
from hubbub.packs.peers.errors import ChannelClosed
from hubbub.packs.peers.wire import ENVELOPE_MARK

LARGE_BYTES = 200_000_000
BLOCK = random.Random(7).randbytes(1_000_000)


def large_file(folder: Path, size: int = LARGE_BYTES) -> tuple[Path, str]:
    """Write a file without repeated parts; return its path and hash."""
    path, digest = folder / "large.bin", sha256()
    with path.open("wb") as file:
        for number in range(size // len(BLOCK)):
            block = number.to_bytes(8) + BLOCK[8:]
            digest.update(block)
            file.write(block)
    return path, digest.hexdigest()


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        digest = sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


async def wait_for_partial_file(bob: ServedAgent, share: float = 0.1) -> dict[str, Any]:
    """Wait for an event about a partly received file."""
    return await bob.until(
        lambda event: (
            event["type"] == "file_chunk_received"
            and event["total_bytes"] * share < event["received_bytes"] < event["total_bytes"] * 0.9
        ),
        60,
    )


async def save_transfer(bob: ServedAgent, transfer_id: str, name: str) -> Path:
    await bob.call("vdo_file_save", transfer_id=transfer_id, output_path=name)
    return bob.folder / name


async def wait_for_reconnect(agent: ServedAgent) -> None:
    first = await agent.wait_for_event("connected")
    await agent.until(lambda event: event["type"] == "connected" and event is not first, 30)


def find_pids(folder: Path) -> list[int]:
    """Return the process ids of the servers whose working directory is a folder."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cwd() == str(folder):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def test_signalling_restarts_in_the_middle_of_a_large_file(exit_stack: ExitStack, tmp_path: Path) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    async with serve_agents(tmp_path, "ann", "bob", "carol") as (ann, bob, carol):
        for agent in (ann, bob, carol):
            await agent.connect(
                signal_server.host, reconnect_ms=200, max_reconnect_ms=500, file_max_bytes=2 * LARGE_BYTES
            )
        await ann.wait_for_peers("bob", "carol")
        path, digest = large_file(ann.folder)
        sending = asyncio.create_task(ann.call("vdo_file_send_path", target="bob", file_path=path.name))
        await wait_for_partial_file(bob)
        signal_server.process.kill()
        await carol.wait_for_event("reconnect_scheduled")
        assert (await carol.call("vdo_send", data="we talk all the same", target="ann"))["ok"]
        await ann.wait_for_data(lambda data: data == "we talk all the same")
        assert not sending.done()
        started(exit_stack, SignalServerProcess(signal_server.port))
        transfer = (await sending)["transfer"]
        assert (transfer["status"], transfer["file_hash"]) == ("completed", digest)
        await bob.wait_for_event("file_received", file_hash=digest)
        assert hash_file(await save_transfer(bob, transfer["transfer_id"], "copy.bin")) == digest
        for agent in (ann, bob, carol):
            await wait_for_reconnect(agent)
            assert not [event for event in agent.events if event["type"] == "peer_disconnected"]


async def test_a_receiver_that_is_killed_and_returns_gets_the_whole_file(exit_stack: ExitStack, tmp_path: Path) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    async with serve_agents(tmp_path, "ann", "carol") as (ann, carol):
        for agent in (ann, carol):
            await agent.connect(signal_server.host)
        path, digest = large_file(ann.folder, 60_000_000)
        async with serve_agents(tmp_path, "bob") as (bob,):
            await bob.connect(signal_server.host)
            await ann.wait_for_peers("bob", "carol")
            options = {"target": "bob", "file_path": path.name, "ack_timeout_ms": 5000}
            sending = asyncio.create_task(ann.call_raw("vdo_file_send_path", session_id=ann.session, **options))
            await wait_for_partial_file(bob)
            for pid in find_pids(bob.folder):
                os.kill(pid, signal.SIGKILL)
        async with serve_agents(tmp_path, "bob") as (bob,):
            await bob.connect(signal_server.host)
            content, is_error = await sending
            if is_error:  # The call timed out with advice to resume.
                assert "vdo_file_resume" in content["error"]["message"]
                await ann.wait_for_peers("bob")
                (known,) = (await ann.call("vdo_file_transfers", direction="outgoing"))["outgoing"]
                assert known["status"] == "failed"
                content = await ann.call("vdo_file_resume", transfer_id=known["transfer_id"])
            assert (content["transfer"]["status"], content["transfer"]["file_hash"]) == ("completed", digest)
            assert hash_file(await save_transfer(bob, content["transfer"]["transfer_id"], "copy.bin")) == digest
            assert (await carol.call("vdo_send", data="still here", target="ann"))["ok"]


async def test_a_killed_sender_leaves_an_incomplete_transfer(exit_stack: ExitStack, tmp_path: Path) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    async with serve_agents(tmp_path, "bob") as (bob,):
        await bob.connect(signal_server.host)
        async with serve_agents(tmp_path, "ann") as (ann,):
            await ann.connect(signal_server.host)
            await ann.wait_for_peers("bob")
            path, _ = large_file(ann.folder, 60_000_000)
            sending = asyncio.create_task(ann.call("vdo_file_send_path", target="bob", file_path=path.name))
            transfer_id = (await wait_for_partial_file(bob))["transfer_id"]
            for pid in find_pids(ann.folder):
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(HubbubError):
                await sending
        await bob.wait_for_event("peer_disconnected")
        assert (await bob.transfer(transfer_id))["status"] == "receiving"
        content, is_error = await bob.call_raw("vdo_file_receive", session_id=bob.session, transfer_id=transfer_id)
        assert is_error
        assert content["error"]["message"] == f"transfer not complete: {transfer_id}"


# -- unknown peers that send garbage ---------------------------------------------

KINDS = (
    "sync.hello", "sync.hello_ack", "sync.heartbeat", "sync.reject", "link.offer", "link.answer",
    "file.offer", "file.accept", "file.chunk", "file.ack", "file.nack", "file.complete", "file.complete_ack",
    "file.resume_req", "file.resume_state", "file.cancel",
    "state.patch", "state.snapshot_req", "state.snapshot", "state.other", "file.other", "other", "",
)  # fmt: skip
RANDOM_FRAMES = 6000
GROWTH_MB = 48.0
FLOOD_BYTES = 200_000_000


def any_value(chance: random.Random, depth: int = 0) -> Any:
    plain: list[Callable[[], Any]] = [
        lambda: None, lambda: chance.random() < 0.5, lambda: chance.choice((0, 1, -1, 2**31, 2**53, -(2**63), 1e308)),
        lambda: chance.choice(("", "x", "bob", "ann", "hall", "\u2028", "../../etc/passwd", "0" * 64, "a" * 300)),
        lambda: "y" * chance.choice((1000, 20_000)),
    ]  # fmt: skip
    nested: list[Callable[[], Any]] = [
        lambda: [any_value(chance, depth + 1) for _ in range(chance.randrange(4))],
        lambda: {chance.choice(("key", "2", "", "__proto__")): any_value(chance, depth + 1)},
    ]
    return chance.choice(plain if depth > 3 else plain + nested)()


def random_envelope(chance: random.Random, name: str) -> dict[str, Any]:
    """Return an envelope of a random kind with the fields of all kinds, some valid and some not."""
    right: dict[str, Any] = {
        "transfer_id": f"file_{chance.randrange(300)}", "name": "a.bin", "mime": "", "total_bytes": 100, "seq": 0,
        "total_chunks": 1, "chunk_bytes": 1024, "file_hash": "0" * 64, "next_seq": 0, "data_base64": "AAAA",
        "chunk_hash": "", "received_bytes": 3, "expected_seq": 0, "reason": "because", "status": "receiving",
        "key": f"key{chance.randrange(50)}", "value": chance.random(), "actor": name, "clock": chance.randrange(1, 99),
        "updated_at": "", "entries": [], "actor_clock": {}, "room": "hall", "stream_id": name, "index": 1, "sdp": "v=0",
        "public_key": None, "join_token": None, "capabilities": {}, "state_digest": "0" * 64,
    }  # fmt: skip
    for field in chance.sample(sorted(right), chance.randrange(6)):
        right[field] = any_value(chance)
    envelope = {
        "__vdo_mcp": ENVELOPE_MARK, "kind": chance.choice(KINDS), "ts": 1, "nonce": f"p_{chance.getrandbits(32):08x}",
        "room": "hall", "from_stream_id": name, "payload": right,
    }  # fmt: skip
    if chance.random() < 0.2:
        envelope["mac"] = any_value(chance)
    if chance.random() < 0.1:
        envelope[chance.choice(sorted(envelope))] = any_value(chance)
    return envelope


async def send_random_frames(host: str, name: str, chance: random.Random, count: int) -> int:
    """Send a number of random frames, on as many connections as that takes; return the number of connections."""
    connections = 0
    while count > 0:
        connections += 1
        async with ScriptedPeer(host, f"{name}{connections}") as unknown_peer:
            await unknown_peer.view("ann")
            if chance.random() < 0.7:
                unknown_peer.send_hello()
            try:
                while count > 0:
                    count -= 1
                    frame = (
                        {"pipe": random_envelope(chance, f"{name}{connections}")}
                        if chance.random() < 0.9
                        else any_value(chance)
                    )
                    unknown_peer.send_frame(frame if isinstance(frame, dict) else {"pipe": frame})
                    if count % 50 == 0:
                        async with asyncio.timeout(2):
                            await unknown_peer.channel.drain(0)
            except (ChannelClosed, TimeoutError):
                continue  # It was disconnected; the close itself may get lost.
    return connections


@pytest.mark.parametrize("gate", [{}, {"require_session_mac": True, "enforce_join_token": True}], ids=["open", "gated"])
async def test_random_frames_of_unknown_peers_break_nothing_and_memory_stays_bounded(
    gate: dict[str, Any], tmp_path: Path
) -> None:
    """Frames of every kind, in any order, valid and invalid: no file is completed."""
    secret = {"join_token_secret": "only ours"} if gate else {}
    async with signalling() as host, serve_agents(tmp_path, "ann", "bob") as (ann, bob):
        for agent in (ann, bob):
            await agent.connect(host, **gate, **secret)
        await ann.wait_for_peers("bob")
        (pid,) = find_pids(ann.folder)
        chance = random.Random(1)
        await send_random_frames(host, "first", chance, RANDOM_FRAMES // 4)
        before = psutil.Process(pid).memory_info().rss
        await send_random_frames(host, "then", chance, RANDOM_FRAMES)
        grown_mb = (psutil.Process(pid).memory_info().rss - before) / 1e6
        assert grown_mb < GROWTH_MB, f"it grew by {grown_mb:.0f} MB"
        incoming = (await ann.call("vdo_file_transfers"))["incoming"]
        assert not [transfer for transfer in incoming if transfer["status"] == "completed"]
        if gate:
            assert incoming == []
            assert (await ann.call("vdo_state_get"))["value"] == {}
        await check_agents_work(ann, bob)


async def check_agents_work(ann: ServedAgent, bob: ServedAgent) -> None:
    """Send a message, a state value and a file from one to the other."""
    assert (await ann.call("vdo_send", data={"n": 1}, target="bob"))["ok"]
    await bob.wait_for_data(lambda data: data == {"n": 1})
    await ann.call("vdo_state_set", key="plan", value="go on")
    await bob.wait_for_event("state_updated", key="plan", value="go on")
    path, digest = large_file(ann.folder, 5_000_000)
    sent = await ann.call("vdo_file_send_path", target="bob", file_path=path.name)
    assert sent["transfer"]["status"] == "completed"
    await bob.wait_for_event("file_received", file_hash=digest)


async def test_memory_stays_bounded_under_a_flood_of_the_largest_frames(tmp_path: Path) -> None:
    """In an open room any peer may send data; unread data is queued up to a limit."""
    async with signalling() as host, serve_agents(tmp_path, "ann", "bob") as (ann, bob):
        for agent in (ann, bob):
            await agent.connect(host)
        await ann.wait_for_peers("bob")
        (pid,) = find_pids(ann.folder)
        before = psutil.Process(pid).memory_info().rss
        async with ScriptedPeer(host) as mallory:
            await mallory.view("ann")
            mallory.send_hello()
            for _ in range(FLOOD_BYTES // 250_000):
                mallory.send_frame({"pipe": "z" * 250_000})
                await mallory.channel.drain()
            await mallory.channel.drain(0)
        grown_mb = (psutil.Process(pid).memory_info().rss - before) / 1e6
        assert grown_mb < 2 * GROWTH_MB, f"it grew by {grown_mb:.0f} MB"
        assert (await ann.call("vdo_status"))["dropped_events"] > 0
        await check_agents_work(ann, bob)
