"""Tamper-evident records: each contains the hash of the previous one.

    entry = link({"seq": 1, "type": "session.started"}, GENESIS)
    chain = Chain(); chain.holds(entry)

The hash of an entry is the SHA-256 of its canonical JSON (RFC 8785) without `hash`, so that a
chain can be verified from its entries alone. The caller stores the entries, in one transaction
with the changes that they describe. This does not detect an attacker who can rewrite all
following entries too: against that, store the last hash out of their reach.

A file of JSON lines is a chain too, with a cheaper hash, because the bytes of a line are stored as they were hashed:
`link_line` makes the lines, `check_line` verifies one. The hash of a line is the SHA-256 of the line without its last
member, `hash`, and without the line break.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from hubbub.protocol.canonical_json import canonical_digest

GENESIS: Final = "0" * 64
"""The previous hash of the first entry."""
_HASH_START: Final = b',"hash":"'
_HASH_END: Final = b'"}\n'
_HASH_CHARACTERS: Final = len(GENESIS)
_TAIL_BYTES: Final = len(_HASH_START) + _HASH_CHARACTERS + len(_HASH_END)


def link(record: Mapping[str, Any], previous_hash: str) -> dict[str, Any]:
    """Return the record as a chain entry that follows the entry with `previous_hash`.

    Raises: InvalidParams, if a value has no canonical JSON form.
    """
    entry = {**record, "previous_hash": previous_hash}
    return {**entry, "hash": canonical_digest(entry)}


class Chain:
    """Verifies a chain, entry by entry."""

    def __init__(self, head: str = GENESIS) -> None:
        self.head = head
        """The hash of the last valid entry."""

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Whether this entry is unchanged and follows the previous one."""
        record = {key: value for key, value in entry.items() if key != "hash"}
        if entry.get("previous_hash") != self.head or entry.get("hash") != canonical_digest(record):
            return False
        self.head = entry["hash"]
        return True


def link_line(members: bytes, previous_hash: str, prefix: bytes = b"") -> tuple[bytes, str]:
    """Return the line of a record and its hash.

    `members`: those of a JSON object, without its braces; `prefix`: members before them, each followed by a comma.
    """
    start = b"".join((b"{", prefix, members, b',"previous_hash":"', previous_hash.encode(), b'"'))
    digest = sha256(start + b"}").hexdigest()
    return b"".join((start, b',"hash":"', digest.encode(), b'"}\n')), digest


def check_line(line: bytes) -> str | None:
    """Return the hash of a line, or None if the line is incomplete or was changed; the order is not checked."""
    start, tail = line[:-_TAIL_BYTES], line[-_TAIL_BYTES:]
    if not (start and tail.startswith(_HASH_START) and tail.endswith(_HASH_END)):
        return None
    digest = sha256(start + b"}").hexdigest()
    return digest if tail[len(_HASH_START) : -len(_HASH_END)] == digest.encode() else None
