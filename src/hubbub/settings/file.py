"""Read `hubbub.toml` as a tree, and find the line of a key for messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.settings.line_index import find_line
from hubbub.settings.sources import HUB, PACKS, SERVERS, VIEWS

# Sections of governance are taken from one file as a whole, so that no rule of one file weakens another's.
_MERGED_BY_KEY: Final = (HUB, PACKS)
_MERGED_BY_NAME: Final = (SERVERS, VIEWS)


class SettingsFile(msgspec.Struct, frozen=True):
    """The text and the tree of a settings file, or of two merged files."""

    path: str
    text: str
    tree: dict[str, Any]
    """The effective settings, merged with those of `base` if there is one."""
    own_tree: dict[str, Any] | None = None
    """The settings of this file alone, if there is a `base`."""
    base: SettingsFile | None = None
    """The file with lower precedence."""

    def merged_over(self, base: SettingsFile | None) -> SettingsFile:
        """Merge both files; this one takes precedence.

        Each server and each view is taken from one file only, so that headers or variables for
        one address or program are never sent to another.
        """
        if base is None:
            return self
        tree = {**base.tree, **self.tree}
        for name in (*_MERGED_BY_KEY, *_MERGED_BY_NAME):
            tables = [table for table in (base.tree.get(name), self.tree.get(name)) if table is not None]
            if len(tables) > 1 and all(isinstance(table, dict) for table in tables):
                tree[name] = _merge(*tables) if name in _MERGED_BY_KEY else {**tables[0], **tables[1]}
        return SettingsFile(self.path, self.text, tree, self.tree, base)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it is made of, in order of precedence."""
        return (self.path, *(self.base.paths if self.base is not None else ()))

    def table(self, section: Sequence[str]) -> dict[str, Any]:
        """The keys of a section; empty if it is missing.

        Raises: SettingsError.
        """
        table: Any = self.tree
        for depth, name in enumerate(section):
            table = table.get(name, {})
            if not isinstance(table, dict):
                raise SettingsError(f"{self.locate(section[: depth + 1])} must be a section: [{'.'.join(section)}]")
        return dict(table)

    def locate(self, path: Sequence[str]) -> str:
        """The location of a key, for messages: `hubbub.toml line 3: serve.port`.

        A number in the path is the index of a value in an array: `("tenants", "2", "name")`. The line is that of the
        table around the key if the key has no line of its own.
        """
        if self.base is not None and not _has_path(self.own_tree or {}, path) and _has_path(self.base.tree, path):
            return self.base.locate(path)
        line = find_line(self.text, path)
        name = re.sub(r"\.([0-9]+)\b", r"[\1]", ".".join(path))
        return f"{self.path}{f' line {line}' if line else ''}: {name}"


def _merge(below: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    tree = {**below, **over}
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            tree[key] = _merge(below[key], value)
    return tree


def _has_path(tree: Any, path: Sequence[str]) -> bool:
    for name in path:
        if isinstance(tree, list) and name.isdecimal() and int(name) < len(tree):
            tree = tree[int(name)]
        elif isinstance(tree, dict) and name in tree:
            tree = tree[name]
        else:
            return False
    return True


def read_settings_file(path: str) -> SettingsFile:
    """Read a settings file.

    Raises:
        SettingsError: it cannot be read, or is not TOML.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(bounds.SETTINGS_FILE_BYTES + 1)
        if len(data) > bounds.SETTINGS_FILE_BYTES:
            raise SettingsError(f"{path} is larger than {bounds.SETTINGS_FILE_BYTES} bytes")
        text = data.decode()
        tree = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"the settings file {path!r} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError or UnicodeDecodeError.
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    except RecursionError:
        raise _depth_error(path) from None
    if _exceeds_depth(tree):
        raise _depth_error(path)
    return SettingsFile(path, text, tree)


def _depth_error(path: str) -> SettingsError:
    return SettingsError(f"{path} nests deeper than {bounds.SETTINGS_DEPTH} levels; flatten its sections")


def _exceeds_depth(tree: Any) -> bool:
    level = [tree]
    for _ in range(bounds.SETTINGS_DEPTH):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [value for values in inner for value in values]
    return bool(level)
