"""`hubbub.toml`, read as a tree, able to say on which line something stands."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hubbub.errors import SettingsError

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")


class SettingsFile(msgspec.Struct, frozen=True):
    """The text and the tree of a settings file."""

    path: str
    text: str
    tree: dict[str, Any]

    def table(self, section: Sequence[str]) -> dict[str, Any]:
        """The keys of a section; empty when it is not there.

        Raises: SettingsError.
        """
        table: Any = self.tree
        for depth, name in enumerate(section):
            table = table.get(name, {})
            if not isinstance(table, dict):
                raise SettingsError(f"{self.place(section[: depth + 1])} must be a section: [{'.'.join(section)}]")
        return dict(table)

    def place(self, path: Sequence[str]) -> str:
        """Where a key stands, for messages: `hubbub.toml line 3: serve.port`."""
        line = self._line_of(path)
        return f"{self.path}{f' line {line}' if line else ''}: {'.'.join(path)}"

    def _line_of(self, path: Sequence[str]) -> int | None:
        """tomllib tells no lines, so look for the key where people write it; dotted forms may escape."""
        wanted, key = ".".join(path[:-1]), re.compile(rf"\s*[\"']?{re.escape(path[-1])}[\"']?\s*=")
        section = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            header = _HEADER.match(line)
            if header:
                section = header[1].replace('"', "").replace(" ", "")
                if section == ".".join(path):
                    return number
            elif section == wanted and key.match(line):
                return number
        return None


def read_file(path: str) -> SettingsFile:
    """Read a settings file.

    Raises:
        SettingsError: it cannot be read, or is not TOML.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        return SettingsFile(path, text, tomllib.loads(text))
    except OSError as error:
        raise SettingsError(f"the settings file {path!r} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError alike.
        raise SettingsError(f"{path} is not TOML: {error}") from error
