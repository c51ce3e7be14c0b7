"""Reads and replaces the configuration files of clients without losing anything.

A file is replaced by renaming a temporary file in the same folder, so that a reader sees the old or the new one.
Symbolic links are followed: their target is replaced and the link stays.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.install.machine import path_exists
from hubbub.settings.folders import sync_folder

BACKUP_SUFFIX: Final = ".hubbub-backup"
_BOM: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"


class ClientFile(msgspec.Struct, frozen=True):
    """A file as it was read; `data` is None if it did not exist."""

    path: Path
    """As the client opens it."""
    target: Path
    """Where it is, without symbolic links."""
    data: bytes | None

    @property
    def text(self) -> str:
        """The text without a byte order mark."""
        return (self.data or b"").decode().removeprefix(_BOM)

    def encode(self, text: str) -> bytes:
        """Encode a new text; with a byte order mark if the file had one."""
        return (_BOM.encode() if (self.data or b"").startswith(_BOM.encode()) else b"") + text.encode()


def read_file(path: Path) -> ClientFile:
    """Read a file; one that does not exist has no data.

    Raises: SettingsError, if it cannot be read, is too large, or is not UTF-8.
    """
    try:
        try:
            target = path.resolve(strict=True)
        except FileNotFoundError:  # also a link to a file that does not exist, which is then created
            return ClientFile(path, path.resolve(), None)
        if not target.is_file():
            raise SettingsError(f"{path} is not a file")
        with target.open("rb") as file:
            data = file.read(bounds.CLIENT_FILE_BYTES + 1)
    except (OSError, RuntimeError) as error:  # RuntimeError: symbolic links in a circle
        raise SettingsError(f"{path} cannot be read: {_format_reason(error)}") from None
    if len(data) > bounds.CLIENT_FILE_BYTES:
        raise SettingsError(f"{path} is larger than {bounds.CLIENT_FILE_BYTES} bytes, so it is not edited")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise SettingsError(f"{path}: line {line}, column {column}: not UTF-8") from None
    return ClientFile(path, target, data)


def check_writable(file: ClientFile, alternative: str) -> None:
    """Fail now if the file could not be replaced later; `alternative` is what the user can do instead.

    Raises: SettingsError.
    """
    folder = next(folder for folder in file.target.parents if path_exists(folder))
    # For root, os.access() allows every write, so the mode is checked too.
    if file.data is not None and not (os.access(file.target, os.W_OK) and file.target.stat().st_mode & 0o222):
        raise SettingsError(f"{file.path} is read-only; change its permissions, or {alternative}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingsError(
            f"the folder {folder} is read-only, so {file.path} cannot be written; "
            f"change the permissions of the folder, or {alternative}"
        )


def missing_folders(file: ClientFile) -> list[Path]:
    """Return the folders that `write_file` will make, the outermost first."""
    return [folder for folder in reversed(file.target.parents) if not path_exists(folder)]


def write_file(file: ClientFile, data: bytes, *, keeps_backup: bool = False) -> None:
    """Replace a file that was read before, with the same permissions, and save the old version as a backup.

    With `keeps_backup`, a backup that exists is not replaced.

    Raises: SettingsError, if it has changed since it was read or cannot be written. The file is then unchanged.
    """
    created = missing_folders(file)
    temporary = file.target.with_name(f".{file.target.name}.{token_hex(4)}.tmp")
    try:
        file.target.parent.mkdir(parents=True, exist_ok=True)
        like = file.target.stat() if file.data is not None else None
        _write_new(temporary, data, like)
        _check_unchanged(file)
        if like is not None and not (keeps_backup and path_exists(backup_path(file))):
            _write_backup(file, like)
        temporary.replace(file.target)
    except OSError as error:
        _remove(temporary, *reversed(created))
        raise SettingsError(f"{file.path} cannot be written: {_format_reason(error)}; it is unchanged") from None
    except BaseException:
        _remove(temporary, *reversed(created))
        raise
    _remove_leftovers(file)
    with suppress(OSError):  # it is written; only a loss of power could undo that
        sync_folder(file.target.parent)


def delete_file(file: ClientFile, folders: list[Path]) -> None:
    """Delete a file that was read before, its backup, and these folders as far as they are empty.

    Raises: SettingsError.
    """
    _check_unchanged(file)
    try:
        file.target.unlink()
    except OSError as error:
        raise SettingsError(f"{file.path} cannot be deleted: {_format_reason(error)}") from None
    _remove_leftovers(file)
    _remove(backup_path(file), *sorted(folders, reverse=True))


def backup_path(file: ClientFile) -> Path:
    """Where the old version of a file is saved."""
    return file.target.with_name(file.target.name + BACKUP_SUFFIX)


def _check_unchanged(file: ClientFile) -> None:
    now = read_file(file.path)
    if now.data != file.data or now.target != file.target:
        raise SettingsError(f"{file.path} was changed by another program; nothing was written, try again")


def _write_backup(file: ClientFile, like: os.stat_result) -> None:
    backup = backup_path(file)
    temporary = backup.with_name(f"{backup.name}.{token_hex(4)}.tmp")
    try:
        _write_new(temporary, file.data or b"", like)
        temporary.replace(backup)
    except BaseException:
        _remove(temporary)
        raise


def _write_new(path: Path, data: bytes, like: os.stat_result | None) -> None:
    """Write a file that does not exist; with the permissions and the owner of another one, or private."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if like is not None:
        if hasattr(os, "chown") and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(OSError):  # Only root may; the file must still belong to its user.
                os.chown(path, like.st_uid, like.st_gid)
        path.chmod(stat.S_IMODE(like.st_mode))


def _remove_leftovers(file: ClientFile) -> None:
    """Remove the temporary files of writes of this file that were killed.

    Call it after the file was replaced: a write that is still in progress then fails, as it would anyway, because the
    file is no longer the one that it read.
    """
    name, backup = re.escape(file.target.name), re.escape(backup_path(file).name)
    leftover = re.compile(rf"(?:\.{name}|{backup})\.[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        _remove(*(path for path in file.target.parent.iterdir() if leftover.fullmatch(path.name) and path.is_file()))


def _remove(*paths: Path) -> None:
    for path in paths:
        with suppress(OSError):  # not there, or a folder that is not empty
            path.rmdir() if path.is_dir() else path.unlink()


def _format_reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
