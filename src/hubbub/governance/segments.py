"""The files of an audit journal: their names, and reading their lines with bounded memory.

A folder has one journal: segments `journal-SEQ.jsonl`, named after their first record, each sealed by its last record
except the newest; `head.json`; `node`, the name of the node; `lock`; and `*.torn`, incomplete lines that a crash left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from hubbub.governance.audit_events import JOURNAL_SEALED
from hubbub.store.hash_chain import check_line

MAX_LINE_BYTES: Final = 256 * 1024
"""A longer line is not a record: the longest that can be written has about half of that."""

LOCK_FILE: Final = "lock"
NODE_FILE: Final = "node"
HEAD_FILE: Final = "head.json"
_SEAL_BYTES: Final = 64 * 1024
"""Where the last record of a sealed segment is found, from its end; a seal is shorter."""
_NAME: Final = re.compile(r"journal-(\d{16})\.jsonl")


class Segment(msgspec.Struct, frozen=True):
    """One file of the journal."""

    path: Path
    first_seq: int


class Link(msgspec.Struct, frozen=True, gc=False):
    """The members of a record that make the chain."""

    seq: int
    previous_hash: str
    hash: str
    event: str
    ts: str = ""


decode_link: Final = msgspec.json.Decoder(Link).decode


def segment_path(folder: Path, first_seq: int) -> Path:
    """Return the path of the segment that begins with this record."""
    return folder / f"journal-{first_seq:016d}.jsonl"


def list_segments(folder: Path) -> list[Segment]:
    """Return the segments in order.

    Raises: OSError, if the folder cannot be read.
    """
    names = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(
        (Segment(folder / match[0], int(match[1])) for match in names if match), key=lambda found: found.first_seq
    )


def read_lines(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Yield the lines from an offset on, with their line breaks; a longer line than allowed in pieces.

    Raises: OSError.
    """
    with path.open("rb") as file:
        file.seek(offset)
        while line := file.readline(MAX_LINE_BYTES):
            yield line


def decode_valid_link(line: bytes) -> Link | None:
    """Return the link of a line, or None if the line is incomplete or was changed; the order is not checked."""
    if check_line(line) is None:
        return None
    try:
        return decode_link(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_seal(path: Path) -> Link | None:
    """Return the last record of a segment if it seals it.

    Raises: OSError.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _SEAL_BYTES))
        lines = file.read(_SEAL_BYTES).splitlines(keepends=True)
    link = decode_valid_link(lines[-1]) if lines else None
    return link if link is not None and link.event == JOURNAL_SEALED else None


def find_last_link(path: Path) -> tuple[Link | None, Link | None, int]:
    """Return the first and the last valid record of a segment, and the offset behind the last.

    Raises: OSError.
    """
    first_line = last_line = b""
    offset = end = 0
    for line in read_lines(path):
        offset += len(line)
        if check_line(line) is not None:
            first_line, last_line, end = first_line or line, line, offset
    return decode_valid_link(first_line), decode_valid_link(last_line), end
