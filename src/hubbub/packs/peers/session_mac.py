"""Signed messages between two peers, with replay protection. Pure.

The MAC is the VDO.Ninja bridge's: HMAC-SHA-256 over JSON, keyed with the X25519 secret. Two Hubbubs also count: the
nonce of a signed envelope is a counter, and binary frames carry one, so that nothing can be replayed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from typing import Final

from hubbub.packs.peers import limits

_COUNTER_NONCE: Final = re.compile(r"h_([0-9a-f]{16})", re.ASCII)
_COUNTER_BYTES: Final = 8
_TAG_BYTES: Final = 16
BULK_OVERHEAD_BYTES: Final = _COUNTER_BYTES + _TAG_BYTES
"""Bytes that signing adds to a binary frame."""


def sign(key: bytes, text: str) -> str:
    """Return the MAC of a text."""
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def is_valid_mac(key: bytes, text: str, mac: str) -> bool:
    """Return whether a MAC is valid for a text."""
    return hmac.compare_digest(sign(key, text).encode(), mac.encode("utf-8", "surrogatepass"))


def random_nonce() -> str:
    """Return a nonce for a peer that does not count."""
    return f"p_{secrets.token_hex(4)}"


class MessageCounter:
    """The message counter for one key."""

    def __init__(self, now_ms: int) -> None:
        # Starts from the clock, so that a forgotten counter does not start again below its old value.
        self._last = now_ms << 16

    def next(self) -> int:
        """Return the next number."""
        self._last += 1
        return self._last

    def nonce(self) -> str:
        """Return the next number as a nonce."""
        return f"h_{self.next():016x}"


class ReplayWindow:
    """A replay window: remembers which numbers arrived, in any order within its width."""

    def __init__(self, width: int | None = None) -> None:
        self._width = limits.PEER_REPLAY_WINDOW if width is None else width
        self._highest = 0
        self._seen = 0
        """Bit n is set if the number `_highest - n` arrived."""

    def accept(self, number: int) -> bool:
        """Record a number; return whether it is new: not seen before, and not older than the window."""
        ahead = number - self._highest
        if ahead > 0:
            self._seen = ((self._seen << ahead) | 1) & ((1 << self._width) - 1) if ahead < self._width else 1
            self._highest = number
            return True
        if -ahead >= self._width or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True

    def accept_nonce(self, nonce: str) -> bool:
        """Record a counter nonce; return whether it is valid and new."""
        nonce_match = _COUNTER_NONCE.fullmatch(nonce)
        return nonce_match is not None and self.accept(int(nonce_match[1], 16))


class KeyCounters:
    """Counters of sent and received messages under one key; outlives the connections that use it."""

    def __init__(self, now_ms: int) -> None:
        self.outgoing = MessageCounter(now_ms)
        self.envelopes = ReplayWindow()
        self.frames = ReplayWindow()


class KeyCounterCache:
    """The counters of the most recently used keys."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limits.PEER_KEYS if limit is None else limit
        self._counters: OrderedDict[bytes, KeyCounters] = OrderedDict()

    def get(self, key: bytes, now_ms: int) -> KeyCounters:
        """Return the counters of a key, new ones if it is unknown."""
        counters = self._counters.pop(key, None) or KeyCounters(now_ms)
        self._counters[key] = counters
        if len(self._counters) > self._limit:
            self._counters.popitem(last=False)
        return counters


# -- binary frames ---------------------------------------------------------------


def bulk_key(key: bytes, sender_stream_id: str) -> bytes:
    """Return the key for frames of one sender: one key for each direction, so that frames cannot be reflected."""
    return hmac.digest(key, b"hubbub-bulk-v1\0" + sender_stream_id.encode("utf-8", "surrogatepass"), hashlib.sha256)


def sign_frame(key: bytes, number: int, data: bytes) -> bytes:
    """Return a frame with its MAC and number in front."""
    head = number.to_bytes(_COUNTER_BYTES, "big")
    return hmac.digest(key, head + data, hashlib.sha256)[:_TAG_BYTES] + head + data


def verify_frame(key: bytes, frame: bytes) -> tuple[int, bytes] | None:
    """Return the number and the data of a frame; None if it was not signed with this key."""
    if len(frame) < BULK_OVERHEAD_BYTES:
        return None
    tag, rest = frame[:_TAG_BYTES], frame[_TAG_BYTES:]
    if not hmac.compare_digest(hmac.digest(key, rest, hashlib.sha256)[:_TAG_BYTES], tag):
        return None
    return int.from_bytes(rest[:_COUNTER_BYTES], "big"), rest[_COUNTER_BYTES:]
