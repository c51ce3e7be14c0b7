"""API keys: authenticate callers by the header `X-API-Key`.

The keys are in a file (`hubbub.security.key_records`). They are accepted as bearer tokens too, because many clients can
send no other header. The file is read again when it changes, so that removing a key from it revokes the key without a
restart. With tenants, each key belongs to a user of a tenant. A key without a tenant is an operator's if it has the
scope `hub:admin`; otherwise it is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.calls import Principal
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.security.gate import NO_TARGET, KnownCaller, unauthorized
from hubbub.security.key_file_editor import append_record
from hubbub.security.key_records import (
    KEY_PATTERN,
    KEY_PREFIX,
    KeyRecord,
    generate_key,
    hash_key,
    newest_versions,
    read_records,
)
from hubbub.security.key_usage import KeyUsage
from hubbub.security.tenant_identity import TenantIdentity

__all__ = [
    "KEY_PREFIX",
    "PRINCIPAL_PREFIX",
    "ApiKeys",
    "KeyFileWatch",
    "KeyRecord",
    "ValidKey",
    "append_record",
    "generate_key",
    "hash_key",
    "read_records",
]

PRINCIPAL_PREFIX: Final = "key:"
"""Without tenants, callers with a key are named `key:<name>`, so that no token can have the same subject."""
ROTATED_KEY_GRACE_S: Final = 30.0
"""How long calls of a rotated key may still run after it expired; new requests with it are refused at once."""
MAX_REVOKED_NAMES: Final = 10_000
"""Names of removed keys that are remembered, so that their sessions are ended."""

_USE_INTERVAL_S: Final = 1.0
_BEARER_PREFIX: Final = b"bearer "
_UNKNOWN_KEY: Final = "This API key is unknown, expired or revoked; ask the operator of this server for a new one"

logger = logging.getLogger("hubbub.security")


class ValidKey(msgspec.Struct, frozen=True):
    """A key that is in the file and has not ended."""

    reference: str
    """The id and version of the key. A later key of the same name has another reference."""
    principal: Principal
    ends_at: float
    """When what depends on it ends, in seconds since 1970."""


class _KeyEntry(msgspec.Struct, frozen=True):
    name: str
    reference: str
    digest: bytes
    expires_at: float
    ends_at: float
    """When its connections and sessions end: later than `expires_at` if it was rotated."""
    principal: Principal | None
    """None if it is refused, because it has neither a tenant nor the scope of operators."""


class ApiKeys:
    """Authenticates callers by the API keys of a file.

    Raises: SettingsError, if the file cannot be read at the start.
    """

    def __init__(
        self,
        path: Path,
        *,
        identity: TenantIdentity | None = None,
        usage: KeyUsage | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._identity = identity
        self._usage = usage
        self.clock = clock
        self._monotonic = monotonic
        self._ends: dict[str, float] = {}
        self._generation = 0
        self._revoked_names: OrderedDict[str, None] = OrderedDict()
        self._watch = KeyFileWatch(path, self._load, lambda: self._set_entries({}), monotonic)

    async def __call__(self, headers: Headers, target: RequestTarget = NO_TARGET) -> Principal | Refusal | None:
        """Return the principal of the key; None if there is no API key."""
        sent = _read_key(headers)
        return None if sent is None else self.identify(sent) or unauthorized(_UNKNOWN_KEY)

    def find_known(self, headers: Headers, path: str = "") -> KnownCaller | None:
        """Return the principal of the key; None if there is no valid API key."""
        sent = _read_key(headers)
        entry = None if sent is None else self._find(sent)
        if entry is None or entry.principal is None:
            return None
        # Looked up again every second, because uses are noted with that precision.
        return KnownCaller(entry.principal, min(entry.expires_at, self.clock() + _USE_INTERVAL_S))

    async def recheck(self, headers: Headers) -> Principal | Refusal | None:
        """Do the same for a connection that is open: a call may finish although its key was just rotated."""
        sent = _read_key(headers)
        return None if sent is None else self.identify(sent, is_open=True) or unauthorized(_UNKNOWN_KEY)

    def identify(self, sent: bytes, *, is_open: bool = False) -> Principal | None:
        """Return the principal of a key; None if it is unknown or expired."""
        entry = self._find(sent, is_open=is_open)
        return None if entry is None else entry.principal

    def _find(self, sent: bytes, *, is_open: bool = False) -> _KeyEntry | None:
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        if len(sent) > bounds.CREDENTIAL_BYTES:
            return None
        matched = KEY_PATTERN.fullmatch(sent.decode("latin-1"))
        if matched is None:
            return None
        entry = self._entries.get(matched[1])
        # The id is not secret; the hash is compared in constant time, even for an unknown id.
        expected = entry.digest if entry is not None else bytes(32)
        is_same = hmac.compare_digest(hashlib.sha256(sent).digest(), expected)
        if not is_same or entry is None or (entry.ends_at if is_open else entry.expires_at) <= self.clock():
            return None
        if self._identity is not None and not self._is_admitted(entry, self._identity):
            return None
        if self._usage is not None:
            self._usage.note(matched[1])
        return entry

    @property
    def generation(self) -> int:
        """Grows with every change of the keys and of the tenants."""
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        return self._generation if self._identity is None else self._generation + self._identity.tenants.generation

    def is_current(self, principal: str) -> bool:
        """Whether this is the name of a key that is in the file and has not expired."""
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        return self._ends.get(principal, 0.0) > self.clock()

    def find_key(self, sent: bytes) -> ValidKey | None:
        """Return a key that a person sent to log in with; None if it is unknown or expired."""
        entry = self._find(sent)
        return None if entry is None else _valid_key(entry)

    def find_by_reference(self, reference: str) -> ValidKey | None:
        """Return the key with this reference; None if it was removed or has ended.

        Works in any thread, because it does not read the file; `generation` reads it if it changed.
        """
        entry = self._entries.get(reference.partition(".")[0])
        if entry is None or entry.reference != reference or entry.ends_at <= self.clock():
            return None
        if self._identity is not None and not self._is_admitted(entry, self._identity):
            return None
        return _valid_key(entry)

    def is_revoked(self, principal: str) -> bool:
        """Whether this is the name of a key that was removed from the file or has expired."""
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        if self._identity is None:
            return principal.startswith(PRINCIPAL_PREFIX) and self._ends.get(principal, 0.0) <= self.clock()
        ends_at = self._ends.get(principal)
        return principal in self._revoked_names if ends_at is None else ends_at <= self.clock()

    def _is_admitted(self, entry: _KeyEntry, identity: TenantIdentity) -> bool:
        if entry.principal is None:
            logger.info("key_refused", extra={"key": entry.name, "reason": "it has no tenant"})
            return False
        if entry.principal.tenant and entry.principal.tenant not in identity.tenants:
            reason = f"there is no tenant {entry.principal.tenant!r} in the settings"
            logger.info("key_refused", extra={"key": entry.name, "reason": reason})
            return False
        return True

    def _load(self) -> None:
        self._set_entries(_index(read_records(self._path), self._identity))

    def _set_entries(self, entries: dict[str, _KeyEntry]) -> None:
        ends: dict[str, float] = {}
        for entry in entries.values():
            if entry.principal is not None:
                ends[entry.principal.name] = max(entry.ends_at, ends.get(entry.principal.name, 0.0))
            else:
                logger.warning("key_without_tenant", extra={"key": entry.name, "path": str(self._path)})
        if self._identity is not None:
            self._remember_revoked(self._ends.keys() - ends.keys(), ends)
        self._entries, self._ends = entries, ends
        self._generation += 1

    def _remember_revoked(self, removed: Iterable[str], present: Iterable[str]) -> None:
        """Remember removed names, which cannot be distinguished from those of tokens otherwise."""
        for name in present:
            self._revoked_names.pop(name, None)
        for name in removed:
            self._revoked_names[name] = None
        while len(self._revoked_names) > MAX_REVOKED_NAMES:
            self._revoked_names.popitem(last=False)


class KeyFileWatch:
    """Loads the keys of a file at once, and again when the file has changed.

    Raises: the errors of the first `load`.
    """

    def __init__(
        self, path: Path, load: Callable[[], None], clear: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        """`load` raises SettingsError, OSError or ValueError; `clear` removes all keys, if the file was deleted."""
        self._path = path
        self._load = load
        self._clear = clear
        self._monotonic = monotonic
        self._stamp: tuple[int, int, int] | None = None
        with suppress(OSError):  # `load` reports it
            self._stamp = _file_stamp(path)
        load()
        self.check_at = monotonic() + bounds.KEY_FILE_CHECK_INTERVAL_S
        """When `refresh` is due, on the given clock."""

    def refresh(self) -> None:
        """Load the keys if the file has changed; if it cannot be read, keep the current ones."""
        self.check_at = self._monotonic() + bounds.KEY_FILE_CHECK_INTERVAL_S
        try:
            stamp = _file_stamp(self._path)
            if stamp == self._stamp:
                return
            if stamp is None:
                logger.error("key_file_missing", extra={"path": str(self._path)})
                self._clear()
            else:
                self._load()
            self._stamp = stamp
        except (SettingsError, OSError, ValueError) as error:
            # A typo in the file must not lock out every caller.
            logger.error("keys_not_read", extra={"path": str(self._path), "reason": str(error)})


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    """Return values that differ after a change of the file; None if there is no such file.

    Raises: OSError, if the file cannot be examined.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_key(headers: Headers) -> bytes | None:
    """Return the key that a request carries; None if it carries none, or a token of another kind."""
    sent = headers.raw(b"x-api-key")
    if sent is not None:
        return sent
    bearer = headers.raw(b"authorization")
    if bearer is None or bearer[:7].lower() != _BEARER_PREFIX:
        return None
    sent = bearer[7:].strip()
    return sent if sent.startswith(KEY_PREFIX.encode()) else None


def _index(records: list[KeyRecord], identity: TenantIdentity | None) -> dict[str, _KeyEntry]:
    newest = newest_versions(records)
    entries: dict[str, _KeyEntry] = {}
    for record in records:
        grace_s = ROTATED_KEY_GRACE_S if record.version < newest[record.name] else 0.0
        entries[record.id] = _KeyEntry(
            record.name,
            f"{record.id}.{record.version}",
            bytes.fromhex(record.hash.removeprefix("sha256:")),
            record.expires_at,
            record.expires_at + grace_s,
            _make_principal(record, identity),
        )
    return entries


def _valid_key(entry: _KeyEntry) -> ValidKey | None:
    return None if entry.principal is None else ValidKey(entry.reference, entry.principal, entry.ends_at)


def _make_principal(record: KeyRecord, identity: TenantIdentity | None) -> Principal | None:
    if identity is None:
        return Principal(PRINCIPAL_PREFIX + record.name, frozenset(record.scopes))
    if record.tenant is None and ADMIN_SCOPE not in record.scopes:
        return None
    return identity.make_principal(
        tenant=record.tenant or "",
        user=record.name if record.user is None else record.user,
        client=record.name,
        scopes=frozenset(record.scopes),
        credential=("key", record.id, str(record.version)),
    )
