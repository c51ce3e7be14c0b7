"""Plans and makes the changes of `hubbub install`: each is a new text of one file, shown before it is written."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.install.clients import Client
from hubbub.install.documents import find_entry, parse, remove_entry, set_entry
from hubbub.install.entries import ServerEntry, container_path, format_entry, keep_user_keys, read_entry
from hubbub.install.files import ClientFile, check_writable, delete_file, missing_folders, read_file, write_file
from hubbub.install.hubbub_entry import DEFAULT_NAME
from hubbub.install.machine import Machine
from hubbub.install.records import Record, Records, compute_digest, entry_digest, make_undo_edit, restore

_EMPTY_FILE: Final = frozenset("{} \t\r\n")
"""All that is left in a file that we made, unless the user added something."""
_OTHER_CLIENTS: Final = "choose other clients with --client"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A planned change of a client's file."""

    client: Client
    file: ClientFile
    before: str
    after: str | None
    """None: the file is deleted, because `hubbub install` created it."""
    record: Record
    """What `--uninstall` needs."""
    name: str
    is_update: bool
    """Whether there was an entry of this name."""
    keeps_backup: bool
    """Whether the file has an entry of ours, so that an existing backup is of the version before it."""

    @property
    def is_needed(self) -> bool:
        """Whether the file would change."""
        return self.after != self.before or self.file.data is None


def plan_install(client: Client, machine: Machine, server: ServerEntry, scope: str = "user") -> Change:
    """Plan to write the entry of a server.

    Raises: SettingsError, if the file cannot be read, parsed or written; it names the file, line and column.
    """
    new_entry = format_entry(client, server)
    file = read_file(client.path(machine, scope))
    text = file.text
    try:
        values = parse(text, client.format)
        path = (*container_path(client, values), server.name)
        existing = find_entry(values, path)
        # A record without its entry is out of date.
        record = Records(file.target).find(server.name) if existing is not None else None
        _check_own(existing, record, server.name)
        entry = keep_user_keys(client, existing, new_entry)
        # An update starts from the text before the first registration, so that the record stays complete.
        original = restore(record, text) if record is not None else None
        base = text if original is None else original
        after = text if existing == entry else set_entry(base, client.format, path, entry)
        if original is None and existing is not None:  # written by hand, or the file has changed since
            record = record or Record(name=server.name)
            record = msgspec.structs.replace(record, digest="", undo=(), entry=entry_digest(entry))
        else:
            record = Record(
                name=server.name,
                digest=compute_digest(after),
                undo=(make_undo_edit(base, after),),
                entry=entry_digest(entry),
                created_levels=_count_missing(parse(base, client.format), path),
                created_file=record.created_file if record is not None else file.data is None,
                created_folders=record.created_folders if record is not None else (),
            )
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None
    change = Change(
        client=client,
        file=file,
        before=text,
        after=after,
        record=record,
        name=server.name,
        is_update=existing is not None,
        keeps_backup=_has_recorded_entry(file, values, path[:-1]),
    )
    if change.is_needed:
        check_writable(file, _OTHER_CLIENTS)
    return change


def plan_uninstall(client: Client, machine: Machine, name: str, scope: str = "user") -> Change | None:
    """Plan to remove an entry; None if the file has none of this name.

    Raises: SettingsError.
    """
    file = read_file(client.path(machine, scope))
    record = Records(file.target).find(name)
    text = file.text
    try:
        values = parse(text, client.format)
        path = (*container_path(client, values), name)
        existing = find_entry(values, path)
        if existing is None:
            return None
        _check_own(existing, record, name)
        after: str | None = restore(record, text) if record is not None else None
        if after is None:
            after = remove_entry(text, client.format, path, record.created_levels if record is not None else 0)
        if record is not None and record.created_file and not set(after) - _EMPTY_FILE:
            after = None
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None
    check_writable(file, _OTHER_CLIENTS)
    record = record or Record(name=name)
    return Change(
        client=client,
        file=file,
        before=text,
        after=after,
        record=record,
        name=name,
        is_update=True,
        keeps_backup=_has_recorded_entry(file, values, path[:-1]),
    )


def apply_install(change: Change) -> None:
    """Write the file of a planned registration.

    Raises: SettingsError. The file is then unchanged.
    """
    if change.after is None or not change.is_needed:
        return
    folders = (*change.record.created_folders, *map(str, missing_folders(change.file)))
    # The record first: without one, an interruption would leave an entry that --uninstall cannot remove completely.
    with Records(change.file.target).storing(msgspec.structs.replace(change.record, created_folders=folders)):
        write_file(change.file, change.file.encode(change.after), keeps_backup=change.keeps_backup)


def apply_uninstall(change: Change) -> None:
    """Write or delete the file of a planned removal.

    Raises: SettingsError. The file is then unchanged.
    """
    if change.after is None:
        delete_file(change.file, [Path(folder) for folder in change.record.created_folders])
    else:
        write_file(change.file, change.file.encode(change.after), keeps_backup=change.keeps_backup)
    Records(change.file.target).forget(change.name)


def check_replaceable(client: Client, machine: Machine, name: str, scope: str) -> None:
    """Fail if the client's own command would replace or remove an entry that is not Hubbub's.

    Raises: SettingsError, also if the file cannot be read or parsed.
    """
    file, existing = _read_command_entry(client, machine, name, scope)
    try:
        _check_own(existing, Records(file.target).find(name), name)
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None


def record_command(client: Client, machine: Machine, name: str, scope: str) -> None:
    """Record what the client's own command wrote or removed, so that the entry is recognized as Hubbub's later."""
    with suppress(SettingsError):  # The command has succeeded; most entries are recognized without a record.
        file, existing = _read_command_entry(client, machine, name, scope)
        records = Records(file.target)
        if existing is None:
            records.forget(name)
            return
        record = records.find(name) or Record(name=name)
        with records.storing(msgspec.structs.replace(record, digest="", undo=(), entry=entry_digest(existing))):
            pass


def _read_command_entry(client: Client, machine: Machine, name: str, scope: str) -> tuple[ClientFile, Any]:
    """Read the entry from the file that the client's own command edits: the first path, whichever exist."""
    file = read_file(client.paths(machine, scope)[0])
    try:
        values = parse(file.text, client.format)
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None
    return file, find_entry(values, (*container_path(client, values), name))


def _check_own(existing: Any, record: Record | None, name: str) -> None:
    """Fail if an entry is of a server that is not Hubbub's.

    Raises: SettingsError.
    """
    if existing is None or (record is not None and record.entry == entry_digest(existing)):
        return
    found = read_entry(name, existing)
    is_own = found is not None and (
        found.is_hubbub() or (found.is_remote and (record is not None or name == DEFAULT_NAME))
    )
    if not is_own:
        raise SettingsError(
            f"the entry {name!r} there is not one of `hubbub install`; choose another --name, or remove it by hand"
        )


def _has_recorded_entry(file: ClientFile, values: object, container: tuple[str, ...]) -> bool:
    return any(find_entry(values, (*container, name)) is not None for name in Records(file.target).names())


def _count_missing(values: object, path: tuple[str, ...]) -> int:
    """Count the containers of an entry that the file does not have."""
    return sum(find_entry(values, path[:depth]) is None for depth in range(1, len(path)))
