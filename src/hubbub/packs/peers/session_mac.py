"""Signed messages between two peers, and each of them only once.

The MAC is the original's: HMAC-SHA-256 over JSON, keyed with the X25519 secret. Two ends
of Hubbub also count: the nonce of what they sign is a counter, and the bytes they
exchange carry one, so that nothing can be played back. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from typing import Final

from hubbub import bounds

_COUNTED: Final = re.compile(r"h_([0-9a-f]{16})", re.ASCII)
_COUNTER_BYTES: Final = 8
_TAG_BYTES: Final = 16
BULK_OVERHEAD: Final = _COUNTER_BYTES + _TAG_BYTES
"""What signing adds to a frame of bytes."""


class Replayed(ValueError):
    """It was here already, or is older than we remember."""


def sign(key: bytes, text: str) -> str:
    """The MAC of a text."""
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def is_signed(key: bytes, text: str, mac: str) -> bool:
    """Whether this is the MAC of that text."""
    return hmac.compare_digest(sign(key, text).encode(), mac.encode("utf-8", "surrogatepass"))


def plain_nonce() -> str:
    """A nonce for an end that does not count."""
    return f"p_{secrets.token_hex(4)}"


class Outgoing:
    """Counts what is signed with one key."""

    def __init__(self, now_ms: int) -> None:
        # From the clock, so that a counter that was forgotten does not start again below where it was.
        self._last = now_ms << 16

    def next(self) -> int:
        """The next number."""
        self._last += 1
        return self._last

    def nonce(self) -> str:
        """The next number as a nonce."""
        return f"h_{self.next():016x}"


class Window:
    """Remembers which numbers came, in whatever order within its width."""

    def __init__(self, width: int = bounds.PEER_REPLAY_WINDOW) -> None:
        self._width = width
        self._highest = 0
        self._seen = 0
        """Bit n: the number `_highest - n` was here."""

    def take(self, number: int) -> None:
        """Note a number.

        Raises: Replayed.
        """
        ahead = number - self._highest
        if ahead > 0:
            self._seen = ((self._seen << ahead) | 1) & ((1 << self._width) - 1) if ahead < self._width else 1
            self._highest = number
            return
        if -ahead >= self._width or self._seen >> -ahead & 1:
            raise Replayed("a message was played back")
        self._seen |= 1 << -ahead

    def take_nonce(self, nonce: str) -> None:
        """Note a counted nonce.

        Raises: Replayed, also if it does not count.
        """
        counted = _COUNTED.fullmatch(nonce)
        if counted is None:
            raise Replayed("a message does not count")
        self.take(int(counted[1], 16))


class KeyUse:
    """What was sent and received under one key; outlives the connections that use it."""

    def __init__(self, now_ms: int) -> None:
        self.outgoing = Outgoing(now_ms)
        self.envelopes = Window()
        self.frames = Window()


class KeyUses:
    """Of the keys that were used last."""

    def __init__(self, limit: int = bounds.PEER_KEYS) -> None:
        self._limit = limit
        self._uses: OrderedDict[bytes, KeyUse] = OrderedDict()

    def of(self, key: bytes, now_ms: int) -> KeyUse:
        """Of this key."""
        use = self._uses.pop(key, None) or KeyUse(now_ms)
        self._uses[key] = use
        if len(self._uses) > self._limit:
            self._uses.popitem(last=False)
        return use


# -- frames of bytes -------------------------------------------------------------


def bulk_key(key: bytes, sender_stream_id: str) -> bytes:
    """What a sender signs its frames with: one key for each direction, so that none can be sent back."""
    return hmac.digest(key, b"hubbub-bulk-v1\0" + sender_stream_id.encode("utf-8", "surrogatepass"), hashlib.sha256)


def seal_frame(key: bytes, number: int, data: bytes) -> bytes:
    """A frame with its number and its MAC in front."""
    head = number.to_bytes(_COUNTER_BYTES, "big")
    return hmac.digest(key, head + data, hashlib.sha256)[:_TAG_BYTES] + head + data


def open_frame(key: bytes, frame: bytes, window: Window) -> bytes:
    """The data of a frame.

    Raises:
        Replayed: it was here already.
        ValueError: it was not signed with this key.
    """
    if len(frame) < BULK_OVERHEAD:
        raise ValueError("a frame is too short")
    tag, rest = frame[:_TAG_BYTES], frame[_TAG_BYTES:]
    if not hmac.compare_digest(hmac.digest(key, rest, hashlib.sha256)[:_TAG_BYTES], tag):
        raise ValueError("a frame is not signed with the key of its sender")
    window.take(int.from_bytes(rest[:_COUNTER_BYTES], "big"))
    return rest[_COUNTER_BYTES:]
