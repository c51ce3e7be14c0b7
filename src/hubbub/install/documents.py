"""The text of a client's configuration file: its values, and edits of one entry that are verified.

After each edit the new text is parsed again. If it differs from the old one in anything but the entry, it is not used.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

from hubbub.errors import SettingsError
from hubbub.install import json_editor, toml_editor, yaml_editor
from hubbub.install.edits import Edit, apply_edits

Format: TypeAlias = Literal["json", "toml", "yaml"]

_EDITORS: Final[dict[Format, ModuleType]] = {"json": json_editor, "toml": toml_editor, "yaml": yaml_editor}


def parse(text: str, form: Format) -> dict[str, Any]:
    """Parse the text of a file.

    Raises: SettingsError, with line and column.
    """
    values: dict[str, Any] = _EDITORS[form].parse(text)
    return values


def find_entry(values: Any, path: Sequence[str]) -> Any:
    """Return the value at a path; None if there is none."""
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return None
        values = values[key]
    return values


def set_entry(text: str, form: Format, path: Sequence[str], entry: dict[str, Any]) -> str:
    """Write an entry, and return the new text.

    Raises: SettingsError.
    """
    expected = copy.deepcopy(parse(text, form))
    _expect(expected, path, entry)
    return _apply_verified(text, form, _EDITORS[form].set_member(text, path, entry), [expected])


def remove_entry(text: str, form: Format, path: Sequence[str], prunable: int = 0) -> str:
    """Remove an entry, and up to `prunable` containers of it that are empty then; return the new text.

    Raises: SettingsError.
    """
    expected = copy.deepcopy(parse(text, form))
    if find_entry(expected, path) is None:
        return text
    del find_entry(expected, path[:-1])[path[-1]]
    allowed = [copy.deepcopy(expected)]
    for depth in range(len(path) - 1, 0, -1):
        if find_entry(expected, path[:depth]) != {}:
            break
        parent = find_entry(expected, path[: depth - 1])
        del parent[path[depth - 1]]
        allowed.append(copy.deepcopy(expected))
    return _apply_verified(text, form, _EDITORS[form].remove_member(text, path, prunable), allowed)


def _expect(values: dict[str, Any], path: Sequence[str], entry: dict[str, Any]) -> None:
    for key in path[:-1]:
        if not isinstance(values.get(key), dict):
            values[key] = {}
        values = values[key]
    values[path[-1]] = entry


def _apply_verified(text: str, form: Format, edits: list[Edit], allowed: list[dict[str, Any]]) -> str:
    after = apply_edits(text, edits)
    try:
        is_right = parse(after, form) in allowed
    except (SettingsError, RecursionError):  # the second: YAML aliases in a circle
        is_right = False
    if not is_right:
        raise SettingsError("the servers are written in a form that cannot be edited safely; edit the file by hand")
    return after
