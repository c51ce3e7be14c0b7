"""Agents in separate processes: messages, bytes, killed processes, a signalling server that restarts.

Each test starts several processes; tests within one process are in `test_mesh`.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests.packs.peers.processes import MeshAgentProcess, SignalServerProcess, started


@pytest.mark.parametrize("engines", [("wrtc", "wrtc"), ("wrtc", "aiortc")], ids="-".join)
def test_two_processes_exchange_messages_and_bytes(exit_stack: ExitStack, engines: tuple[str, str]) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    ann, bob = (
        started(exit_stack, MeshAgentProcess(signal_server.host, name, e))
        for name, e in zip(("ann", "bob"), engines, strict=True)
    )
    ann.until("ready_peer", peer="bob")
    bob.until("ready_peer", peer="ann")
    ann.do("send", {"n": 1})
    assert bob.until("data") == {"type": "data", "peer": "ann", "data": {"n": 1}}
    ann.do("bytes", "bob", 2_000_000)
    assert bob.until("bytes")["count"] == 2_000_000 // 65000 * 65000
    bob.do("leave")
    ann.until("gone", peer="bob")


def test_a_killed_process_is_detected_and_its_successor_connected(exit_stack: ExitStack) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    ann, bob, carol = (
        started(exit_stack, MeshAgentProcess(signal_server.host, name)) for name in ("ann", "bob", "carol")
    )
    met: set[str] = set()
    while met != {"bob", "carol"}:
        met.add(ann.until("ready_peer")["peer"])
    bob.process.kill()
    ann.until("gone", peer="bob")
    ann.do("send", "still here")
    assert ann.until("sent_to")["count"] == 1
    carol.until("data", data="still here")
    started(exit_stack, MeshAgentProcess(signal_server.host, "bob"))
    ann.until("ready_peer", peer="bob")


def test_a_stopped_process_is_detected(exit_stack: ExitStack) -> None:
    """Its sockets stay open, but it answers nothing."""
    import signal

    signal_server = started(exit_stack, SignalServerProcess())
    ann, bob = (started(exit_stack, MeshAgentProcess(signal_server.host, name)) for name in ("ann", "bob"))
    ann.until("ready_peer", peer="bob")
    bob.process.send_signal(signal.SIGSTOP)
    ann.until("gone", peer="bob")


def test_a_transfer_continues_while_the_signalling_server_restarts(exit_stack: ExitStack) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    ann, bob = (
        started(exit_stack, MeshAgentProcess(signal_server.host, name, reconnect_s=0.2)) for name in ("ann", "bob")
    )
    ann.until("ready_peer", peer="bob")
    ann.do("bytes", "bob", 100_000_000)
    signal_server.process.kill()
    ann.until("event", event="reconnect_scheduled")
    again = started(exit_stack, SignalServerProcess(signal_server.port))
    assert bob.until("bytes")["count"] == 100_000_000 // 65000 * 65000
    assert not any('"gone"' in line for line in ann.seen + bob.seen)
    carol = started(exit_stack, MeshAgentProcess(again.host, "carol"))
    carol.until("ready_peer", peer="ann")
