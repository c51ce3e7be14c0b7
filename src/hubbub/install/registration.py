"""Plans and makes the changes of `hubbub install`: each is a new text of one file, shown before it is written."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hubbub.errors import SettingsError
from hubbub.install.clients import Client
from hubbub.install.documents import find_entry, parse, remove_entry, set_entry
from hubbub.install.entries import ServerEntry, container_path, format_entry
from hubbub.install.files import ClientFile, check_writable, delete_file, read_file, write_file
from hubbub.install.machine import Machine
from hubbub.install.records import Record, Records, digest_of, restore, undo_edit


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A planned change of a client's file."""

    client: Client
    file: ClientFile
    before: str
    after: str | None
    """None: the file is deleted, because `hubbub install` made it."""
    record: Record | None
    """What to remember; None after an entry was removed."""
    name: str

    @property
    def is_needed(self) -> bool:
        """Whether the file would change."""
        return self.after != self.before or self.file.data is None


def plan_install(client: Client, machine: Machine, server: ServerEntry, scope: str = "user") -> Change:
    """Plan to write the entry of a server.

    Raises: SettingsError, if the file cannot be read, parsed or written; it names the file, line and column.
    """
    entry = format_entry(client, server)
    file = read_file(client.path(machine, scope))
    text = file.text
    try:
        values = parse(text, client.format)
        path = (*container_path(client, values), server.name)
        existing = find_entry(values, path)
        # A record of an entry that is not there any more says nothing about this file.
        record = Records(file.target).find(server.name) if existing is not None else None
        # An update starts from the text before the first registration, so that the record stays complete.
        original = restore(record, text) if record is not None else None
        base = text if original is None else original
        after = text if existing == entry else set_entry(base, client.format, path, entry)
        if original is None and existing is not None:  # written by hand, or the file has changed since
            record = msgspec.structs.replace(record, digest="", undo=()) if record is not None else None
        else:
            record = Record(
                name=server.name,
                digest=digest_of(after),
                undo=(undo_edit(base, after),),
                created_levels=_count_missing(parse(base, client.format), path),
                created_file=record.created_file if record is not None else file.data is None,
                created_folders=record.created_folders if record is not None else (),
            )
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None
    change = Change(client=client, file=file, before=text, after=after, record=record, name=server.name)
    if change.is_needed:
        check_writable(file)
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
        if find_entry(values, path) is None:
            return None
        after: str | None = restore(record, text) if record is not None else None
        if after is None:
            after = remove_entry(text, client.format, path, record.created_levels if record is not None else 0)
        if record is not None and record.created_file and not parse(after, client.format):
            after = None
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None
    check_writable(file)
    return Change(client=client, file=file, before=text, after=after, record=record, name=name)


def apply_install(change: Change) -> None:
    """Write the file of a planned registration.

    Raises: SettingsError. The file is then unchanged.
    """
    if change.after is None or not change.is_needed:
        return
    made = write_file(change.file, change.file.encode(change.after))
    records = Records(change.file.target)
    if change.record is None:
        records.forget(change.name)
        return
    folders = (*change.record.created_folders, *map(str, made))
    records.store(msgspec.structs.replace(change.record, created_folders=folders))


def apply_uninstall(change: Change) -> None:
    """Write or delete the file of a planned removal.

    Raises: SettingsError. The file is then unchanged.
    """
    if change.after is None:
        folders = change.record.created_folders if change.record is not None else ()
        delete_file(change.file, [Path(folder) for folder in folders])
    else:
        write_file(change.file, change.file.encode(change.after))
    Records(change.file.target).forget(change.name)


def _count_missing(values: object, path: tuple[str, ...]) -> int:
    """Count the containers of an entry that the file does not have."""
    return sum(find_entry(values, path[:depth]) is None for depth in range(1, len(path)))
