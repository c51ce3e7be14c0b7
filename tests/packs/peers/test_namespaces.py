"""Two agents in two network namespaces, connected by a veth pair that can be taken down."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.processes import MeshAgentProcess, SignalServerProcess, started
from tests.packs.peers.served_agents import serve_agent

ADDRESSES = ("10.213.7.1", "10.213.7.2")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise OSError(done.stderr.strip())


class NamespacePair:
    """Two network namespaces, connected by a veth pair."""

    def __init__(self, exit_stack: ExitStack) -> None:
        self.names = [f"hubbub-{os.getpid()}-{side}" for side in "ab"]
        devices = [f"hb{os.getpid()}{side}" for side in "ab"]
        for name in self.names:
            ip("netns", "add", name)
            exit_stack.callback(ip, "netns", "delete", name)
        own, other = devices
        ip("link", "add", own, "netns", self.names[0], "type", "veth", "peer", "name", other, "netns", self.names[1])
        for name, device, address in zip(self.names, devices, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", device)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", device, "up")
        self._end = devices[0]

    def command_prefix(self, side: int) -> list[str]:
        """Return the prefix of a command that runs in one namespace."""
        return ["ip", "netns", "exec", self.names[side]]

    def take_down(self) -> None:
        ip("-n", self.names[0], "link", "set", self._end, "down")

    def bring_up(self) -> None:
        ip("-n", self.names[0], "link", "set", self._end, "up")


@pytest.fixture
def namespaces() -> Iterator[NamespacePair]:
    if shutil.which("ip") is None:
        pytest.skip("`ip` is not installed (`apt install iproute2`), so network namespaces cannot be created")
    with ExitStack() as exit_stack:
        try:
            pair = NamespacePair(exit_stack)
        except OSError as error:
            pytest.skip(f"this host allows no network namespaces with a veth pair: {error}")
        yield pair


@pytest.fixture
def signal_server(namespaces: NamespacePair, exit_stack: ExitStack) -> SignalServerProcess:
    """A signalling server in the first namespace."""
    signal_server: SignalServerProcess = started(
        exit_stack,
        SignalServerProcess(0, "--host", ADDRESSES[0], "--insecure", command_prefix=namespaces.command_prefix(0)),
    )
    return signal_server


@pytest.fixture
def agents(
    namespaces: NamespacePair, signal_server: SignalServerProcess, exit_stack: ExitStack
) -> tuple[MeshAgentProcess, MeshAgentProcess]:
    """Ann, in the namespace of the signalling server, and Bob, in the other one."""
    options: dict[str, Any] = {"reconnect_s": 0.2, "max_reconnect_s": 1.0}
    ann, bob = (
        started(
            exit_stack,
            MeshAgentProcess(signal_server.host, name, command_prefix=namespaces.command_prefix(side), **options),
        )
        for side, name in enumerate(("ann", "bob"))
    )
    ann.until("ready_peer", peer="bob")
    bob.until("ready_peer", peer="ann")
    return ann, bob


def test_agents_on_two_machines_exchange_messages_and_bytes(agents: tuple[MeshAgentProcess, MeshAgentProcess]) -> None:
    ann, bob = agents
    ann.do("send", {"n": 1})
    assert bob.until("data") == {"type": "data", "peer": "ann", "data": {"n": 1}}
    bob.do("bytes", "ann", 5_000_000)
    assert ann.until("bytes")["count"] == 5_000_000 // 65000 * 65000


def test_a_short_network_outage_loses_no_data_and_no_peer(
    namespaces: NamespacePair, agents: tuple[MeshAgentProcess, MeshAgentProcess]
) -> None:
    ann, bob = agents
    ann.do("bytes", "bob", 60_000_000)
    namespaces.take_down()
    with pytest.raises(AssertionError, match="no line arrived"):
        bob.until("bytes", 0.5)  # SCTP retransmits after 1, 3 and 7 s: a longer outage may exceed the silence timeout
    namespaces.bring_up()
    assert bob.until("bytes")["count"] == 60_000_000 // 65000 * 65000
    assert not any('"gone"' in line for line in ann.seen + bob.seen)


def test_agents_reconnect_after_a_long_network_outage(
    namespaces: NamespacePair, agents: tuple[MeshAgentProcess, MeshAgentProcess]
) -> None:
    ann, bob = agents
    namespaces.take_down()
    ann.until("gone", peer="bob")
    bob.until("gone", peer="ann")
    namespaces.bring_up()
    ann.until("ready_peer", 60, peer="bob")
    ann.do("send", "back")
    bob.until("data", data="back")


async def test_servers_on_two_machines_exchange_messages_and_files(
    namespaces: NamespacePair, signal_server: SignalServerProcess, tmp_path: Path
) -> None:
    async with (
        serve_agent(tmp_path, "ann", command_prefix=namespaces.command_prefix(0)) as ann,
        serve_agent(tmp_path, "bob", command_prefix=namespaces.command_prefix(1)) as bob,
    ):
        for agent in (ann, bob):
            await agent.connect(signal_server.host)
        await ann.wait_for_peers("bob")
        assert (await bob.call("vdo_send", target="ann", data={"n": 1}))["ok"]
        await ann.wait_for_data(lambda data: data == {"n": 1})
        whole = bytes(at * 7 & 255 for at in range(5_000_000))
        (ann.folder / "file.bin").write_bytes(whole)
        sent = (await ann.call("vdo_file_send_path", target="bob", file_path="file.bin"))["transfer"]
        assert sent["status"] == "completed"
        await bob.wait_for_event("file_received", transfer_id=sent["transfer_id"], file_hash=sha256(whole).hexdigest())
        await bob.call("vdo_file_save", transfer_id=sent["transfer_id"], output_path="copy.bin")
        assert (bob.folder / "copy.bin").read_bytes() == whole
