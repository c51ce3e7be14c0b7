"""Tamper-evident records: each contains the hash of the previous one.

    entry = link({"seq": 1, "type": "session.started"}, GENESIS)
    chain = Chain(); chain.holds(entry)

The hash of an entry is the SHA-256 of its canonical JSON (RFC 8785) without `hash`, so that a
chain can be verified from its entries alone. The caller stores the entries, in one transaction
with the changes that they describe. This does not detect an attacker who can rewrite all
following entries too: against that, store the last hash out of their reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hubbub.protocol.canonical_json import canonical_digest

GENESIS: Final = "0" * 64
"""The previous hash of the first entry."""


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
