"""Records that cannot be changed afterwards without a trace: each holds the hash of the one before.

    entry = link({"seq": 1, "type": "session.started"}, GENESIS)
    chain = Chain(); chain.holds(entry)

The hash of an entry is the SHA-256 of its canonical JSON (RFC 8785) without `hash`, so that
anybody can check a chain with what they were told. Where entries are kept is the business of
whoever writes them, in one transaction with what they tell of. Not proof against somebody who
can rewrite all that follows: they have to keep the last hash away from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hubbub.protocol.canonical import digest

GENESIS: Final = "0" * 64
"""What stands before the first entry."""


def link(record: Mapping[str, Any], previous_hash: str) -> dict[str, Any]:
    """The record as an entry that follows another.

    Raises: InvalidParams, if a value has no canonical JSON form.
    """
    entry = {**record, "previous_hash": previous_hash}
    return {**entry, "hash": digest(entry)}


class Chain:
    """Goes along a chain and notices what does not fit."""

    def __init__(self, head: str = GENESIS) -> None:
        self.head = head
        """The hash of the last entry that fitted."""

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Whether this entry is as it was written, right after the one before."""
        record = {key: value for key, value in entry.items() if key != "hash"}
        if entry.get("previous_hash") != self.head or entry.get("hash") != digest(record):
            return False
        self.head = entry["hash"]
        return True
