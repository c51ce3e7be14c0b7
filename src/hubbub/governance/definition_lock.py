"""The lock file `hubbub.lock`: the approved definitions of each server, with their digests.

A JSON file for code review: one object for each definition, sorted by server, kind and name, so that a change of one
definition is a change of a few lines. Characters that are not visible are written as `\\u` escapes. It contains the
definitions themselves, so that a difference can be shown without the server.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.errors import InvalidParams, SettingsError
from hubbub.governance.definitions import INSTRUCTIONS_NAME, KINDS, Definition, DefinitionKey, definition_digest
from hubbub.governance.hidden_characters import escape_hidden
from hubbub.settings.folders import replace_file, sync_folder

LOCK_VERSION: Final = 1
LOCK_FILE: Final = "hubbub.lock"
MAX_LOCK_BYTES: Final = 32 * 1024 * 1024
MAX_LOCK_ENTRIES: Final = 50_000
_MEMBERS: Final = {"server": str, "kind": str, "name": str, "sha256": str, "definition": dict}
_OPTIONAL_MEMBERS: Final = {"approved_by": str, "approved_at": str}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FIRST_MODE: Final = 0o644


class LockEntry(msgspec.Struct, frozen=True):
    """One approved definition."""

    key: DefinitionKey
    sha256: str
    definition: Definition
    approved_by: str = ""
    approved_at: str = ""
    """The time of the approval, in UTC."""


class DefinitionLock:
    """The approved definitions: a value, replaced as a whole."""

    def __init__(self, entries: Iterable[LockEntry] = ()) -> None:
        self.entries: Mapping[DefinitionKey, LockEntry] = {entry.key: entry for entry in entries}

    def find(self, key: DefinitionKey) -> LockEntry | None:
        """The approved definition of this key."""
        return self.entries.get(key)

    def with_entries(self, entries: Iterable[LockEntry], without: Iterable[DefinitionKey] = ()) -> DefinitionLock:
        """The lock with entries added or replaced, and others removed."""
        changed = dict(self.entries) | {entry.key: entry for entry in entries}
        for key in without:
            changed.pop(key, None)
        return DefinitionLock(changed.values())


EMPTY_LOCK: Final = DefinitionLock()


def read_lock(path: Path) -> DefinitionLock | None:
    """Read a lock file; None if there is none.

    Raises: SettingsError, which names the line or the entry.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LOCK_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from None
    return parse_lock(data, str(path))


def parse_lock(data: bytes, origin: str) -> DefinitionLock:
    """Parse and check the contents of a lock file; `origin` is named in errors.

    Raises: SettingsError, which names the line or the entry.
    """
    if len(data) > MAX_LOCK_BYTES:
        raise SettingsError(
            f"{origin} is larger than {MAX_LOCK_BYTES} bytes, the limit of a lock file; restore it from a backup"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{origin}, line {line}: not UTF-8; restore the file or approve again") from None
    try:
        found = json.loads(text, object_pairs_hook=_make_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise SettingsError(
            f"{origin}, line {error.lineno}: invalid JSON: {error.msg}; correct the line or restore the file"
        ) from None
    except (ValueError, RecursionError) as error:  # a duplicate member, NaN, an integer of thousands of digits
        raise SettingsError(f"{origin}: {_describe(error)}") from None
    if not isinstance(found, dict) or found.get("version") != LOCK_VERSION:
        raise SettingsError(f'{origin}: expected an object with "version": {LOCK_VERSION}')
    items = found.get("definitions")
    if not isinstance(items, list) or found.keys() != {"version", "definitions"}:
        raise SettingsError(f'{origin}: expected the members "version" and "definitions", an array, and no others')
    if len(items) > MAX_LOCK_ENTRIES:
        raise SettingsError(f"{origin}: {len(items)} definitions, but a lock file has at most {MAX_LOCK_ENTRIES}")
    entries: dict[DefinitionKey, LockEntry] = {}
    for number, item in enumerate(items):
        entry = _parse_entry(item, f"{origin}, definitions[{number}]")
        if entry.key in entries:
            raise SettingsError(
                f"{origin}, definitions[{number}] ({entry.key}): a second entry of this definition; remove one"
            )
        entries[entry.key] = entry
    return DefinitionLock(entries.values())


def _parse_entry(item: Any, place: str) -> LockEntry:
    if not isinstance(item, dict):
        raise SettingsError(f"{place}: expected an object")
    for name, type_ in (_MEMBERS | _OPTIONAL_MEMBERS).items():
        if name in item and not isinstance(item[name], type_):
            raise SettingsError(f"{place}: {name!r} must be {'an object' if type_ is dict else 'a string'}")
    missing, unknown = _MEMBERS.keys() - item.keys(), item.keys() - _MEMBERS.keys() - _OPTIONAL_MEMBERS.keys()
    if missing:
        raise SettingsError(f"{place}: {', '.join(map(repr, sorted(missing)))} is missing")
    if unknown:
        raise SettingsError(f"{place}: unknown member {sorted(unknown)[0]!a}; remove it")
    if item["kind"] not in KINDS:
        raise SettingsError(f"{place}: unknown kind {item['kind']!a}; one of {', '.join(KINDS)}")
    key = DefinitionKey(item["server"], item["kind"], item["name"])
    if key.kind == "instructions" and key.name != INSTRUCTIONS_NAME:
        raise SettingsError(f"{place}: instructions are named {INSTRUCTIONS_NAME!r}, not {key.name!a}")
    if not _DIGEST.fullmatch(item["sha256"]):
        raise SettingsError(f"{place} ({key}): 'sha256' must be 64 characters of 0-9 and a-f")
    if _digest_or_none(item["definition"]) != item["sha256"]:
        raise SettingsError(
            f"{place} ({key}): 'sha256' does not match the definition, so one of them was edited; restore the file, "
            "or remove this entry and approve the definition again"
        )
    return LockEntry(key, item["sha256"], item["definition"], item.get("approved_by", ""), item.get("approved_at", ""))


def _digest_or_none(definition: Definition) -> str | None:
    try:
        return definition_digest(definition)
    except (InvalidParams, ValueError, RecursionError):  # lone surrogates
        return None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for index, name in enumerate(names) if name in names[:index])
        place = f"in the entry of {found['server']!a} {found['name']!a}" if {"server", "name"} <= found.keys() else ""
        raise ValueError(f"the member {repeated!a} occurs twice in one object {place}".rstrip())
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _describe(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def encode_lock(lock: DefinitionLock) -> bytes:
    """Encode a lock as a file: the same bytes for the same entries.

    Raises: SettingsError, if it exceeds the limits of `parse_lock`.
    """
    entries = sorted(
        lock.entries.values(), key=lambda entry: (entry.key.server, KINDS.index(entry.key.kind), entry.key.name)
    )
    document = {"version": LOCK_VERSION, "definitions": [_entry_members(entry) for entry in entries]}
    data = (escape_hidden(json.dumps(document, ensure_ascii=False, indent=2)) + "\n").encode()
    if len(data) > MAX_LOCK_BYTES or len(entries) > MAX_LOCK_ENTRIES:
        raise SettingsError(
            f"{len(entries)} definitions in {len(data)} bytes exceed the limits of a lock file "
            f"({MAX_LOCK_ENTRIES} definitions, {MAX_LOCK_BYTES} bytes); approve fewer, or hide tools that nobody needs"
        )
    return data


def _entry_members(entry: LockEntry) -> dict[str, Any]:
    members: dict[str, Any] = dict(entry.key._asdict(), sha256=entry.sha256)
    if entry.approved_by:
        members["approved_by"] = entry.approved_by
    if entry.approved_at:
        members["approved_at"] = entry.approved_at
    return members | {"definition": _sort_members(entry.definition)}


def _sort_members(value: Any) -> Any:
    """Sort the members of all objects, so that a server which reorders them causes no change of the file."""
    if isinstance(value, dict):
        return {name: _sort_members(value[name]) for name in sorted(value)}
    return [_sort_members(item) for item in value] if isinstance(value, list) else value


def write_lock(path: Path, lock: DefinitionLock) -> None:
    """Replace a lock file in one step.

    Raises: SettingsError.
    """
    data = encode_lock(lock)
    target = path.resolve()  # a symbolic link stays one
    try:
        replace_file(target, data, stat.S_IMODE(target.stat().st_mode) if target.exists() else _FIRST_MODE)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from None
    with suppress(OSError):  # it is written; only a loss of power could undo that
        sync_folder(target.parent)
    _remove_leftovers(target)


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files of writes that were killed."""
    leftover = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for path in target.parent.iterdir():
            if leftover.fullmatch(path.name):
                path.unlink(missing_ok=True)
