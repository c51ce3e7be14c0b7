"""Default folders for reading and writing files, used when the operator configures none.

The default is the working directory, if it is a place for files. Clients start servers in `/`, in the user's home or in
a system folder, which contain keys and settings: a model could be talked into sending or overwriting them. In these
cases the default is a private folder of our own that always exists. In a working directory, hidden files (`.env`,
`.git`) are refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hubbub.pack import data_folder, make_private_folder
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.path_sandbox import PathSandbox
from hubbub.packs.peers.files.spool import default_spool_folder

_APPLICATION_FOLDERS: Final = ("AppData", "Library")
"""Folders below the home folder where Windows and macOS keep settings and programs of the user."""


def allowed_folders(configured: Sequence[str]) -> PathSandbox:
    """Return the operator's folders, else the working directory, else our own folder; none if it cannot be created."""
    if configured:
        return PathSandbox(configured)
    folder = _working_folder() or _own_folder()
    return PathSandbox(() if folder is None else (folder,), refuses_hidden=True)


def _working_folder() -> str | None:
    try:
        current = Path.cwd()
    except OSError:
        return None  # The working directory was removed.
    system = os.environ.get("SYSTEMROOT")
    if (
        current == Path(current.anchor)
        or (system and current.is_relative_to(system))
        or not os.access(current, os.W_OK)
    ):
        return None
    return None if any(_is_personal(current, home) for home in _home_folders()) else str(current)


def _is_personal(folder: Path, home: Path) -> bool:
    """Return whether a folder is a home, a parent of one, or a folder in it where programs keep settings and keys."""
    if home.is_relative_to(folder):
        return True
    names = folder.relative_to(home).parts if folder.is_relative_to(home) else ()
    return bool(names) and (names[0] in _APPLICATION_FOLDERS or any(name.startswith(".") for name in names))


def _home_folders() -> Iterator[Path]:
    """Yield the user's home from the environment and from the system; a client may have changed the first."""
    try:
        yield Path(os.path.realpath(Path.home()))
    except RuntimeError:
        pass  # Neither the environment nor the system names a home.
    try:
        from pwd import getpwuid
    except ImportError:
        return  # Windows.
    try:
        yield Path(os.path.realpath(getpwuid(os.getuid()).pw_dir))
    except KeyError:
        return  # A user without an entry, as in containers.


def _own_folder() -> str | None:
    for folder in _own_folder_candidates():
        try:
            make_private_folder(folder)
            if _is_private(folder):
                return str(folder)
        except OSError:
            continue
    return None


def _own_folder_candidates() -> Iterator[Path]:
    folder = data_folder() / "peers" / "files"
    if folder.is_absolute():
        yield folder
    try:
        yield Path(default_spool_folder(), "files")  # It is lost with the temporary files, but better than none.
    except (PeersError, OSError):
        return


def _is_private(folder: Path) -> bool:
    status = folder.stat()
    is_ours = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)
    return stat.S_ISDIR(status.st_mode) and is_ours and os.access(folder, os.W_OK)
