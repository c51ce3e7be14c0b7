"""Map the keys of a settings file to the settings that the structs declare.

Used to find the settings that need no trust: those that are marked as harmless. Keys that no
struct declares need trust, including those of packs, and so does a new setting until it is
marked. Also used to resolve relative paths in the user's own file, which are relative to that
file and not to the working folder.
"""
# ruff: noqa: PTH111, PTH118, PTH120, PTH100

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hubbub.settings.fields import Setting, list_settings
from hubbub.settings.file import SettingsFile
from hubbub.settings.hub import HubSettings, ViewSettings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.servers import ServerSettings
from hubbub.settings.sources import GOVERNANCE, HUB, OAUTH, PACKS, SERVERS, VIEWS, Key


def iter_keys(tree: Mapping[str, Any]) -> Iterator[tuple[Key, Setting | None]]:
    """Every key of a file with its setting; None if no struct declares it."""
    for name, value in tree.items():
        if not isinstance(value, dict):
            yield from _struct_keys(ServeSettings, {name: value}, ())
        elif name == HUB:
            yield from _struct_keys(HubSettings, value, (HUB,))
        elif name in (SERVERS, VIEWS):
            yield from _section_keys(ServerSettings if name == SERVERS else ViewSettings, value, (name,))
        elif name in GOVERNANCE:
            yield from _governance_keys(name, value)
        elif name == OAUTH:
            yield from _oauth_keys(value)
        elif name == PACKS:
            yield from _pack_keys(value, (PACKS,))
        else:
            yield (name,), None


def _governance_keys(name: str, table: Mapping[str, Any]) -> Iterator[tuple[Key, Setting | None]]:
    from hubbub.settings.governance import NAMED_SECTIONS, SECTIONS  # most files have none of them

    if name in SECTIONS:
        yield from _struct_keys(SECTIONS[name], table, (name,))
    elif name in NAMED_SECTIONS:
        yield from _section_keys(NAMED_SECTIONS[name], table, (name,))
    else:
        yield (name,), None


def _oauth_keys(table: Mapping[str, Any]) -> Iterator[tuple[Key, Setting | None]]:
    from hubbub.settings.oauth import OAuthSettings  # most files do not have it

    yield from _struct_keys(OAuthSettings, table, (OAUTH,))


def split_harmless(tree: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Key, ...]]:
    """The part of a file that needs no trust, and the keys that do."""
    views = tree.get(VIEWS)
    empty = [name for name, view in views.items() if view == {}] if isinstance(views, dict) else []
    harmless: dict[str, Any] = {VIEWS: {name: {} for name in empty}} if empty else {}
    refused: list[Key] = []
    for key, setting in iter_keys(tree):
        if setting is None or not setting.is_harmless:
            refused.append(key)
            continue
        table, source = harmless, tree
        for name in key[:-1]:
            table, source = table.setdefault(name, {}), source[name]
        table[key[-1]] = source[key[-1]]
    return harmless, tuple(refused)


def resolve_paths(file: SettingsFile) -> SettingsFile:
    """The same file with relative paths resolved against its folder."""
    folder = os.path.dirname(os.path.abspath(file.path))
    tree = copy.deepcopy(file.tree)
    for key, setting in iter_keys(file.tree):
        table = tree
        for name in key[:-1]:
            table = table[name]
        _resolve_value(table, key[-1], setting, folder)
    return msgspec.structs.replace(file, tree=tree)


def _resolve_tables(kind: type[msgspec.Struct], tables: list[Any], folder: str) -> None:
    """Resolve the paths in an array of tables."""
    for each in tables:
        if isinstance(each, dict):
            for key, setting in _struct_keys(kind, each, ()):
                table = each
                for name in key[:-1]:
                    table = table[name]
                _resolve_value(table, key[-1], setting, folder)


def _resolve_value(table: dict[str, Any], name: str, setting: Setting | None, folder: str) -> None:
    value = table[name]
    if setting is not None and setting.table_kind is not None and isinstance(value, list):
        _resolve_tables(setting.table_kind, value, folder)
    elif setting is not None and setting.names_file and isinstance(value, str) and _is_path(value, setting):
        table[name] = os.path.normpath(os.path.join(folder, os.path.expanduser(value)))


def _is_path(value: str, setting: Setting) -> bool:
    """Whether the value is a path, and not an address or the name of a program or module."""
    if "://" in value or value.startswith("${"):
        return False
    return setting.form in ("FILE", "FOLDER", "FILE|URL") or "/" in value or os.sep in value or ".py" in value


def _struct_keys(
    kind: type[msgspec.Struct], table: Mapping[str, Any], section_path: Key
) -> Iterator[tuple[Key, Setting | None]]:
    known = {setting.key: setting for setting in list_settings(kind)}
    for name, value in table.items():
        setting = known.get(name)
        if setting is not None and setting.named_sections is not None and isinstance(value, dict):
            yield from _section_keys(setting.named_sections, value, (*section_path, name))
        elif setting is not None and isinstance(value, dict) and (section := _section_kind(setting)) is not None:
            yield from _struct_keys(section, value, (*section_path, name))
        else:
            yield (*section_path, name), setting


def _section_kind(setting: Setting) -> type[msgspec.Struct] | None:
    return setting.kind if setting.is_section else setting.optional_section


def _section_keys(
    kind: type[msgspec.Struct], sections: Mapping[str, Any], section_path: Key
) -> Iterator[tuple[Key, Setting | None]]:
    for name, section in sections.items():
        if isinstance(section, dict):
            yield from _struct_keys(kind, section, (*section_path, name))
        else:
            yield (*section_path, name), None


def _pack_keys(table: Mapping[str, Any], section_path: Key) -> Iterator[tuple[Key, None]]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _pack_keys(value, (*section_path, name))
        else:
            yield (*section_path, name), None
