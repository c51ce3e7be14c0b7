"""Chunks as bytes, between two ends of Hubbub: which transfer, which chunk, and what is in it. Pure.

One frame carries one or more chunks that follow each other. The room signs it and counts
it, so that there is nothing to check here but its form.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

_HEAD: Final = struct.Struct(">BHQ")
"""What it is, how long the transfer's id is, and the first chunk."""
_CHUNKS: Final = 1


class ChunkFrame(msgspec.Struct, frozen=True):
    """Chunks that came."""

    transfer_id: str
    seq: int
    data: memoryview


def head_bytes(transfer_id: str) -> int:
    """What a frame needs besides the data."""
    return _HEAD.size + len(transfer_id.encode())


def write_frame(transfer_id: str, seq: int, data: bytes | memoryview) -> bytes:
    """The frame that carries these chunks."""
    name = transfer_id.encode()
    return b"".join((_HEAD.pack(_CHUNKS, len(name), seq), name, data))


def read_frame(frame: bytes) -> ChunkFrame | None:
    """What a frame carries; None if it is not one of ours."""
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
