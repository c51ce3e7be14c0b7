"""Shared state: the last writer of each key wins, and everybody agrees on who that was.

Entries are ordered by (clock, actor, value); of two, all ends keep the greater, so they
agree in whatever order entries come, twice or by detours. The clock is Lamport's: a
write is later than everything its writer has seen. `digest` tells whether two ends
differ without sending it all. Pure; `set` is called for local writes, `apply` for those
of others.

Nobody can use up the clock for the others: one that is ahead of Unix time in
milliseconds is not taken until time has come that far. So ends agree in the end, and
counting on is always possible.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.packs.peers.failures import StateFull
from hubbub.packs.peers.javascript import Unreadable, stringify

_DIGEST_CHARACTERS: Final = 32
_MODULUS: Final = 2**256
_TIME_CHARACTERS: Final = 40


class Entry(msgspec.Struct, frozen=True):
    """One key's value, by whom and when."""

    key: str
    value: Any
    actor: str
    clock: int
    updated_at: str

    def is_later(self, other: Entry) -> bool:
        """Whether this one wins over another of the same key.

        The value is part of it for actors that lost their memory and used a clock twice.
        """
        if self.clock != other.clock:
            return self.clock > other.clock
        if self.actor != other.actor:
            return _code_units(self.actor) > _code_units(other.actor)
        return _code_units(stringify(self.value)) > _code_units(stringify(other.value))


def _code_units(text: str) -> bytes:
    """In the order in which JavaScript compares texts."""
    return text.encode("utf-16-be", "surrogatepass")


class SharedState:
    """The state as one end sees it."""

    def __init__(
        self,
        actor: str,
        *,
        max_keys: int = bounds.STATE_KEYS,
        max_bytes: int = bounds.STATE_BYTES,
        now: Callable[[], str] = lambda: "",
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self._actor = actor
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._now = now
        self._unix_time = unix_time
        self._entries: dict[str, Entry] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._clock = 0
        self._sum = 0
        """Of the hashes of all entries, so that it costs nothing to tell what we have, and little to keep it up."""
        self.ignored = 0
        """Entries of others that found no room, or could not be read."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        """The entry of a key."""
        return self._entries.get(key)

    @property
    def entries(self) -> list[Entry]:
        """All of them, by key."""
        return sorted(self._entries.values(), key=lambda entry: entry.key)

    @property
    def actor_clock(self) -> dict[str, int]:
        """The latest clock of each actor that wrote one of the entries."""
        clocks: dict[str, int] = {}
        for entry in self._entries.values():
            clocks[entry.actor] = max(clocks.get(entry.actor, 0), entry.clock)
        return clocks

    def set(self, key: str, value: Any) -> Entry:
        """Write locally; the entry, for the others.

        Raises:
            StateFull: there is no room for one more key, or for a value of this size.
            ValueError: the key is empty or too long, or the value is not JSON or too large.
        """
        if not key.strip() or len(key) > bounds.STATE_KEY_CHARACTERS:
            raise ValueError(f"invalid key: it must have 1 to {bounds.STATE_KEY_CHARACTERS} characters")
        size = _size(key, value)
        if size > bounds.STATE_ENTRY_BYTES:
            raise ValueError(f"invalid value: it takes {size} bytes, and {bounds.STATE_ENTRY_BYTES} is the most")
        if key not in self._entries and len(self._entries) >= self._max_keys:
            raise StateFull(f"the shared state is full: it has {self._max_keys} keys")
        if not self._has_room(key, size):
            raise StateFull(f"the shared state is full: it has {self._bytes} bytes")
        entry = Entry(key, value, self._actor, self._clock + 1, self._now())
        self._keep(entry, size)
        return entry

    def apply(self, fields: Mapping[str, Any] | Entry) -> Entry | None:
        """Take an entry of somebody else; the entry if it won, None if ours is later or it cannot be taken."""
        entry = fields if isinstance(fields, Entry) else self._read(fields)
        if entry is None:
            self.ignored += 1
            return None
        # Also an entry that loses was seen: our next write must be later.
        self._clock = max(self._clock, entry.clock)
        current = self._entries.get(entry.key)
        if current is not None and not entry.is_later(current):
            return None
        size = _size(entry.key, entry.value)
        if not self._has_room(entry.key, size) or (current is None and len(self._entries) >= self._max_keys):
            self.ignored += 1
            return None
        self._keep(entry, size)
        return entry

    def merge(self, offered: Iterable[Any], actor_clock: Mapping[str, Any] | None = None) -> list[Entry]:
        """Take a snapshot; the entries that won."""
        won = [self.apply(fields) if isinstance(fields, dict | Entry) else None for fields in offered]
        for clock in (actor_clock or {}).values():
            if self._is_clock(clock):
                self._clock = max(self._clock, clock)
        return [entry for entry in won if entry is not None]

    @property
    def digest(self) -> str:
        """The same for two ends if and only if they have the same entries."""
        return f"{self._sum:064x}"[:_DIGEST_CHARACTERS]

    def _has_room(self, key: str, size: int) -> bool:
        return self._bytes - self._sizes.get(key, 0) + size <= self._max_bytes

    def _keep(self, entry: Entry, size: int) -> None:
        before = self._entries.get(entry.key)
        self._bytes += size - self._sizes.get(entry.key, 0)
        self._sizes[entry.key] = size
        self._entries[entry.key] = entry
        self._clock = max(self._clock, entry.clock)
        self._sum = (self._sum + _hash(entry) - (0 if before is None else _hash(before))) % _MODULUS

    def _read(self, fields: Mapping[str, Any]) -> Entry | None:
        key, actor, clock = fields.get("key"), fields.get("actor"), fields.get("clock")
        if not isinstance(key, str) or not key.strip() or len(key) > bounds.STATE_KEY_CHARACTERS:
            return None
        if not self._is_clock(clock):
            return None
        value = fields.get("value")
        try:
            size = _size(key, value)
        except Unreadable:
            return None
        if size > bounds.STATE_ENTRY_BYTES:
            return None
        # The original takes an entry without an actor for its receiver's own, which makes two of it.
        name = actor if isinstance(actor, str) and len(actor) <= bounds.SIGNAL_NAME_CHARACTERS else ""
        written = fields.get("updated_at")
        is_time = isinstance(written, str) and len(written) <= _TIME_CHARACTERS
        return Entry(key, value, name, int(clock or 0), str(written) if is_time else "")

    def _is_clock(self, clock: object) -> bool:
        if not isinstance(clock, int) or isinstance(clock, bool) or clock <= 0:
            return False
        latest = int(self._unix_time() * 1000) + bounds.STATE_CLOCK_AHEAD_MS
        return clock <= min(latest, bounds.STATE_CLOCK)


def _hash(entry: Entry) -> int:
    text = stringify([entry.key, entry.clock, entry.actor, entry.value])
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def _size(key: str, value: Any) -> int:
    """What an entry takes.

    Raises: Unreadable, if JSON cannot say it.
    """
    return len(stringify(key).encode()) + len(stringify(value).encode())
