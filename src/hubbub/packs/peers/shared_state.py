"""Shared state: the last writer of each key wins, and everybody agrees on who that was.

Entries are ordered by (clock, actor, value); of two, all ends keep the greater, so they
agree in whatever order entries come, twice or by detours. The clock is Lamport's: a
write is later than everything its writer has seen. `digest` tells whether two ends
differ without sending it all. Pure; `set` is called for local writes, `apply` for those
of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.packs.peers.failures import StateFull
from hubbub.packs.peers.javascript import Unreadable, stringify

_DIGEST_CHARACTERS: Final = 32


class Entry(msgspec.Struct, frozen=True):
    """One key's value, by whom and when."""

    key: str
    value: Any
    actor: str
    clock: int
    updated_at: str

    @property
    def rank(self) -> tuple[int, bytes, bytes]:
        """What decides between two entries of one key.

        The value is part of it for actors that lost their memory and used a clock twice.
        """
        return self.clock, _code_units(self.actor), _code_units(stringify(self.value))


def _code_units(text: str) -> bytes:
    """In the order in which JavaScript compares texts."""
    return text.encode("utf-16-be", "surrogatepass")


class SharedState:
    """The state as one end sees it."""

    def __init__(self, actor: str, *, max_keys: int = 2048, now: Callable[[], str] = lambda: "") -> None:
        self._actor = actor
        self._max_keys = max_keys
        self._now = now
        self._entries: dict[str, Entry] = {}
        self._clock = 0
        self._digest: str | None = None
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
            StateFull: there is no room for one more key.
            ValueError: the key is empty or too long, or the value is not JSON.
        """
        if not key.strip() or len(key) > bounds.STATE_KEY_CHARACTERS:
            raise ValueError(f"invalid key: it must have 1 to {bounds.STATE_KEY_CHARACTERS} characters")
        stringify(value)
        if key not in self._entries and len(self._entries) >= self._max_keys:
            raise StateFull(f"the shared state is full: it has {self._max_keys} keys")
        if self._clock >= bounds.STATE_CLOCK:
            raise StateFull("the shared state's clock has come to its end")
        entry = Entry(key, value, self._actor, self._clock + 1, self._now())
        self._keep(entry)
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
        if current is None and len(self._entries) >= self._max_keys:
            self.ignored += 1
            return None
        if current is not None and entry.rank <= current.rank:
            return None
        self._keep(entry)
        return entry

    def merge(self, offered: Iterable[Any], actor_clock: Mapping[str, Any] | None = None) -> list[Entry]:
        """Take a snapshot; the entries that won."""
        won = [self.apply(fields) if isinstance(fields, dict | Entry) else None for fields in offered]
        for clock in (actor_clock or {}).values():
            if _is_clock(clock):
                self._clock = max(self._clock, clock)
        return [entry for entry in won if entry is not None]

    @property
    def digest(self) -> str:
        """The same for two ends if and only if they have the same entries."""
        if self._digest is None:
            total = hashlib.sha256()
            for entry in self.entries:
                total.update(stringify([entry.key, entry.clock, entry.actor, entry.value]).encode())
            self._digest = total.hexdigest()[:_DIGEST_CHARACTERS]
        return self._digest

    def _keep(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._clock = max(self._clock, entry.clock)
        self._digest = None

    def _read(self, fields: Mapping[str, Any]) -> Entry | None:
        key, actor, clock = fields.get("key"), fields.get("actor"), fields.get("clock")
        if not isinstance(key, str) or not key.strip() or len(key) > bounds.STATE_KEY_CHARACTERS:
            return None
        if not _is_clock(clock):
            return None
        value = fields.get("value")
        try:
            stringify(value)
        except Unreadable:
            return None
        # The original takes an entry without an actor for its receiver's own, which makes two of it.
        name = actor if isinstance(actor, str) and len(actor) <= bounds.SIGNAL_NAME_CHARACTERS else ""
        written = fields.get("updated_at")
        return Entry(key, value, name, int(clock or 0), written if isinstance(written, str) else "")


def _is_clock(clock: object) -> bool:
    return isinstance(clock, int) and not isinstance(clock, bool) and 0 < clock <= bounds.STATE_CLOCK
