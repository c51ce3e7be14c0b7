"""What was registered where, so that `--uninstall` can restore a file byte for byte.

The text alone does not show whether an empty object, the file or its folder existed before the entry was written.
A record stores this, and the replaced spans, which are used only if the file has not changed since. One small file
in the user's data folder for each file of a client; it is as private as the file itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.install.edits import Edit, apply_edits
from hubbub.settings.folders import data_folder, make_private_folder

_FOLDER: Final = "registrations"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that was written."""

    name: str
    digest: str = ""
    """Digest of the text that was written."""
    undo: tuple[tuple[int, int, str], ...] = ()
    """Edits of that text that restore the previous text."""
    entry: str = ""
    """Digest of the entry, to tell it from one that the user wrote later with the same name."""
    created_levels: int = 0
    """How many objects around the entry were added with it."""
    created_file: bool = False
    created_folders: tuple[str, ...] = ()


class Records:
    """The records of one file, by the name of the entry."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = data_folder() / _FOLDER / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"

    def find(self, name: str) -> Record | None:
        """Return the record of an entry, if there is a readable one."""
        return next((record for record in self._read() if record.name == name), None)

    def names(self) -> list[str]:
        """Return the names of the entries that were written."""
        return [record.name for record in self._read()]

    @contextmanager
    def storing(self, record: Record) -> Iterator[None]:
        """Store a record before its file is written; take it back if that fails.

        Raises: SettingsError.
        """
        before = self._read()
        self._write([each for each in before if each.name != record.name] + [record])
        try:
            yield
        except BaseException:
            with suppress(SettingsError):
                self._write(before)
            raise

    def forget(self, name: str) -> None:
        """Remove the record of an entry. Files and folders that it created are removed with the last entry."""
        record = self.find(name)
        if record is None:
            return
        others = [each for each in self._read() if each.name != name]
        if others:
            others[0] = msgspec.structs.replace(
                others[0],
                created_levels=max(others[0].created_levels, record.created_levels),
                created_file=others[0].created_file or record.created_file,
                created_folders=(*record.created_folders, *others[0].created_folders),
            )
        with suppress(SettingsError):  # A record without its entry is ignored.
            self._write(others)

    def _read(self) -> list[Record]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[Record])
        except (OSError, msgspec.MsgspecError):
            return []  # Without a record the entry is removed by its text alone.

    def _write(self, records: list[Record]) -> None:
        try:
            if not records:
                self._file.unlink(missing_ok=True)
                with suppress(OSError):
                    self._file.parent.rmdir()
                return
            make_private_folder(self._file.parent)
            temporary = self._file.with_suffix(".tmp")
            temporary.touch(mode=0o600)
            temporary.write_bytes(msgspec.json.encode(records))
            temporary.replace(self._file)
        except OSError as error:
            raise SettingsError(
                f"{self._file} cannot be written: {error.strerror}; --uninstall needs it, so {self._path} is unchanged"
            ) from None


def compute_digest(text: str) -> str:
    """Return the digest by which a record recognizes the text that it belongs to."""
    return hashlib.sha256(text.encode()).hexdigest()


def entry_digest(entry: object) -> str:
    """Return the digest of a parsed entry."""
    return compute_digest(json.dumps(entry, sort_keys=True, default=str))


def make_undo_edit(before: str, after: str) -> tuple[int, int, str]:
    """Return the edit that turns a text back into an earlier one: the span between their common start and end."""
    start = _common_length(before, after, lambda text, length: text[:length])
    shorter = min(len(before), len(after)) - start
    end = _common_length(before[start:], after[start:], lambda text, length: text[len(text) - length :], shorter)
    return start, len(after) - end, before[start : len(before) - end]


def _common_length(one: str, other: str, cut: Callable[[str, int], str], limit: int | None = None) -> int:
    """Return how long the common start or end of two texts is; by bisection, because files may have megabytes."""
    low, high = 0, min(len(one), len(other)) if limit is None else limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cut(one, middle) == cut(other, middle) else (low, middle - 1)
    return low


def restore(record: Record, text: str) -> str | None:
    """Return the text before the entry was written; None if the text was changed since."""
    if compute_digest(text) != record.digest:
        return None
    return apply_edits(text, [Edit(*edit) for edit in record.undo])
