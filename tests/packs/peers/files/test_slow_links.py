"""Transfers that take minutes, on a virtual clock; and the window that follows the delay of a path."""

from __future__ import annotations

import asyncio
import heapq
import os
import selectors
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from tests.packs.peers.files.peer_views import make_envelope, make_peer

from hubbub import ToolFailure
from hubbub.packs.peers import limits
from hubbub.packs.peers.files.delay_window import DelayWindow
from hubbub.packs.peers.files.files import Files
from hubbub.packs.peers.files.options import FileOptions, SendRequest
from hubbub.packs.peers.room import PeerView, Room, SendResult
from hubbub.packs.peers.wire import Envelope

CHUNK = 65_536


class VirtualClockSelector(selectors.DefaultSelector):
    """Advances its clock to the next timer instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


class InlineExecutor(ThreadPoolExecutor):
    """Runs work immediately instead of in a thread: the clock must not jump while a thread works."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def run_on_virtual_clock(work: Coroutine[Any, Any, float]) -> float:
    selector = VirtualClockSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.set_default_executor(InlineExecutor())
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)


class SlowAgent:
    """One agent on a link with a limited rate in bytes per second."""

    def __init__(self, number: int, folder: Path, bytes_per_s: float, delay_s: float, *, is_hubbub: bool) -> None:
        self.view = make_peer(number, is_hubbub=is_hubbub)
        self.other: SlowAgent
        self.room = cast("Room", self)
        self.file_options = FileOptions(folders=(str(folder),), spool_threshold_bytes=2**30)
        self.files = Files(self)
        self.is_cut = False
        self._bytes_per_s, self._delay_s = bytes_per_s, delay_s
        self._free_at = 0.0

    def emit(self, type: str, /, **fields: Any) -> None: ...

    @property
    def peers(self) -> list[PeerView]:
        return [self.other.view]

    def find(self, target: str) -> PeerView:
        return self.other.view

    def bulk(self, uuid: str) -> SlowBulk | None:
        return SlowBulk(self) if self.other.view.is_hubbub else None

    async def drain(self, *_: Any) -> None: ...

    def queued_bytes(self, uuid: str) -> int:
        left_s = self._free_at - asyncio.get_running_loop().time()
        return max(0, int(left_s * self._bytes_per_s))

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> SendResult:
        envelope = make_envelope(kind.removeprefix("file."), dict(payload))
        self.carry(len(payload.get("data_base64", "")) + 500, self.other.files.on_envelope, envelope)
        return SendResult((to or "",))

    def carry(self, size: int, deliver: Any, message: Envelope | bytes) -> None:
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + size / self._bytes_per_s
        if not self.is_cut:
            loop.call_at(self._free_at + self._delay_s, deliver, self.view, message)


class SlowBulk:
    """The bulk channel over the same link."""

    max_frame = 262_000

    def __init__(self, side: SlowAgent) -> None:
        self._side = side

    @property
    def buffered_amount(self) -> int:
        return self._side.queued_bytes("")

    def send(self, data: bytes) -> None:
        self._side.carry(len(data), self._side.other.files.on_bytes, data)

    async def drain(self, *_: Any) -> None: ...


def slow_pair(
    folder: Path, bytes_per_s: float, delay_s: float = 0.0, *, is_hubbub: bool = False
) -> tuple[SlowAgent, SlowAgent]:
    ann, bob = (SlowAgent(number, folder, bytes_per_s, delay_s, is_hubbub=is_hubbub) for number in (0, 1))
    ann.other, bob.other = bob, ann
    return ann, bob


async def measure_transfer(ann: SlowAgent, bob: SlowAgent, size: int, **sending: Any) -> float:
    """Send bytes; return the seconds on the clock of the loop."""
    loop, data = asyncio.get_running_loop(), os.urandom(size)
    start = loop.time()
    transfer = await ann.files.send_data(data, SendRequest(**sending))
    taken_s = loop.time() - start
    assert await bob.files.read(bob.files.get_received(transfer.transfer_id)) == data
    assert transfer.retries_total == 0
    for side in (ann, bob):
        await side.files.close()
    return taken_s


@pytest.mark.parametrize("is_hubbub", [False, True], ids=["vdo_bridge", "hubbub"])
def test_a_transfer_over_a_slow_link_does_not_time_out(is_hubbub: bool, tmp_path: Path) -> None:
    """A chunk takes eight seconds, far more than the usual time until its ack."""
    ann, bob = slow_pair(tmp_path, 10_000, 0.5, is_hubbub=is_hubbub)
    taken_s = run_on_virtual_clock(measure_transfer(ann, bob, 3_000_000))
    assert 290 < taken_s < 450


def test_the_timeout_does_not_end_a_transfer_that_makes_progress(tmp_path: Path) -> None:
    ann, bob = slow_pair(tmp_path, 10_000, 0.1)
    assert run_on_virtual_clock(measure_transfer(ann, bob, 1_000_000, timeout_s=30)) > 100


def test_a_stalled_transfer_ends_after_the_timeout(tmp_path: Path) -> None:
    async def stall() -> float:
        ann, bob = slow_pair(tmp_path, 10_000)
        loop = asyncio.get_running_loop()
        loop.call_later(60, setattr, ann, "is_cut", True)
        with pytest.raises(ToolFailure, match="timed out"):
            await ann.files.send_data(bytes(3_000_000), SendRequest(timeout_s=30, ack_timeout_s=600))
        for side in (ann, bob):
            await side.files.close()
        return loop.time()

    assert 60 < run_on_virtual_clock(stall()) < 150


# -- the window ----------------------------------------------------------------------------------


def windows(service_s: float, delay_s: float, chunks: int) -> Iterator[int]:
    """The window after each chunk, with a receiver that reads one chunk at a time behind a path with a delay."""
    now, free_at, seq = 0.0, 0.0, 0
    window = DelayWindow(CHUNK, clock=lambda: now)
    in_flight: list[tuple[float, int]] = []
    while seq < chunks:
        while (len(in_flight) + 1) * CHUNK <= window.bytes:
            window.record_sent(seq)
            free_at = max(free_at, now + delay_s / 2) + service_s
            heapq.heappush(in_flight, (free_at + delay_s / 2, seq))
            seq += 1
        now, confirmed = heapq.heappop(in_flight)
        window.record_ack(confirmed)
        yield window.bytes


def test_without_delay_the_window_stays_small() -> None:
    assert max(windows(service_s=0.004, delay_s=0.0002, chunks=300)) < 3 * CHUNK


def test_the_window_fills_a_path_with_delay() -> None:
    *_, last = windows(service_s=0.001, delay_s=0.05, chunks=400)
    assert last > limits.FILE_ENVELOPE_WINDOW_BYTES * 0.9


def test_the_window_stops_growing_when_chunks_begin_to_queue() -> None:
    *_, last = windows(service_s=0.01, delay_s=0.05, chunks=400)
    assert 5 * CHUNK < last < 9 * CHUNK


def test_acks_of_chunks_that_are_not_in_flight_change_nothing() -> None:
    now = 0.0
    window = DelayWindow(CHUNK, clock=lambda: now)
    before = window.bytes
    for seq in (0, 7, 2**53):
        window.record_ack(seq)
    assert window.bytes == before == limits.FILE_ENVELOPE_WINDOW_MIN_BYTES
    window.record_sent(0)
    window.record_ack(0)
    once = window.bytes
    window.record_ack(0)
    assert window.bytes == once


@pytest.mark.parametrize("chunk", [1024, CHUNK, 195_840])
def test_two_chunks_always_fit_into_the_window(chunk: int) -> None:
    assert DelayWindow(chunk).bytes >= 2 * chunk
