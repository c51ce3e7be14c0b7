"""The peers suite: agents connected by WebRTC, compared with a bare channel and a stop-and-wait sender.

`hubbub signal`, and servers with the peers pack on stdio, each in a subprocess; the two
ends of every transfer are on different cores. Slow measurements run in the first round only.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.line_process import LineProcess, ToolCaller
from bench.process import ROOT, ServerProcess
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values
from bench.vdo_bridges import send_between_vdo_bridges, send_to_vdo_bridge

_FOLDER = ROOT / ".cache" / "bench" / "rooms"
_HUBBUB = ".venv/bin/hubbub"
_FILE_BYTES = 20_000_000
_LARGE_BYTES = 1_000_000_000
_STAR, _MESH = 50, 20
_ALL_CONNECTED_S = 120.0
_CONNECTS = 5
_TRANSFERS = 3
_POLL_S = 0.25


def _measure(pace: Pace) -> list[Round]:
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    (_FOLDER / "file.bin").write_bytes(os.urandom(_FILE_BYTES))
    with (_FOLDER / "large.bin").open("wb") as file:
        file.truncate(_LARGE_BYTES)
    rounds = []
    try:
        for number in range(pace.rounds):
            print(f"peers: round {number + 1} of {pace.rounds}", file=sys.stderr)
            with _signalling() as host:
                round_values = {
                    "peers": _measure_hubbub(host, pace.phase_s),
                    "raw": _floor("raw_channel", _TRANSFERS),
                    "stop-and-wait": _floor("stop_and_wait", 1),
                    "originals": send_between_vdo_bridges(host, "originals", _FOLDER / "file.bin"),
                }
                round_values["peers"] |= _to_vdo_bridge(host)
                if number == 0:
                    round_values["peers"] |= {
                        "growth_mb": _growth_mb(host),
                        "star_s": _measure_star_s(host),
                        "mesh_s": _mesh_s(host),
                    }
            rounds.append(round_values)
    finally:
        shutil.rmtree(_FOLDER, ignore_errors=True)
    return rounds


# -- Hubbub --------------------------------------------------------------------


def _measure_hubbub(host: str, phase_s: float) -> Values:
    with _agents(host) as (ann, bob):
        connect_s = max(bob.connect_s() for _ in range(_CONNECTS))
        ann.until_knows(bob)
        bob.until_knows(ann)
        return {
            "connect_s": connect_s,
            "trip_ms": statistics.median(_round_trips(ann, bob, phase_s)) * 1000,
            "file_mb_s": _FILE_BYTES / 1e6 / statistics.median(ann.send_s("file.bin") for _ in range(_TRANSFERS)),
        }


def _round_trips(ann: Agent, bob: Agent, seconds: float) -> Iterator[float]:
    """Measure round trips: a message in each direction, received by a waiting call."""
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or number < 20:
        number += 1
        there, back = bob.begin_receive(), ann.begin_receive()
        start = time.perf_counter()
        pending = ann.begin("vdo_send", data={"number": number}, target="bob")
        bob.check_data(there, number)
        answered = bob.begin("vdo_send", data={"number": number}, target="ann")
        ann.check_data(back, number)
        yield time.perf_counter() - start
        ann.finish(pending)
        bob.finish(answered)


def _to_vdo_bridge(host: str) -> Values:
    with ServerProcess(_serve_command("ann"), beside_generator=True) as server:
        ann = Agent(server, host, "ann", None)
        ann.connect_s()
        return send_to_vdo_bridge(
            host, "bench", _FOLDER, peer="ann", send_s=lambda: ann.send_s("file.bin"), size=_FILE_BYTES
        )


def _growth_mb(host: str) -> float:
    """Return the memory growth of both ends during a transfer of 1 GB, after a first file."""
    with _agents(host) as (ann, bob):
        bob.connect_s()
        ann.until_knows(bob)
        ann.send_s("file.bin")
        before = [agent.server.resident_mb() for agent in (ann, bob)]
        for agent in (ann, bob):
            agent.server.reset_peak()
        ann.send_s("large.bin")
        return max(agent.server.peak_mb() - before_mb for agent, before_mb in zip((ann, bob), before, strict=True))


def _measure_star_s(host: str) -> float:
    """Return the time until 50 sessions of one process are in a room and a broadcast has reached all others."""
    with ServerProcess(_serve_command("star")) as server:
        caller = ToolCaller(server)
        start = time.perf_counter()
        middle = caller.call("vdo_connect", host=host, room="star", stream_id="the_middle")["session_id"]
        pending = [
            caller.begin("vdo_connect", host=host, room="star", stream_id=f"s{n:02}", target_stream_id="the_middle")
            for n in range(_STAR - 1)
        ]
        sessions = [caller.finish(number)["session_id"] for number in pending]
        _until(lambda: caller.call("vdo_status", session_id=middle)["peer_count"] == _STAR - 1, server)
        waiting = [
            caller.begin("vdo_receive", session_id=session, wait_ms=30_000, types=["data_received"])
            for session in sessions
        ]
        caller.call("vdo_send", session_id=middle, data="hear, hear")
        for number in waiting:
            if not caller.finish(number)["events"]:
                raise server.make_error("the broadcast did not reach all sessions")
        return time.perf_counter() - start


def _mesh_s(host: str) -> float:
    """Return the time until all sessions of one process are connected to each other."""
    with ServerProcess(_serve_command("mesh")) as server:
        caller = ToolCaller(server)
        start = time.perf_counter()
        for number in range(_MESH):
            caller.call("vdo_connect", host=host, room="mesh", stream_id=f"m{number:02}")

        def is_complete() -> bool:
            sessions = caller.call("vdo_list_sessions")["sessions"]
            return all(session["peer_count"] == _MESH - 1 for session in sessions)

        _until(is_complete, server)
        return time.perf_counter() - start


def _until(condition: Callable[[], bool], server: ServerProcess) -> None:
    deadline = time.perf_counter() + _ALL_CONNECTED_S
    while not condition():
        if time.perf_counter() > deadline:
            raise server.make_error("they did not all find each other")
        time.sleep(_POLL_S)


class Agent(ToolCaller):
    """A server with the peers pack, and its one session."""

    def __init__(self, server: ServerProcess, host: str, name: str, target: str | None) -> None:
        super().__init__(server)
        self.name = name
        self._arguments = {"host": host, "room": "bench", "stream_id": name, "file_max_bytes": 2 * _LARGE_BYTES}
        if target is not None:
            self._arguments["target_stream_id"] = target
        self._session: str | None = None

    def connect_s(self) -> float:
        """Return the time to join the room; with a target, until the channel to it is open."""
        if self._session is not None:
            self.ask("vdo_disconnect")
        start = time.perf_counter()
        said = self.call("vdo_connect", **self._arguments)
        elapsed_s = time.perf_counter() - start
        if "target_stream_id" in self._arguments and not said["peer_count"]:
            raise self.server.make_error("the peer was not found")
        self._session = said["session_id"]
        return elapsed_s

    def begin(self, tool: str, **arguments: Any) -> int:
        return super().begin(tool, session_id=self._session, **arguments)

    def ask(self, tool: str, **arguments: Any) -> Any:
        return self.finish(self.begin(tool, **arguments))

    def begin_receive(self) -> int:
        return self.begin("vdo_receive", wait_ms=30_000, types=["data_received"])

    def check_data(self, pending: int, number: int) -> None:
        events = self.finish(pending)["events"]
        if [event["data"] for event in events] != [{"number": number}]:
            raise self.server.make_error(f"expected message {number}, received {events}")

    def until_knows(self, other: Agent) -> None:
        deadline = time.perf_counter() + 30
        while True:
            peers = self.ask("vdo_sync_peers")["peers"]
            if any(peer["stream_id"] == other.name and peer["shared_key_ready"] for peer in peers):
                return
            if time.perf_counter() > deadline:
                raise self.server.make_error(f"{other.name} was not found")
            time.sleep(0.01)

    def send_s(self, name: str) -> float:
        """Return the time to send a file to the other peers."""
        start = time.perf_counter()
        transfer = self.ask("vdo_file_send_path", file_path=str(_FOLDER / name))["transfer"]
        elapsed_s = time.perf_counter() - start
        if transfer["status"] != "completed":
            raise self.server.make_error(f"the file did not arrive: {transfer}")
        return elapsed_s


def _serve_command(name: str) -> list[str]:
    config = _FOLDER / f"{name}.toml"
    config.write_text(f'[packs.peers]\nfiles = ["{_FOLDER}"]\nmax_sessions = {_STAR}\n')
    return [_HUBBUB, "serve", "--pack", "peers", "--transport", "stdio", "--config", str(config)]


@contextmanager
def _agents(host: str) -> Iterator[tuple[Agent, Agent]]:
    """Start two agents: ann, who is in the room, and bob, who has not joined yet."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(ServerProcess(_serve_command(name), beside_generator=name == "ann"))
            for name in ("ann", "bob")
        ]
        ann, bob = Agent(servers[0], host, "ann", None), Agent(servers[1], host, "bob", "ann")
        ann.connect_s()
        yield ann, bob


@contextmanager
def _signalling() -> Iterator[str]:
    with ServerProcess([_HUBBUB, "signal", "--port", "0"], beside_generator=True) as server:
        deadline = time.perf_counter() + 30
        while "ws://" not in (said := server.read_stderr()):
            if server.has_ended() or time.perf_counter() > deadline:
                raise server.make_error("it does not listen")
            time.sleep(0.01)
        yield "ws://" + said.split("ws://")[1].split()[0]
        server.terminate()


# -- floors --------------------------------------------------------------------


def _floor(name: str, transfers: int) -> Values:
    """Measure transfers between two programs with a bare channel."""
    command = [".venv/bin/python", "-m", f"bench.floors.{name}"]
    size = str(_FILE_BYTES)
    with (
        ServerProcess([*command, "offer", size], beside_generator=True) as sender,
        ServerProcess([*command, "answer", size]) as receiver,
    ):
        sender_lines, receiver_lines = LineProcess(sender), LineProcess(receiver)
        receiver_lines.write_line(sender_lines.read_line())
        sender_lines.write_line(receiver_lines.read_line())
        connect_s = json.loads(sender_lines.read_line())["connect_s"]
        seconds = []
        for _ in range(transfers):
            sender_lines.write_line(b'{"again": true}\n')
            seconds.append(json.loads(sender_lines.read_line())["seconds"])
        for end in (sender_lines, receiver_lines):
            end.write_line(b'{"again": false}\n')
        return {"connect_s": connect_s, "file_mb_s": _FILE_BYTES / 1e6 / statistics.median(seconds)}


SUITE = Suite(
    name="peers",
    ours="peers",
    peer="raw",
    targets={
        "peers": "two servers with the peers pack, called over MCP",
        "raw": "two programs with a bare wrtc channel between them",
        "stop-and-wait": "two programs with aiortc, of which one sends a chunk when the last was confirmed",
        "originals": "two programs that send and take files as the original does, with the same library as Hubbub",
    },
    measures=[
        Measure("file_mb_s", "a file of 20 MB", "MB/s", Goal(Bound.MULTIPLE, 0.6)),
        Measure("file_mb_s", "the same, beside stop-and-wait", "MB/s", Goal(Bound.MULTIPLE, 3.0), "stop-and-wait"),
        Measure(
            "original_mb_s", "ten files of 20 MB to an original, p50", "MB/s", Goal(Bound.MULTIPLE, 1.0), "originals"
        ),
        Measure("original_spread", "the slowest of them beside the fastest", "x", Goal(Bound.VALUE, 2.0), "originals"),
        Measure("trip_ms", "a message there and back, through both servers, p50", "ms", Goal(Bound.VALUE, 2.0)),
        Measure("connect_s", "from vdo_connect to an open channel, the longest of 5", "s", Goal(Bound.VALUE, 0.5)),
        Measure("growth_mb", "growth of the larger end while 1 GB passes", "MB", Goal(Bound.VALUE, 32.0)),
        Measure("star_s", "50 sessions of one process enter a room and hear one of them", "s", Goal(Bound.VALUE, 10.0)),
        Measure("mesh_s", "20 sessions of one process connect, each to each: 190 times", "s"),
    ],
    measure=_measure,
)
