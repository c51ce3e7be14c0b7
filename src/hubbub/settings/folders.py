"""The user's folders for data, state and settings, where the operating system defines them."""
# pathlib and platformdirs would cost milliseconds at every start of a stdio server.
# ruff: noqa: PTH111, PTH117, PTH118

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = "hubbub"
_FILE: Final = "hubbub.toml"


def data_folder() -> Path:
    """Return the folder for data that outlives the process, such as keys."""
    from platformdirs import user_data_path

    return user_data_path(_NAME, appauthor=False)


def state_folder() -> Path:
    """Return the folder for state, such as the status files of running hubs."""
    from platformdirs import user_state_path

    return user_state_path(_NAME, appauthor=False)


def user_settings_path() -> str:
    """Where the user's own settings file is, if there is one: `~/.config/hubbub/hubbub.toml` on Linux."""
    if sys.platform.startswith(("win", "darwin")):
        from platformdirs import user_config_path

        return str(user_config_path(_NAME, appauthor=False) / _FILE)
    # The same as platformdirs, without its import of 10 ms at every start. A relative folder is ignored, as
    # the XDG specification requires: it would be in the working folder, which may not be trusted.
    folder = os.environ.get("XDG_CONFIG_HOME", "").strip()
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, _NAME, _FILE)


def make_private_folder(path: Path) -> None:
    """Make a folder and its missing parents, accessible to their owner only.

    `Path.mkdir(mode=0o700, parents=True)` gives that mode to the last folder only.

    Raises: OSError.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file in one step: a reader, or a process that is killed, leaves the old or the new contents.

    Raises: OSError.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make new and replaced names in a folder durable; does nothing on Windows, which cannot open folders.

    Raises: OSError.
    """
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
