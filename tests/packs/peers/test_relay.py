"""`force_turn` against a real TURN server: coturn, where it is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.packs.peers.room_agents import RoomAgent, joined_room, signalling

from hubbub.packs.peers.engine import IceServer


def own_address() -> str:
    """Return an address of this machine that is not loopback; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("no network except loopback, so a relay cannot be reached")
        address: str = probe.getsockname()[0]
        return address


def wait_for(address: str, port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "coturn did not start"
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[IceServer]:
    program = shutil.which("turnserver")
    if program is None:
        pytest.skip("coturn is not installed (`apt install coturn`), so connections through a relay are not tested")
    address = own_address()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    command = [
        program, "-n", "--no-cli", "--no-tls", "--no-dtls", "--lt-cred-mech", "--realm=test", "--user=u:p",
        f"--listening-ip={address}", f"--relay-ip={address}", f"--listening-port={port}",
        "--allow-loopback-peers", "--log-file=stdout", f"--pidfile={tmp_path / 'pid'}",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        try:
            wait_for(address, port)
            yield IceServer(f"turn:{address}:{port}", "u", "p")
        finally:
            process.kill()


@pytest.mark.parametrize("engines", [("wrtc", "wrtc"), ("wrtc", "aiortc")], ids="-".join)
async def test_two_agents_connect_through_a_turn_relay_only(relay: IceServer, engines: tuple[str, str]) -> None:
    async with signalling() as host:
        ann, bob = (
            RoomAgent(host, name, engine, force_turn=True, ice_servers=(relay,))
            for name, engine in zip(("ann", "bob"), engines, strict=True)
        )
        async with joined_room(ann, bob):
            await ann.wait_for_peers("bob")
            assert ann.mesh.send("relayed").ok
            await bob.listener.until(lambda: bob.listener.data)
