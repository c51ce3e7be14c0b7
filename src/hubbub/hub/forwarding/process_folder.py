"""The folders of a program that runs for one user of a tenant: its working folder, and one for temporary files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hubbub.client.config import ServerConfig
from hubbub.settings.secret import Secret

_VARIABLES: Final = ("TMPDIR", "TEMP", "TMP")
_WORKING: Final = "work"
_TEMPORARY: Final = "tmp"


def add_process_folders(config: ServerConfig) -> tuple[ServerConfig, str]:
    """Return a config whose program has folders of its own, and the folder to delete when the program has ended.

    A working folder and variables in the settings stay as they are. Without a working folder there, the files that the
    command names are found where the hub runs.
    """
    folder = tempfile.mkdtemp(prefix="hubbub-")  # its permissions are 0700
    temporary = _make(folder, _TEMPORARY)
    names = (name for name in _VARIABLES if name not in config.env)
    config = replace(config, env={**dict.fromkeys(names, Secret(temporary)), **config.env})
    if config.chdir is None:
        config = replace(
            config,
            command=config.command and _resolve_command(config.command),
            args=tuple(map(_resolve_argument, config.args)),
            chdir=_make(folder, _WORKING),
        )
    return config, folder


def _make(folder: str, name: str) -> str:
    path = Path(folder, name)
    path.mkdir(mode=0o700)
    return str(path)


def _resolve_command(command: str) -> str:
    # A name without a separator is searched for in PATH.
    return os.path.abspath(command) if os.path.dirname(command) else command  # noqa: PTH100, PTH120 - keeps links


def _resolve_argument(argument: str) -> str:
    """Make the relative path of an existing file absolute. A word without a dot or separator is not a path."""
    if "/" not in argument and os.sep not in argument and "." not in argument:
        return argument
    try:
        exists = Path(argument).exists()
    except (OSError, ValueError):  # Too long for a path, or with a zero byte.
        return argument
    return str(Path(argument).absolute()) if exists else argument
