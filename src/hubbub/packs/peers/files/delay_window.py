"""Congestion window for receivers that acknowledge each chunk: as few bytes in flight as keep them busy. Pure.

A large window is slower here, not faster: what the receiver has not read yet fills its UDP
socket buffer (212,992 bytes on Linux), the kernel drops what comes above that, and SCTP
waits 400 ms whenever it cannot tell the loss from later packets. Measured with 20 MB
between two processes on a busy machine: 1 MiB in flight lost 150 to 1,000 of 40,000
packets and stalled in every third transfer; 128 KiB lost up to 20 and never stalled. But
128 KiB are too few for a path of 50 ms. So the window follows the delay, as TCP Vegas
does: it grows while chunks are confirmed as fast as the first ones were, and shrinks when
more than one chunk waits somewhere on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hubbub.packs.peers import limits


class DelayWindow:
    """The window of one transfer over one channel."""

    def __init__(self, chunk_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._chunk_bytes = chunk_bytes
        self._min_bytes = max(2 * chunk_bytes, limits.FILE_ENVELOPE_WINDOW_MIN_BYTES)
        self._clock = clock
        self._sent_at: dict[int, float] = {}
        self._min_delay_s = float("inf")
        self._bytes = float(self._min_bytes)

    @property
    def bytes(self) -> int:
        """How many bytes may be in flight now."""
        return int(self._bytes)

    def record_sent(self, seq: int) -> None:
        """Remember when a chunk was sent."""
        self._sent_at[seq] = self._clock()

    def record_ack(self, seq: int) -> None:
        """Adapt the window to the delay of a chunk; a chunk that is not in flight changes nothing."""
        sent_at = self._sent_at.pop(seq, None)
        if sent_at is None:
            return
        delay_s = max(self._clock() - sent_at, 1e-6)
        self._min_delay_s = min(self._min_delay_s, delay_s)
        queued = self._bytes * (1 - self._min_delay_s / delay_s)
        # Adds up to one chunk for each acknowledged window.
        step = self._chunk_bytes * self._chunk_bytes / self._bytes
        if queued < self._chunk_bytes / 2:
            self._bytes = min(self._bytes + step, max(limits.FILE_ENVELOPE_WINDOW_BYTES, self._min_bytes))
        elif queued > self._chunk_bytes:
            self._bytes = max(self._bytes - step, self._min_bytes)
