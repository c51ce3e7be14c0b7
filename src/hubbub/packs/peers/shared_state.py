"""Shared state: a last-writer-wins map on which all peers converge. Pure.

Entries are ordered by (clock, actor, value); every peer keeps the greater of two, so peers converge in whatever order
entries arrive, repeatedly or by detours. The clock is a Lamport clock: a write is later than everything its writer has
seen. `digest` shows whether two peers differ without sending all entries. `set` is called for local writes, `apply` for
those of peers.

No peer can exhaust the clock for others: a clock too far ahead of Unix time in milliseconds is not accepted until time
has come that far. So peers converge in the end, and counting on is always possible. No peer can fill the table for
others: one source (a peer that sends, or the local caller) holds at most `max_keys` and `max_bytes`, and a reserve of a
seventh more is left for the others.

A deleted key is remembered as an entry with the value null that is marked `deleted`, so that a peer that was away does
not bring it back. Peers that do not know the mark see null.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from hubbub import ArgumentsInvalid
from hubbub.pack import Shares
from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import StateFull
from hubbub.packs.peers.js_json import JsonError, stringify

_DIGEST_CHARACTERS: Final = 32
_MODULUS: Final = 2**256
_FREE_KEYS: Final = "delete some with vdo_state_delete, or connect with a larger state_max_keys"
_FREE_BYTES: Final = "delete keys with vdo_state_delete, or write smaller values"


class Entry(msgspec.Struct, frozen=True):
    """The value of one key, with its writer and clock."""

    key: str
    value: Any
    actor: str
    clock: int
    updated_at: str
    deleted: bool = False

    def is_later(self, other: Entry) -> bool:
        """Return whether this entry wins over another of the same key.

        The value is compared too, for actors that lost their state and used a clock value twice.
        """
        if self.clock != other.clock:
            return self.clock > other.clock
        if self.actor != other.actor:
            return _code_units(self.actor) > _code_units(other.actor)
        own, others = _code_units(stringify(self.value)), _code_units(stringify(other.value))
        # Peers that do not know deletions forward them as null.
        return own > others if own != others else self.deleted and not other.deleted


def _code_units(text: str) -> bytes:
    """Encode a text so that bytes compare in the order in which JavaScript compares strings."""
    return text.encode("utf-16-be", "surrogatepass")


class _EntryUsage(NamedTuple):
    """The source whose share of keys and bytes an entry counts against."""

    creator: str
    writer: str
    size: int


class SharedState:
    """The state as one peer sees it."""

    def __init__(
        self,
        actor: str,
        *,
        max_keys: int | None = None,
        max_bytes: int | None = None,
        now: Callable[[], str] = lambda: "",
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self._actor = actor
        self._max_keys = limits.STATE_KEYS if max_keys is None else max_keys
        self._max_bytes = limits.STATE_BYTES if max_bytes is None else max_bytes
        self._now = now
        self._unix_time = unix_time
        self._entries: dict[str, Entry] = {}
        self._deleted: dict[str, Entry] = {}
        """Oldest deletion first."""
        self._usage: dict[str, _EntryUsage] = {}
        self._key_shares = _make_shares(self._max_keys)
        self._byte_shares = _make_shares(self._max_bytes)
        self._clock = 0
        self._hash_sum = 0
        """Sum of the hashes of all entries, so that the digest is cheap to read and to update."""
        self.ignored = 0
        """Number of entries from peers that were ignored: no room for them, or malformed."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key."""
        return self._entries.get(key)

    @property
    def entries(self) -> list[Entry]:
        """All entries, by key."""
        return sorted(self._entries.values(), key=lambda entry: entry.key)

    @property
    def entries_and_deletions(self) -> list[Entry]:
        """All entries and deletions that a peer needs to reach the same state, by key."""
        return sorted((*self._entries.values(), *self._deleted.values()), key=lambda entry: entry.key)

    @property
    def actor_clock(self) -> dict[str, int]:
        """The latest clock of each actor that wrote one of the entries."""
        clocks: dict[str, int] = {}
        for entry in self._entries.values():
            clocks[entry.actor] = max(clocks.get(entry.actor, 0), entry.clock)
        return clocks

    def set(self, key: str, value: Any) -> Entry:
        """Write locally; return the entry to send to peers.

        Raises:
            StateFull: there is no room for one more key, or for a value of this size.
            ArgumentsInvalid: the key is empty or too long, or the value is too large.
            JsonError: the value cannot be represented in JSON.
        """
        if not key.strip() or len(key) > limits.STATE_KEY_CHARACTERS:
            raise ArgumentsInvalid(f"invalid key: it must have 1 to {limits.STATE_KEY_CHARACTERS} characters")
        size = _entry_size(key, value)
        if size > limits.STATE_ENTRY_BYTES:
            raise ArgumentsInvalid(
                f"invalid value: key and value have {size} bytes as JSON, the maximum is {limits.STATE_ENTRY_BYTES}"
            )
        if not self._has_room_for_key(key, self._actor):
            raise StateFull(f"the shared state is full: it has {len(self._entries)} keys; {_FREE_KEYS}")
        if not self._has_room_for_bytes(key, size, self._actor):
            raise StateFull(f"the shared state is full: it has {self._byte_shares.total} bytes; {_FREE_BYTES}")
        entry = Entry(key, value, self._actor, self._clock + 1, self._now())
        self._store_entry(entry, size, self._actor)
        return entry

    def delete(self, key: str) -> Entry | None:
        """Delete locally; return the entry to send to peers, or None if there is no such key."""
        if key not in self._entries:
            return None
        entry = Entry(key, None, self._actor, self._clock + 1, self._now(), deleted=True)
        self._store_deletion(entry)
        return entry

    def apply(self, fields: Mapping[str, Any] | Entry, source: str = "") -> Entry | None:
        """Merge an entry that `source` sent; return it if it changed something, else None."""
        entry = fields if isinstance(fields, Entry) else self._read_entry(fields)
        if entry is None:
            self.ignored += 1
            return None
        # An entry that loses counts as seen, too: our next write must be later.
        self._clock = max(self._clock, entry.clock)
        current = self._entries.get(entry.key)
        known = current or self._deleted.get(entry.key)
        if known is not None and not entry.is_later(known):
            return None
        if entry.deleted:
            self._store_deletion(entry)
            return None if current is None else entry
        size = _entry_size(entry.key, entry.value)
        if not self._has_room_for_key(entry.key, source) or not self._has_room_for_bytes(entry.key, size, source):
            self.ignored += 1
            return None
        self._store_entry(entry, size, source)
        return entry

    def merge(
        self, offered: Iterable[Any], actor_clock: Mapping[str, Any] | None = None, source: str = ""
    ) -> list[Entry]:
        """Merge a snapshot that `source` sent; return the entries that changed something."""
        changed = [self.apply(fields, source) if isinstance(fields, dict | Entry) else None for fields in offered]
        for clock in (actor_clock or {}).values():
            if self._is_valid_clock(clock):
                self._clock = max(self._clock, clock)
        return [entry for entry in changed if entry is not None]

    @property
    def digest(self) -> str:
        """A digest that is equal for two peers if and only if they have the same entries."""
        return f"{self._hash_sum:064x}"[:_DIGEST_CHARACTERS]

    def _has_room_for_key(self, key: str, source: str) -> bool:
        if key in self._entries:
            return True
        return self._key_shares.held_by(source) < self._max_keys and self._key_shares.has_room(source)

    def _has_room_for_bytes(self, key: str, size: int, source: str) -> bool:
        before = self._usage.get(key)
        if before is None:
            return self._byte_shares.held_by(source) + size <= self._max_bytes and self._byte_shares.has_room(
                source, size
            )
        if size <= before.size:
            return True
        self._byte_shares.give_back(before.writer, before.size)
        has_room = self._byte_shares.held_by(source) + size <= self._max_bytes and self._byte_shares.has_room(
            source, size
        )
        self._byte_shares.take(before.writer, before.size)
        return has_room

    def _store_entry(self, entry: Entry, size: int, source: str) -> None:
        before = self._usage.get(entry.key)
        creator = source if before is None else before.creator
        self._remove(entry.key)
        self._deleted.pop(entry.key, None)
        self._key_shares.take(creator)
        self._byte_shares.take(source, size)
        self._usage[entry.key] = _EntryUsage(creator, source, size)
        self._entries[entry.key] = entry
        self._clock = max(self._clock, entry.clock)
        self._hash_sum = (self._hash_sum + _hash_entry(entry)) % _MODULUS

    def _store_deletion(self, entry: Entry) -> None:
        self._remove(entry.key)
        self._deleted.pop(entry.key, None)
        self._deleted[entry.key] = entry
        self._clock = max(self._clock, entry.clock)
        if len(self._deleted) > limits.STATE_DELETED_KEYS:
            del self._deleted[next(iter(self._deleted))]

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        creator, writer, size = self._usage.pop(key)
        self._key_shares.give_back(creator)
        self._byte_shares.give_back(writer, size)
        self._hash_sum = (self._hash_sum - _hash_entry(entry)) % _MODULUS

    def _read_entry(self, fields: Mapping[str, Any]) -> Entry | None:
        key, actor, clock = fields.get("key"), fields.get("actor"), fields.get("clock")
        if not isinstance(key, str) or not key.strip() or len(key) > limits.STATE_KEY_CHARACTERS:
            return None
        if not self._is_valid_clock(clock):
            return None
        is_deleted = fields.get("deleted") is True
        value = None if is_deleted else fields.get("value")
        try:
            size = _entry_size(key, value)
        except JsonError:
            return None
        if size > limits.STATE_ENTRY_BYTES:
            return None
        # The VDO.Ninja bridge attributes an entry without an actor to the receiver, which makes two entries of it.
        name = actor if isinstance(actor, str) and len(actor) <= limits.SIGNAL_NAME_CHARACTERS else ""
        timestamp = fields.get("updated_at")
        is_time = isinstance(timestamp, str) and len(timestamp) <= limits.STATE_TIME_CHARACTERS
        return Entry(key, value, name, int(clock or 0), str(timestamp) if is_time else "", is_deleted)

    def _is_valid_clock(self, clock: object) -> bool:
        if not isinstance(clock, int) or isinstance(clock, bool) or clock <= 0:
            return False
        latest = int(self._unix_time() * 1000) + limits.STATE_CLOCK_AHEAD_MS
        return clock <= min(latest, limits.STATE_CLOCK_MAX)


def _make_shares(max_per_source: int) -> Shares:
    """Usage by source: one source may use `max_per_source`; the reserve above that is left for the others."""
    return Shares.sized_for_one(max_per_source)


def _hash_entry(entry: Entry) -> int:
    text = stringify([entry.key, entry.clock, entry.actor, entry.value])
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def _entry_size(key: str, value: Any) -> int:
    """Return the size of an entry in bytes.

    Raises: JsonError, if JSON cannot represent it.
    """
    return len(stringify(key).encode()) + len(stringify(value).encode())
