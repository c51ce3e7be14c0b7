"""Pins: which definitions of servers are approved, and what happens to the others.

A server may change its tools after a person has looked at them. `Pins` compares what servers list with the lock file:
in mode `enforce`, a definition that is new or changed is withheld until it is approved; in mode `warn`, it is reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from hubbub.errors import SettingsError
from hubbub.governance.definition_lock import EMPTY_LOCK, DefinitionLock, read_lock, write_lock
from hubbub.governance.definitions import KINDS, DefinitionKey, Kind, Listing, definition_digest, parse_definition
from hubbub.governance.hidden_characters import show_hidden
from hubbub.governance.pin_records import (
    ListedDefinition,
    PinDifference,
    PinRecord,
    PinReport,
    PinStatus,
    Selection,
    approve_selected,
    make_difference,
    make_record,
)

logger = logging.getLogger("hubbub.governance")

PinMode: TypeAlias = Literal["warn", "enforce"]
MAX_LOGGED_DEFINITIONS: Final = 20
"""Definitions of one server that are logged one by one after each listing."""
MAX_REPORTED_DEFINITIONS: Final = 20
"""Definitions of one server that `hub.status` names."""
MAX_REMEMBERED_REPORTS: Final = 10_000
_NO_NAMES: Final[frozenset[str]] = frozenset()


class WithheldNames(msgspec.Struct, frozen=True):
    """The definitions of one server that callers must not see."""

    names: Mapping[Kind, frozenset[str]] = {}
    formerly_approved: Mapping[Kind, frozenset[str]] = {}
    """Those that were approved before they changed: no other definition may take their names."""

    def of_kind(self, kind: Kind) -> frozenset[str]:
        """The withheld names of one kind."""
        return self.names.get(kind, _NO_NAMES)


NOTHING_WITHHELD: Final = WithheldNames()


class PinGate(Protocol):
    """What a hub needs of pins."""

    on_change: Callable[[], None] | None
    """Called after the approved definitions have changed."""

    def review(self, listings: Mapping[str, Listing | None]) -> Mapping[str, WithheldNames]:
        """Compare what all servers list now, by id; None for a server that was not reached yet."""

    def problems(self, server: str, is_visible: Callable[[Kind, str], bool]) -> list[str]:
        """Problems of one server, as far as a caller may see its definitions."""

    @property
    def problem(self) -> str | None:
        """Why the current lock file is not in effect."""


class Pins:
    """The lock file, and the definitions that servers list."""

    def __init__(self, path: Path, mode: PinMode, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Read the lock file.

        Raises: SettingsError, if it is not valid.
        """
        self.path = path
        self.mode = mode
        self.on_change: Callable[[], None] | None = None
        self.refresh: Callable[[], Awaitable[None]] | None = None
        """Called before each administrative function, so that it sees what the servers list now."""
        self._now = now
        found = read_lock(path)
        self._lock = EMPTY_LOCK if found is None else found
        self._problem: str | None = None
        self._listed: dict[str, dict[DefinitionKey, ListedDefinition] | None] = {}
        """By server; None for a server that was not reached yet."""
        self._reported: dict[tuple[DefinitionKey, str | None], None] = {}
        self._file_access = asyncio.Lock()

    @property
    def lock(self) -> DefinitionLock:
        """The approved definitions that are in force."""
        return self._lock

    @property
    def problem(self) -> str | None:
        """Why the current lock file is not in effect."""
        return self._problem

    # -- what callers see ----------------------------------------------------------------

    def review(self, listings: Mapping[str, Listing | None]) -> Mapping[str, WithheldNames]:
        """Compare what all servers list now with the lock file; report what is not approved.

        Returns what must be withheld, by server: nothing in mode `warn`.
        """
        before, self._listed = self._listed, {}
        for server, listing in listings.items():
            known = before.get(server) or {}
            self._listed[server] = None if listing is None else _read_listing(server, listing, known)
        withheld: dict[str, WithheldNames] = {}
        for server, listed in self._listed.items():
            pending = self._find_pending(listed or {})
            self._log(server, pending)
            if pending and self.mode == "enforce":
                withheld[server] = WithheldNames(
                    _group_names(pending), _group_names([key for key in pending if key in self._lock.entries])
                )
        return withheld

    def problems(self, server: str, is_visible: Callable[[Kind, str], bool]) -> list[str]:
        """Describe the definitions of a server that are not approved.

        In mode `enforce` only their number is given, because callers must not learn their names.
        """
        pending = self._find_pending(self._listed.get(server) or {})
        if not pending:
            return []
        if self.mode == "enforce":
            return [f"{server}: {len(pending)} definitions are withheld until they are approved (hubbub pins list)"]
        shown = [key for key in pending if key.kind == "instructions" or is_visible(key.kind, key.name)]
        lines = [f"{key} is {pending[key]}, not approved" for key in shown[:MAX_REPORTED_DEFINITIONS]]
        more = len(shown) - len(lines)
        return [*lines, f"{server}: {more} more definitions are not approved"] if more else lines

    def _find_pending(self, listed: Mapping[DefinitionKey, ListedDefinition]) -> dict[DefinitionKey, PinStatus]:
        """The listed definitions that are not approved."""
        found = {key: self._status(key, one) for key, one in listed.items()}
        return {key: status for key, status in found.items() if status != "approved"}

    def _status(self, key: DefinitionKey, listed: ListedDefinition) -> PinStatus:
        entry = self._lock.find(key)
        if entry is None:
            return "new"
        return "approved" if entry.sha256 == listed.sha256 else "changed"

    def _log(self, server: str, pending: Mapping[DefinitionKey, PinStatus]) -> None:
        """Log each definition that is not approved, once for each digest."""
        listed = self._listed[server] or {}
        fresh = [key for key in pending if (key, listed[key].sha256) not in self._reported]
        for key in fresh[:MAX_LOGGED_DEFINITIONS]:
            logger.warning(
                "definition_not_approved",
                extra={
                    "server": server,
                    "kind": key.kind,
                    "item": show_hidden(key.name),
                    "status": pending[key],
                    "sha256": listed[key].sha256,
                    "withheld": self.mode == "enforce",
                    "advice": "run `hubbub pins list`",
                },
            )
        if len(fresh) > MAX_LOGGED_DEFINITIONS:
            extra = {"server": server, "count": len(fresh) - MAX_LOGGED_DEFINITIONS}
            logger.warning("more_definitions_not_approved", extra=extra)
        for key in fresh:
            self._reported[key, listed[key].sha256] = None
        while len(self._reported) > MAX_REMEMBERED_REPORTS:
            del self._reported[next(iter(self._reported))]

    # -- the lock file -------------------------------------------------------------------

    async def reload(self) -> None:
        """Read the lock file again. If it is not valid, the last good one stays in force, and `problem` says why."""
        async with self._file_access:
            try:
                found = await asyncio.to_thread(read_lock, self.path)
                if found is None and self._lock.entries:
                    raise SettingsError(f"{self.path} was removed; restore it, or approve again to write it")
            except SettingsError as error:
                if error.message != self._problem:
                    logger.error("lock_not_applied", extra={"reason": error.message})
                self._problem = error.message
                return
            self._problem = None
            if found is not None:
                self._install(found)

    def _install(self, lock: DefinitionLock) -> None:
        if lock.entries == self._lock.entries:
            return
        self._lock = lock
        if self.on_change is not None:
            self.on_change()

    # -- administration ------------------------------------------------------------------

    async def list_pins(
        self, statuses: Sequence[PinStatus] = (), selection: Selection | None = None
    ) -> list[PinRecord]:
        """All definitions that are approved or listed, with what the scan finds; optionally only some statuses."""
        await self._refresh()
        chosen = Selection() if selection is None else selection
        keys = [
            (key, status)
            for key, status in self._statuses().items()
            if (not statuses or status in statuses) and chosen.matches(key)
        ]
        lock, listed = self._lock, self._current()
        return await asyncio.to_thread(
            lambda: [make_record(key, status, lock.find(key), listed.get(key)) for key, status in keys]
        )

    async def diff(self, server: str, kind: Kind, name: str) -> PinDifference | None:
        """The differences between the approved and the current definition; None if there is neither."""
        await self._refresh()
        key = DefinitionKey(server, kind, name)
        status = self._statuses().get(key)
        if status is None:
            return None
        return await asyncio.to_thread(make_difference, key, status, self._lock.find(key), self._current().get(key))

    async def approve(self, selections: Sequence[Selection], approver: str) -> PinReport:
        """Approve the selected definitions that are new or changed, write the lock file, and apply it at once.

        A definition in which the scan finds something of high severity is approved only if it is selected by its name.

        Raises: SettingsError, if the lock file is not valid or cannot be written; nothing has changed then.
        """
        await self._refresh()
        async with self._file_access:
            statuses, listed = self._statuses(), self._current()
            pending = {key: listed[key] for key, status in statuses.items() if status in ("new", "changed")}
            stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

            def approve_and_write() -> tuple[DefinitionLock, PinReport]:
                found = read_lock(self.path)  # another program may have changed it
                lock = self._lock if found is None else found
                report, entries = approve_selected(selections, pending, statuses, lock, approver, stamp)
                if entries:
                    lock = lock.with_entries(entries)
                    write_lock(self.path, lock)
                return lock, report

            lock, report = await asyncio.to_thread(approve_and_write)
            self._problem = None
            self._install(lock)
        for pin in report.approved:
            extra = {"server": pin.server, "kind": pin.kind, "item": show_hidden(pin.name), "approver": approver}
            logger.info("definition_approved", extra=extra)
        return report

    async def revoke(self, selections: Sequence[Selection]) -> list[DefinitionKey]:
        """Remove approvals from the lock file, also of definitions that their server no longer lists.

        Raises: SettingsError, as `approve`.
        """
        async with self._file_access:

            def revoke_and_write() -> tuple[DefinitionLock, list[DefinitionKey]]:
                found = read_lock(self.path)
                lock = self._lock if found is None else found
                keys = [
                    key
                    for key, entry in lock.entries.items()
                    if any(one.matches(key) and one.sha256 in (None, entry.sha256) for one in selections)
                ]
                if keys:
                    lock = lock.with_entries((), without=keys)
                    write_lock(self.path, lock)
                return lock, keys

            lock, keys = await asyncio.to_thread(revoke_and_write)
            self._problem = None
            self._install(lock)
        return keys

    async def _refresh(self) -> None:
        if self.refresh is not None:
            await self.refresh()

    def _current(self) -> dict[DefinitionKey, ListedDefinition]:
        return {key: one for listed in self._listed.values() for key, one in (listed or {}).items()}

    def _statuses(self) -> dict[DefinitionKey, PinStatus]:
        found: dict[DefinitionKey, PinStatus] = {key: self._status(key, one) for key, one in self._current().items()}
        for key in self._lock.entries:
            # A server that was not reached yet may still list it.
            is_unknown = self._listed.get(key.server, {}) is None or not self._listed
            found.setdefault(key, "approved" if is_unknown else "removed")
        return dict(sorted(found.items(), key=lambda item: (item[0].server, KINDS.index(item[0].kind), item[0].name)))


def _read_listing(
    server: str, listing: Listing, known: Mapping[DefinitionKey, ListedDefinition]
) -> dict[DefinitionKey, ListedDefinition]:
    """Compute the digests of a listing; those of unchanged definitions are known, and digests take time."""
    found: dict[DefinitionKey, ListedDefinition] = {}
    for kind, part in listing.parts().items():
        for name, members in part.items():
            key = DefinitionKey(server, kind, name)
            before = known.get(key)
            if before is not None and (before.members is members or before.members == members):
                found[key] = before
                continue
            definition = parse_definition(members)
            found[key] = ListedDefinition(members, None if definition is None else definition_digest(definition))
    return found


def _group_names(keys: Sequence[DefinitionKey] | Mapping[DefinitionKey, PinStatus]) -> dict[Kind, frozenset[str]]:
    return {kind: names for kind in KINDS if (names := frozenset(key.name for key in keys if key.kind == kind))}
