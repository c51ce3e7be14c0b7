"""Binary frames that carry chunks between two Hubbubs: transfer id, first chunk number, data. Pure.

One frame carries one or more consecutive chunks. The room signs and counts it, so only its format is checked here.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

_HEAD: Final = struct.Struct(">BHQ")
"""Kind of the frame, length of the transfer id, number of the first chunk."""
_CHUNKS: Final = 1


class ChunkFrame(msgspec.Struct, frozen=True):
    """Received chunks."""

    transfer_id: str
    seq: int
    data: memoryview


def head_bytes(transfer_id: str) -> int:
    """Return how many bytes a frame needs besides the data."""
    return _HEAD.size + len(transfer_id.encode())


def write_frame(transfer_id: str, seq: int, data: bytes | memoryview) -> bytes:
    """Return the frame that carries these chunks."""
    name = transfer_id.encode()
    return b"".join((_HEAD.pack(_CHUNKS, len(name), seq), name, data))


def read_frame(frame: bytes) -> ChunkFrame | None:
    """Parse a frame; return None if it is malformed."""
    if len(frame) < _HEAD.size:
        return None
    kind, length, seq = _HEAD.unpack_from(frame)
    start = _HEAD.size + length
    if kind != _CHUNKS or not length or len(frame) <= start:
        return None
    try:
        transfer_id = frame[_HEAD.size : start].decode()
    except UnicodeDecodeError:
        return None
    return ChunkFrame(transfer_id, seq, memoryview(frame)[start:])
