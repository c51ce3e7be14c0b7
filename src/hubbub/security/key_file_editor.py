"""Adds, rotates and revokes keys in a file, without touching anything else in it.

The tables of other keys, comments and blank lines stay as they are, byte by byte. The file is replaced as a whole, so
that a running server never reads half of it, and only after the new text was parsed and has the expected keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.security.key_records import KeyRecord, generate_key, newest_versions, parse_records, read_key_text
from hubbub.settings.folders import replace_file
from hubbub.suggestions import format_suggestion

_HEADER: Final = re.compile(r"[ \t]*\[\[[ \t]*key[ \t]*\]\][ \t]*(#.*)?\r?\n?\Z")
_NO_VALUE: Final = re.compile(r"[ \t]*(#.*)?\r?\n?\Z")
_EXPIRES: Final = re.compile(r"([ \t]*expires[ \t]*=[ \t]*)[^#\r\n]*?([ \t]*(?:#.*)?\r?\n?)\Z")


def create_key(
    path: Path, name: str, *, tenant: str | None, user: str | None, scopes: Iterable[str], days: int | None
) -> tuple[str, KeyRecord]:
    """Generate a key and store its hash; return the key, which is known only now, and its record.

    Raises: SettingsError, if the name, tenant, user or a scope is not valid, or as `append_record`.
    """
    if user is not None and tenant is None:
        raise SettingsError("the user of a key needs a tenant: users belong to tenants")
    now = _now()
    key, record = generate_key(name, tenant=tenant, user=user, scopes=scopes, created=now, expires=_expiry(now, days))
    append_record(path, record)
    return key, record


def rotate_key(path: Path, name: str, *, overlap: timedelta, days: int | None) -> tuple[str, KeyRecord]:
    """Generate the next version of a key, and let the current one expire after `overlap`; return both as `create_key`.

    Raises: SettingsError, as `rotate_record`, or if the key has expired and `days` is not given.
    """
    now, new_key = _now(), ""

    def make(current: KeyRecord) -> KeyRecord:
        nonlocal new_key
        if days is None and current.expires_at <= now.timestamp():
            raise SettingsError(f"the key {name!r} has expired; say when the new one expires, with --days N")
        new_key, record = generate_key(
            name,
            tenant=current.tenant,
            user=current.user,
            scopes=current.scopes,
            version=current.version + 1,
            created=now,
            expires=current.expires if days is None else _expiry(now, days),
        )
        return record

    record = rotate_record(path, name, make, old_expires=now + overlap)
    return new_key, record


def append_record(path: Path, record: KeyRecord) -> None:
    """Add a key to a file, which is created readable by its owner only if it does not exist.

    Raises: SettingsError, if the file is damaged, cannot be written, or has a key of that name.
    """
    with _locked(path):
        text = read_key_text(path) if path.exists() else b""
        records = parse_records(text, path)
        if any(other.name == record.name for other in records):
            raise SettingsError(
                f"{path}: already has a key named {record.name!r}; rotate or revoke it, or choose another name"
            )
        _replace(path, _append(text.decode(), record), [*records, record])


def rotate_record(path: Path, name: str, make: Callable[[KeyRecord], KeyRecord], *, old_expires: datetime) -> KeyRecord:
    """Add the next version of a key, which `make` returns, and let the current one expire; return the new record.

    Older versions that have expired are removed.

    Raises: SettingsError, if there is no such key, or as `append_record`.
    """
    with _locked(path):
        text, records = _read(path)
        versions = {record.version: record for record in _find(path, records, name)}
        current = versions.pop(max(versions))
        record = make(current)
        now = datetime.now(UTC).timestamp()
        gone = {old.id for old in versions.values() if old.expires_at <= now}
        tables = _Tables(path, text, records)
        expected = [old for old in records if old.id not in gone]
        if current.expires_at > old_expires.timestamp():
            tables.set_expiry(current.id, old_expires)
            ended = msgspec.structs.replace(current, expires=old_expires)
            expected = [ended if old.id == current.id else old for old in expected]
        tables.remove(gone)
        _replace(path, _append(tables.text, record), [*expected, record])
        return record


def revoke_records(path: Path, name: str) -> None:
    """Remove every version of a key.

    Raises: SettingsError, if there is no such key, or the file cannot be changed.
    """
    with _locked(path):
        text, records = _read(path)
        tables = _Tables(path, text, records)
        tables.remove({record.id for record in _find(path, records, name)})
        _replace(path, tables.text, [record for record in records if record.name != name])


def find_current(path: Path, records: list[KeyRecord], name: str) -> KeyRecord:
    """Return the newest version of a key.

    Raises: SettingsError, which suggests the nearest name.
    """
    return max(_find(path, records, name), key=lambda record: record.version)


def _find(path: Path, records: list[KeyRecord], name: str) -> list[KeyRecord]:
    found = [record for record in records if record.name == name]
    if not found:
        raise SettingsError(f"{path}: has no key named {name!r}{format_suggestion(name, newest_versions(records))}")
    return found


def _read(path: Path) -> tuple[str, list[KeyRecord]]:
    text = read_key_text(path)
    return text.decode(), parse_records(text, path)


def _append(text: str, record: KeyRecord) -> str:
    separator = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{separator}{record.to_toml()}"


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _expiry(now: datetime, days: int | None) -> datetime | None:
    return None if days is None else now + timedelta(days=days)


class _Tables:
    """The lines of a file, with the lines of each table."""

    def __init__(self, path: Path, text: str, records: list[KeyRecord]) -> None:
        # Only at `\n`, as TOML does: `splitlines` would split at other characters too.
        self._lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        starts = [index for index, line in enumerate(self._lines) if _HEADER.match(line)]
        if len(starts) != len(records):
            raise SettingsError(f"{path}: its keys are not written as [[key]] tables; edit the file by hand")
        ends = [*starts[1:], len(self._lines)]
        self._ranges = {
            record.id: (start, self._last_value(start, end))
            for record, start, end in zip(records, starts, ends, strict=True)
        }

    def _last_value(self, start: int, end: int) -> int:
        """Return the line after the last value of a table; comments below belong to what follows."""
        while end > start + 1 and _NO_VALUE.match(self._lines[end - 1]):
            end -= 1
        return end

    @property
    def text(self) -> str:
        return "".join(self._lines)

    def set_expiry(self, identifier: str, moment: datetime) -> None:
        """Set `expires` in a table; a comment beside it stays."""
        start, end = self._ranges[identifier]
        for index in range(start + 1, end):
            found = _EXPIRES.match(self._lines[index])
            if found is not None:
                self._lines[index] = f"{found[1]}{moment.isoformat()}{found[2]}"
                return
        last = self._lines[end - 1]
        ending = "\r\n" if last.endswith("\r\n") else "\n"
        self._lines[end - 1] = f"{last.removesuffix(ending)}{ending}expires = {moment.isoformat()}{ending}"

    def remove(self, identifiers: set[str]) -> None:
        """Remove tables, each with one blank line below it; line numbers stay valid."""
        for identifier in identifiers:
            start, end = self._ranges[identifier]
            if end < len(self._lines) and not self._lines[end].strip():
                end += 1
            self._lines[start:end] = [""] * (end - start)


def _replace(path: Path, text: str, expected: list[KeyRecord]) -> None:
    """Replace the file, after checking that the new text has exactly the expected keys."""
    encoded = text.encode()
    try:
        is_expected = parse_records(encoded, path) == expected
    except SettingsError:
        is_expected = False
    if not is_expected:
        raise SettingsError(f"{path}: the keys are written in a form that cannot be edited here; edit the file by hand")
    # A link stays a link: the file that it names is replaced.
    target = path.resolve()
    try:
        replace_file(target, encoded, target.stat().st_mode & 0o777 if target.exists() else 0o600)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time edit the files of a folder, where the system can lock a folder."""
    if os.name != "posix":
        yield
        return
    import fcntl

    try:
        descriptor = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
