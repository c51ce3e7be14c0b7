"""API keys: authenticate callers by the header `X-API-Key`.

A key is `hb_<id>_<secret>`. The file has one `[[key]]` table for each, with its name, the
hash of the key, scopes and an optional expiry; the key itself is shown once and never
stored. Keys are accepted as bearer tokens too, because many clients can send no other
header. The file is read again when it changes, so that removing a key from it revokes the
key without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import time
import tomllib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.calls import Principal
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.protocol.scopes import is_scope
from hubbub.security.gate import unauthorized

KEY_PREFIX: Final = "hb_"
PRINCIPAL_PREFIX: Final = "key:"
"""Callers with a key are named `key:<name>`, so that no token can have the same subject."""

_SECRET_BYTES: Final = 24
_BEARER_PREFIX: Final = b"bearer "
_KEY_PATTERN: Final = re.compile(r"hb_([0-9a-f]{8})_[0-9a-f]{48}", re.ASCII)
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_HASH_PATTERN: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_UNKNOWN_KEY: Final = "This API key is unknown, expired or revoked; ask the operator of this server for a new one"

logger = logging.getLogger("hubbub.security")


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One key as stored in the file, without its secret."""

    id: str
    name: str
    hash: str
    scopes: tuple[str, ...] = ()
    expires: datetime | None = None

    def __post_init__(self) -> None:
        if not _NAME_PATTERN.fullmatch(self.name):
            raise ValueError(
                f"the name {self.name!r} must have 1 to 64 letters, digits or . _ @ - and start with a letter or digit"
            )
        if not re.fullmatch(r"[0-9a-f]{8}", self.id) or not _HASH_PATTERN.fullmatch(self.hash):
            raise ValueError(f"the id or hash of the key {self.name!r} is damaged; create the key again")
        for scope in self.scopes:
            if not is_scope(scope):
                raise ValueError(
                    f"the scope {scope!r} of {self.name!r} must be visible ASCII characters, "
                    "without quotes and backslashes"
                )

    @property
    def expires_at(self) -> float:
        """When it expires, in seconds since 1970; a time without a zone is UTC."""
        moment = self.expires
        if moment is None:
            return float("inf")
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def hash_key(key: str) -> str:
    """Hash a key for storage.

    One pass of SHA-256 is enough: the secret is 192 random bits, not a password that
    could be guessed, so a slow hash would cost every request and protect nothing.
    """
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def generate_key(name: str, *, scopes: Iterable[str] = (), expires: datetime | None = None) -> tuple[str, KeyRecord]:
    """Generate a key, to be shown once, and the record to store.

    Raises: SettingsError, if the name or a scope is not valid.
    """
    identifier = secrets.token_hex(4)
    key = f"{KEY_PREFIX}{identifier}_{secrets.token_hex(_SECRET_BYTES)}"
    try:
        return key, KeyRecord(id=identifier, name=name, hash=hash_key(key), scopes=tuple(scopes), expires=expires)
    except ValueError as error:
        raise SettingsError(f"API key: {error}") from None


def append_record(path: Path, record: KeyRecord) -> None:
    """Add a key to a file, which is created readable by its owner only if it does not exist.

    Raises: SettingsError, if the file is damaged, cannot be written, or has a key of that name.
    """
    if path.exists() and any(other.name == record.name for other in read_records(path)):
        raise SettingsError(f"{path}: already has a key named {record.name!r}; remove it first or choose another name")
    lines = ["[[key]]", f'id = "{record.id}"', f'name = "{record.name}"', f'hash = "{record.hash}"']
    if record.scopes:
        lines.append("scopes = [" + ", ".join(f'"{scope}"' for scope in record.scopes) + "]")
    if record.expires is not None:
        lines.append(f"expires = {record.expires.isoformat()}")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n\n")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from None


class _KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    key: list[KeyRecord] = []


def read_records(path: Path) -> list[KeyRecord]:
    """Read the keys of a file.

    Raises: SettingsError, which names the file and the problem.
    """
    try:
        with path.open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o002:
                raise SettingsError(
                    f"{path}: every user of this machine can write to this file; run `chmod o-w` on it first"
                )
            text = file.read(bounds.KEY_FILE_BYTES + 1)
        if len(text) > bounds.KEY_FILE_BYTES:
            raise SettingsError(f"{path}: the file is larger than {bounds.KEY_FILE_BYTES} bytes")
        records = msgspec.convert(tomllib.loads(text.decode()), _KeyFile).key
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # Not UTF-8, not TOML, or not a file of keys.
        raise SettingsError(f"{path}: {error}") from None
    if len({record.id for record in records}) != len(records):
        raise SettingsError(f"{path}: two keys have the same id; remove one")
    if len({record.name for record in records}) != len(records):
        raise SettingsError(f"{path}: two keys have the same name; rename or remove one")
    return records


class _KeyEntry(msgspec.Struct, frozen=True):
    digest: bytes
    expires_at: float
    principal: Principal


class ApiKeys:
    """Authenticates callers by the API keys of a file.

    Raises: SettingsError, if the file cannot be read at the start.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._clock = clock
        self._monotonic = monotonic
        self._watch = KeyFileWatch(path, self._load, lambda: self._set_entries({}), monotonic)

    async def __call__(self, headers: Headers) -> Principal | Refusal | None:
        """Return the principal of the key; None if there is no API key."""
        sent = headers.raw(b"x-api-key")
        if sent is None:
            bearer = headers.raw(b"authorization")
            if bearer is None or bearer[:7].lower() != _BEARER_PREFIX:
                return None
            sent = bearer[7:].strip()
            if not sent.startswith(KEY_PREFIX.encode()):
                return None  # a token of another kind
        return self.identify(sent) or unauthorized(_UNKNOWN_KEY)

    def identify(self, sent: bytes) -> Principal | None:
        """Return the principal of a key; None if it is unknown or expired."""
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        if len(sent) > bounds.CREDENTIAL_BYTES:
            return None
        matched = _KEY_PATTERN.fullmatch(sent.decode("latin-1"))
        if matched is None:
            return None
        entry = self._entries.get(matched[1])
        # The id is not secret; the hash is compared in constant time, even for an unknown id.
        expected = entry.digest if entry is not None else bytes(32)
        is_same = hmac.compare_digest(hashlib.sha256(sent).digest(), expected)
        if not is_same or entry is None or entry.expires_at <= self._clock():
            return None
        return entry.principal

    def is_revoked(self, principal: str) -> bool:
        """Whether this is the name of a key that was removed from the file or has expired."""
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        if not principal.startswith(PRINCIPAL_PREFIX):
            return False
        return self._expiries.get(principal, 0.0) <= self._clock()

    def _load(self) -> None:
        self._set_entries(_index(read_records(self._path)))

    def _set_entries(self, entries: dict[str, _KeyEntry]) -> None:
        self._entries = entries
        self._expiries = {each.principal.name: each.expires_at for each in entries.values()}


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
        self._stamp = _file_stamp(path)
        load()
        self.check_at = monotonic() + bounds.KEY_FILE_CHECK_INTERVAL_S
        """When `refresh` is due, on the given clock."""

    def refresh(self) -> None:
        """Load the keys if the file has changed; if it cannot be read, keep the current ones."""
        self.check_at = self._monotonic() + bounds.KEY_FILE_CHECK_INTERVAL_S
        stamp = _file_stamp(self._path)
        if stamp == self._stamp:
            return
        try:
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
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _index(records: Iterable[KeyRecord]) -> dict[str, _KeyEntry]:
    return {
        record.id: _KeyEntry(
            bytes.fromhex(record.hash.removeprefix("sha256:")),
            record.expires_at,
            Principal(PRINCIPAL_PREFIX + record.name, frozenset(record.scopes)),
        )
        for record in records
    }
