"""Binary frames that carry chunks between two Hubbubs: transfer id, first chunk number, data. Pure.

One frame carries one or more consecutive chunks. The room signs and counts it, so only its format is checked here.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

_HEADER: Final = struct.Struct(">BHQ")
"""Kind of the frame, length of the transfer id, number of the first chunk."""
_CHUNKS: Final = 1


class ChunkFrame(msgspec.Struct, frozen=True):
    """Received chunks."""

    transfer_id: str
    seq: int
    data: memoryview


def header_size(transfer_id: str) -> int:
    """Return how many bytes a frame needs besides the data."""
    return _HEADER.size + len(transfer_id.encode())


def write_frame(transfer_id: str, seq: int, data: bytes | memoryview) -> bytes:
    """Return the frame that carries these chunks."""
    name = transfer_id.encode()
    return b"".join((_HEADER.pack(_CHUNKS, len(name), seq), name, data))


def read_frame(frame: bytes) -> ChunkFrame | None:
    """Parse a frame; return None if it is malformed."""
    if len(frame) < _HEADER.size:
        return None
    kind, length, seq = _HEADER.unpack_from(frame)
    start = _HEADER.size + length
    if kind != _CHUNKS or not length or len(frame) <= start:
        return None
    try:
        transfer_id = frame[_HEADER.size : start].decode()
    except UnicodeDecodeError:
        return None
    return ChunkFrame(transfer_id, seq, memoryview(frame)[start:])
