"""The system whose clients are configured: operating system, home, variables, working folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from hubbub.errors import SettingsError

System: TypeAlias = Literal["linux", "macos", "windows"]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of clients are. Tests create one for each operating system, with a temporary home."""

    system: System
    home: Path
    folder: Path
    """The working folder, for files of a project."""
    environ: Mapping[str, str]

    def resolve(self, template: str) -> Path | None:
        """Return the path of a template such as `{roaming}/Code/User/mcp.json`; None if a variable in it is not set.

        Names in lower case are folders, those in upper case environment variables.
        """
        first, _, rest = template.partition("/")
        if not first.startswith("{"):
            return self.folder / template
        base = self._base(first.strip("{}"))
        return base / rest if base is not None and rest else base

    def _base(self, name: str) -> Path | None:
        match name:
            case "home":
                return self.home
            case "config":
                return self._absolute("XDG_CONFIG_HOME") or self.home / ".config"
            case "support":
                return self.home / "Library" / "Application Support"
            case "roaming":
                return self._absolute("APPDATA") or self.home / "AppData" / "Roaming"
            case "local":
                return self._absolute("LOCALAPPDATA") or self.home / "AppData" / "Local"
        return self._absolute(name)

    def _absolute(self, variable: str) -> Path | None:
        value = self.environ.get(variable, "").strip()
        return Path(value) if value and Path(value).is_absolute() else None


def path_exists(path: Path) -> bool:
    """Whether a path exists and can be reached. `Path.exists` raises PermissionError before Python 3.14."""
    return os.path.exists(path)  # noqa: PTH110


def this_machine() -> Machine:
    """Return the system that this process runs on.

    Raises: SettingsError, if the home or the working folder is not known.
    """
    system: System = "windows" if sys.platform == "win32" else "macos" if sys.platform == "darwin" else "linux"
    try:
        return Machine(system=system, home=Path.home(), folder=Path.cwd(), environ=dict(os.environ))
    except (OSError, RuntimeError):
        raise SettingsError(
            "the home folder or the current folder does not exist; set HOME, or change to an existing folder"
        ) from None
