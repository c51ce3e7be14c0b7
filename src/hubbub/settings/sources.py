"""Where values come from: flags before variables before the file.

Says what is given and where it was found, as it was written; what it must be is decided in
`hubbub.settings.read`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hubbub.errors import SettingsError
from hubbub.settings.fields import Setting

if TYPE_CHECKING:
    from hubbub.settings.file import SettingsFile

PREFIX: Final = "HUBBUB_"
PACKS: Final = "packs"
"""The section that has one section for each pack."""
SERVERS: Final = "servers"
"""The section that has one section for each server that we connect to."""
HUB: Final = "hub"
"""The section about all of them behind one endpoint."""
VIEWS: Final = "views"
"""The section that has one section for each view of the hub."""
_DEFAULT_FILE: Final = "hubbub.toml"
_NOTHING: Final[Mapping[str, Any]] = {}


class Given(NamedTuple):
    """A value as somebody wrote it."""

    value: Any
    origin: str
    is_text: bool
    """Whether numbers and lists are still to be read from text."""


class Sources(msgspec.Struct, frozen=True):
    """Everything that was given, by everybody."""

    flags: Mapping[str, Any] = _NOTHING
    """By option, as `--port`; only what stood on the command line."""
    environ: Mapping[str, str] = _NOTHING
    file: SettingsFile | None = None

    def find(self, section: tuple[str, ...], setting: Setting) -> Given | None:
        """What is given for a setting, by the source that goes first."""
        if setting.flag is not None and setting.flag in self.flags:
            return Given(self.flags[setting.flag], setting.flag, True)
        return self._find_variable(section, setting) or self._find_in_file(section, setting)

    def _find_variable(self, section: tuple[str, ...], setting: Setting) -> Given | None:
        for name in variables_of(section, setting):
            value = self.environ.get(name)
            if value:  # Compose files and shells hand on empty variables that nobody set.
                return Given(value, name, True)
            path = self.environ.get(f"{name}_FILE") if setting.is_secret else None
            if path:
                return Given(_read_secret(path, f"{name}_FILE"), f"{name}_FILE", True)
        return None

    def _find_in_file(self, section: tuple[str, ...], setting: Setting) -> Given | None:
        if self.file is None or not setting.extra.get("in_file", True):
            return None
        table = self.file.table(section)
        if setting.key not in table:
            return None
        return Given(table[setting.key], self.file.place((*section, setting.key)), False)


def variables_of(section: tuple[str, ...], setting: Setting) -> list[str]:
    """The variables of a setting, the one that wins first."""
    name = _upper(setting.key)
    names = [PREFIX + "__".join([*map(_upper, section), name])]
    if section[:1] == (PACKS,):
        names.insert(0, f"{PREFIX}{_upper(section[1])}_" + "__".join([*map(_upper, section[2:]), name]))
    extra = setting.extra.get("env")
    return [*names, extra] if extra else names


def gather(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Sources:
    """Put the sources together, with the settings file that they name or that lies here.

    Raises:
        SettingsError: the file cannot be read, or is not TOML.
    """
    environ = os.environ if environ is None else environ
    path = flags.get("--config") or environ.get(f"{PREFIX}CONFIG")
    if not path and os.access(_DEFAULT_FILE, os.F_OK):
        path = _DEFAULT_FILE
    if not path:
        return Sources(flags, environ)
    from hubbub.settings.file import read_file  # Most servers have no file.

    return Sources(flags, environ, read_file(path))


def _upper(name: str) -> str:
    return name.replace("-", "_").upper()


def _read_secret(path: str, variable: str) -> str:
    from pathlib import Path

    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{variable}: the file {path!r} cannot be read: {error}") from error
