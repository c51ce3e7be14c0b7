"""Transfers from Hubbub to a stop-and-wait peer, compared with transfers between two such peers.

The original vdo-bridge sends one chunk at a time and confirms each. The program that emulates it
(`tests.packs.peers.files.stop_and_wait`) was written after its documented behaviour, runs on the same
WebRTC library as Hubbub, and is about as fast: the original sent 20 MB at 14 to 17 MB/s.
The variation of the rate matters as much as the rate, so there are ten transfers each.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.line_process import LineProcess
from bench.process import ServerProcess
from bench.suite import Values

TRANSFERS = 10
_PROGRAM = [".venv/bin/python", "-m", "tests.packs.peers.files.stop_and_wait"]


def send_to_vdo_bridge(
    host: str, room: str, folder: Path, *, peer: str, send_s: Callable[[], float], size: int
) -> Values:
    """Return the rate of files that a peer sends to an emulated original in the room."""
    with _receiver(host, room, folder, peer) as receiver:
        receiver.read_line()
        return _rates([send_s() for _ in range(TRANSFERS)], size)


def send_between_vdo_bridges(host: str, room: str, file: Path) -> Values:
    """Return the rate of files from one emulated original to another."""
    command = [*_PROGRAM, "send", host, room, str(file), str(TRANSFERS)]
    with _receiver(host, room, file.parent), ServerProcess(command, beside_generator=True) as sender:
        talk = LineProcess(sender)
        seconds = [json.loads(talk.read_line())["seconds"] for _ in range(TRANSFERS)]
        return _rates(seconds, file.stat().st_size)


@contextmanager
def _receiver(host: str, room: str, folder: Path, *peer: str) -> Iterator[LineProcess]:
    """Run an emulated original in the room; with a peer, its next line reports that it knows the peer."""
    with ServerProcess([*_PROGRAM, "take", host, room, str(folder), *peer]) as server:
        talk = LineProcess(server)
        talk.read_line()
        yield talk


def _rates(seconds: list[float], size: int) -> Values:
    return {
        "original_mb_s": size / 1e6 / statistics.median(seconds),
        "original_spread": max(seconds) / min(seconds),
    }
