"""Path sandbox: the folders below which files are read and written.

Every path is walked down from an allowed folder, one name at a time, relative to the open folder above, and no symbolic
link is followed. A folder cannot be replaced by a link between check and use, because the check is the use. Where the
system cannot open relative to a folder, the real path is compared instead.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hubbub import ArgumentsInvalid
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.names import strip_unprintable

_HAS_DIR_FD: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_READ_FLAGS: Final = os.O_RDONLY | _NOFOLLOW | _BINARY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY | getattr(os, "O_CLOEXEC", 0)
_FOLDER_FLAGS: Final = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_LINK_ERRORS: Final = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


class OutsideFolders(PeersError):
    """The path is not below an allowed folder, or goes through a link."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"path is not below an allowed folder, or goes through a link: {path}; vdo_capabilities lists the folders, "
            "HUBBUB_PEERS_FILES changes them"
        )


class HiddenPath(PeersError):
    """The path contains a hidden name, and the folder is a default that the operator did not choose for files."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"hidden files and folders are not read or written in the default folder: {path}; use another name, or set "
            "HUBBUB_PEERS_FILES to a folder for files"
        )


class FolderEntry:
    """A name in an open folder."""

    def __init__(self, folder: int | None, name: str, path: str) -> None:
        self._folder = folder
        self.name = name
        self.path = path
        """The full path, for messages."""

    def _relative_path(self, name: str) -> str:
        return name if self._folder is not None else str(Path(self.path).with_name(name))

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Open it without following links."""
        return os.open(self._relative_path(self.name), flags, mode, dir_fd=self._folder)

    def make_folder(self) -> None:
        """Create a private folder with this name."""
        os.mkdir(self._relative_path(self.name), 0o700, dir_fd=self._folder)

    def sibling(self, name: str) -> FolderEntry:
        """Return another name in the same folder."""
        return FolderEntry(self._folder, name, str(Path(self.path).with_name(name)))

    def exists(self) -> bool:
        """Return whether anything exists there, broken links included."""
        try:
            os.stat(self._relative_path(self.name), dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def remove(self) -> None:
        os.unlink(self._relative_path(self.name), dir_fd=self._folder)

    def move_to(self, other: FolderEntry, *, overwrite: bool) -> None:
        """Rename it within the same folder.

        Raises: FileExistsError.
        """
        source, target = self._relative_path(self.name), other._relative_path(other.name)
        if overwrite:
            os.replace(source, target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            return
        try:
            # Unlike a rename, a hard link never replaces an existing file.
            os.link(source, target, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            # Hard links are not supported here; an empty file reserves the name in the meantime.
            os.close(other.open(_CREATE_FLAGS))
            os.replace(source, target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        else:
            self.remove()


class PathSandbox:
    """The allowed folders."""

    def __init__(self, folders: Sequence[str], *, refuses_hidden: bool = False) -> None:
        self._refuses_hidden = refuses_hidden
        self._roots: list[tuple[str, str]] = []
        """As configured, and with links resolved."""
        for folder in folders:
            self.add(folder)

    def add(self, folder: str) -> None:
        """Allow one more folder."""
        absolute = _absolute(folder, _working_directory())
        self._roots.append((absolute, os.path.realpath(absolute)))

    @contextmanager
    def open_entry(self, path: str, *, make_folders: bool = False) -> Iterator[FolderEntry]:
        """Open the folder of a path, and yield the entry of its last name.

        Raises: OutsideFolders, PeersError.
        """
        root, names = self._resolve(path)
        if not names:
            raise PeersError(f"file path is not a regular file: {path}")
        display_path = str(Path(root, *names))
        if not _HAS_DIR_FD:
            self._check_hidden(
                (Path(os.path.realpath(display_path)).name,), path
            )  # Windows has short aliases for long names.
            yield self._check_real_path(root, display_path, path, make_folders=make_folders)
            return
        folder = self._walk(root, names[:-1], path, make_folders=make_folders)
        try:
            yield FolderEntry(folder, names[-1], display_path)
        finally:
            os.close(folder)

    def open(self, path: str) -> tuple[int, os.stat_result]:
        """Open a regular file for reading.

        Raises: OutsideFolders, PeersError.
        """
        with self.open_entry(path) as entry:
            try:
                file = entry.open(_READ_FLAGS)
            except OSError as error:
                raise _map_os_error(error, path) from error
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            os.close(file)
            raise PeersError(f"file path is not a regular file: {path}")
        return file, found

    def open_folder(self, path: str) -> int | None:
        """Open a folder, so that files are created in it even if its path is replaced later; None where unsupported.

        Raises: OutsideFolders, PeersError.
        """
        root, names = self._resolve(path)
        return self._walk(root, names, path, make_folders=False) if _HAS_DIR_FD else None

    def make_folder(self, path: str) -> str:
        """Create a folder and its parents; return its path.

        Raises: OutsideFolders, PeersError.
        """
        with self.open_entry(str(Path(path, "x")), make_folders=True) as entry:
            return str(Path(entry.path).parent)

    @contextmanager
    def new_file(self, path: str, *, overwrite: bool) -> Iterator[tuple[int, str]]:
        """Write a file atomically: it appears complete when the block succeeds, and not at all when it fails.

        Raises: OutsideFolders, PeersError (`output exists`).
        """
        with self.open_entry(path, make_folders=True) as entry:
            part = entry.sibling(f".hubbub-{secrets.token_hex(8)}.part")
            try:
                if not overwrite and entry.exists():
                    raise FileExistsError(errno.EEXIST, "the file exists")
                file = part.open(_CREATE_FLAGS, 0o666)
                try:
                    try:
                        yield file, entry.path
                    finally:
                        os.close(file)
                    part.move_to(entry, overwrite=overwrite)
                except BaseException:
                    part.remove()
                    raise
            except FileExistsError as error:
                raise PeersError(f"output exists: {entry.path}") from error
            except OSError as error:
                raise _map_os_error(error, path) from error

    def _resolve(self, path: str) -> tuple[str, tuple[str, ...]]:
        """Return the allowed folder that contains a path, and the names below it."""
        if "\0" in path or not _is_encodable(path):
            raise ArgumentsInvalid("invalid path")
        absolute = self._absolute(path)
        found: list[tuple[str, tuple[str, ...]]] = []
        for configured, real in self._roots:
            for root in (configured, real):
                if Path(absolute).is_relative_to(root):
                    found.append((real, Path(absolute).relative_to(root).parts))
        if not found:
            raise OutsideFolders(path)
        root, names = min(found, key=lambda each: len(each[1]))
        self._check_hidden(names, path)
        return root, names

    def _check_hidden(self, names: Sequence[str], path: str) -> None:
        # Some file systems ignore invisible characters in names, so they do not count here either.
        if self._refuses_hidden and any(strip_unprintable(name).startswith(".") for name in names):
            raise HiddenPath(path)

    @property
    def paths(self) -> list[str]:
        """The allowed folders, with links resolved."""
        return [real for _, real in self._roots]

    @property
    def base(self) -> str:
        """Where relative paths start: the working directory if it is allowed, else the first allowed folder."""
        working_directory = _working_directory()
        is_allowed = any(Path(working_directory).is_relative_to(root) for roots in self._roots for root in roots)
        return working_directory if is_allowed or not self._roots else self._roots[0][0]

    def _absolute(self, path: str) -> str:
        return _absolute(path, self.base)

    @staticmethod
    def _walk(root: str, names: Sequence[str], path: str, *, make_folders: bool) -> int:
        try:
            folder = os.open(root, _FOLDER_FLAGS)
        except OSError as error:
            raise _map_os_error(error, path) from error
        for name in names:
            try:
                if make_folders:
                    try:
                        os.mkdir(name, 0o777, dir_fd=folder)
                    except FileExistsError:
                        pass
                child = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            except OSError as error:
                raise _map_os_error(error, path) from error
            finally:
                os.close(folder)
            folder = child
        return folder

    @staticmethod
    def _check_real_path(root: str, display_path: str, path: str, *, make_folders: bool) -> FolderEntry:
        parent_folder = Path(display_path).parent
        if (
            Path(os.path.realpath(parent_folder)) != parent_folder
            or not parent_folder.is_relative_to(root)
            or Path(display_path).is_symlink()
        ):
            raise OutsideFolders(path)
        try:
            if make_folders:
                parent_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _map_os_error(error, path) from error
        return FolderEntry(None, Path(display_path).name, display_path)


def _working_directory() -> str:
    """Return the working directory, or the root of the file system if it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return os.sep


def _absolute(path: str, parent_folder: str) -> str:
    """Return the absolute path, with `..` resolved in the text: the folders that it skips are never entered."""
    try:
        return os.path.normpath(parent_folder / Path(path).expanduser())
    except RuntimeError as error:
        raise ArgumentsInvalid(f"invalid path: {path}") from error


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _map_os_error(error: OSError, path: str) -> PeersError:
    if error.errno in _LINK_ERRORS:
        return OutsideFolders(path)
    return PeersError(f"{os.strerror(error.errno or 0).lower()}: {path}")
