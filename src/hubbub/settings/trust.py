"""The folders that the user trusts, with digests of their files: the records of `hubbub trust`.

A client may start a server in any folder, also in a repository that was just cloned. So a
`hubbub.toml` in the working folder can only change how things are displayed, until the user
trusts it. Stored are the digests of the file and of the files that it refers to; when one of
them changes, the folder is no longer trusted.

One small file for each folder in the user's data folder, which is ignored if other users can
write it. Imported only if the working folder has a settings file.
"""
# Paths stay strings here: they are compared with those in the records.
# ruff: noqa: PTH100, PTH110, PTH111, PTH113, PTH118, PTH120

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.settings.file import SettingsFile, read_settings_file
from hubbub.settings.file_keys import split_harmless
from hubbub.settings.folders import data_folder, make_private_folder, replace_file
from hubbub.settings.sources import Key

_RECORDS_FOLDER: Final = "trusted"
_WORD_SEPARATORS: Final = re.compile(r"[\s=:;,'\"]+|(?<=^-[A-Za-z])(?=[./])")
"""Also between a one-letter option and a path that follows it directly: `-r./hook.js`."""
_MODULE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^{}]*))?\}")
_MODULE_SUFFIXES: Final = (".py", ".js", ".mjs", ".cjs", "/__init__.py", "/__main__.py", "/index.js", "/package.json")
"""What Python and Node.js add to the name of a module or a folder to find the file they run."""
_UNREADABLE: Final = "unreadable"
_RENEWED_FILES: Final = (("tls_cert_file",), ("tls_key_file",))
"""Settings whose files are expected to change. The CA of clients is not among them: it decides who may call."""


class FolderFile(msgspec.Struct, frozen=True, kw_only=True):
    """The settings file of a folder as it was read, and its trust."""

    folder: str
    """Its absolute path, without symbolic links."""
    file: SettingsFile
    harmless: dict[str, Any]
    """The settings that need no trust."""
    refused: tuple[Key, ...]
    """The keys that are used only if the folder is trusted."""
    digests: Mapping[str, str]
    """Digests of the parsed file and of the files that it refers to, by absolute path."""
    changed: tuple[str, ...] | None
    """The files that differ from those that were trusted, empty if none do; None if it was never trusted."""

    @property
    def is_trusted(self) -> bool:
        """Whether all its settings are used."""
        return self.changed == ()

    @property
    def problem(self) -> str:
        """Why some of its settings are ignored."""
        if self.changed is None:
            return f"hubbub.toml in {self.folder} is not trusted"
        names = ", ".join(os.path.relpath(path, self.folder) for path in self.changed)
        return f"hubbub.toml in {self.folder} is no longer trusted, because {names} changed"


class _Record(msgspec.Struct, kw_only=True):
    folder: str
    trusted_at: float
    digests: dict[str, str]


def read_folder_file(path: str, *, is_to_be_trusted: bool = False) -> FolderFile:
    """Read the settings file of a folder, and whether it is trusted as it is now.

    The files that it refers to are read only if the folder was trusted before, or `is_to_be_trusted`.

    Raises:
        SettingsError: it cannot be read, is not TOML, or refers to too many files.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # Reading a pipe would block.
        raise SettingsError(f"{path} is not a regular file; remove it, or name a file with --config")
    file = read_settings_file(path)
    folder = os.path.realpath(os.path.dirname(path) or ".")
    harmless, refused = split_harmless(file.tree)
    record = _read_record(_record_path(folder)) if refused else None
    digests = _digests(path, file, folder, refused) if record is not None or is_to_be_trusted else {}
    changed = _differences(record.digests, digests) if record is not None else None
    return FolderFile(folder=folder, file=file, harmless=harmless, refused=refused, digests=digests, changed=changed)


def trust(folder_file: FolderFile) -> None:
    """Trust the file as it was read, not as it may be by now.

    Raises: SettingsError, if the record cannot be stored.
    """
    _write_record(_Record(folder=folder_file.folder, trusted_at=time.time(), digests=dict(folder_file.digests)))


def renew_trust(path: str, changed: str) -> None:
    """Update the record of a trusted folder if only `changed` differs, which a Hubbub command has just written.

    Raises: SettingsError, if the record cannot be stored.
    """
    folder_file = read_folder_file(path)
    if folder_file.changed == (os.path.realpath(changed),):
        trust(folder_file)


def remove_trust(folder: str) -> bool:
    """Stop trusting a folder; return whether it was trusted."""
    path = _record_path(os.path.realpath(folder))
    was_trusted = path.exists()
    path.unlink(missing_ok=True)
    return was_trusted


def trusted_folders() -> list[str]:
    """Every trusted folder, also if its files have changed or are gone."""
    records = (_read_record(path) for path in sorted((data_folder() / _RECORDS_FOLDER).glob("*.json")))
    return sorted(record.folder for record in records if record is not None)


def trust_record_path(folder: str) -> Path:
    """The record file of a folder, which changes when its trust changes."""
    return _record_path(os.path.realpath(folder))


def find_named_files(tree: Any, folder: str) -> Iterator[str]:
    """The absolute path of each file that a value names: as the value or a word of it, or as a Python module.

    Relative to the folder, or to the `cwd` in the same table; `~` and `${NAME}` are expanded.
    """
    yield from _walk_values(tree, (folder,))


def _walk_values(tree: Any, bases: tuple[str, ...]) -> Iterator[str]:
    if isinstance(tree, dict):
        cwd = tree.get("cwd")
        if isinstance(cwd, str):
            bases = (*bases, os.path.join(bases[0], os.path.expanduser(_expand_variables(cwd))))
        for value in tree.values():
            yield from _walk_values(value, bases)
    elif isinstance(tree, list):
        for value in tree:
            yield from _walk_values(value, bases)
    elif isinstance(tree, str):
        text = _expand_variables(tree)
        for word in dict.fromkeys((text, *_WORD_SEPARATORS.split(text))):
            for base in bases:
                yield from _candidate_files(word, base)


def _candidate_files(word: str, base: str) -> Iterator[str]:
    expanded = os.path.expanduser(word)
    # A module, or the files that interpreters run for a folder or a name without extension.
    stems = dict.fromkeys((expanded, word.replace(".", os.sep) if _MODULE.fullmatch(word) else expanded))
    names = [expanded] + [stem + ending for stem in stems if stem for ending in _MODULE_SUFFIXES]
    for name in names:
        path = os.path.abspath(os.path.join(base, name)) if name and "\0" not in name else base
        if os.path.isfile(path):
            yield path


def _expand_variables(text: str) -> str:
    return _VARIABLE.sub(lambda match: os.environ.get(match[1]) or match[2] or "", text)


def _digests(path: str, file: SettingsFile, folder: str, refused: tuple[Key, ...]) -> dict[str, str]:
    """Digests of the parsed text and of every file that a key which needs trust refers to."""
    digests = {os.path.join(folder, Path(path).name): hashlib.sha256(file.text.encode()).hexdigest()}
    tree = _select_keys(file.tree, tuple(key for key in refused if key not in _RENEWED_FILES))
    for named in (
        *find_named_files(tree, folder),
        *find_named_files(_read_mcp_json(tree.get("mcp_json"), folder), folder),
    ):
        if named in digests:
            continue
        if len(digests) > bounds.TRUSTED_FILES:
            raise SettingsError(
                f"{file.path} refers to more than {bounds.TRUSTED_FILES} files, which is too many to check; "
                "name it with --config instead"
            )
        digests[named] = _digest(named)
    return digests


def _select_keys(tree: Mapping[str, Any], keys: tuple[Key, ...]) -> dict[str, Any]:
    subtree: dict[str, Any] = {}
    for key in keys:
        table, source = subtree, tree
        for name in key[:-1]:
            table, source = table.setdefault(name, {}), source[name]
        table[key[-1]] = source[key[-1]]
    return subtree


def _read_mcp_json(mcp_json: Any, folder: str) -> Any:
    """The servers of an mcp.json, whose files are checked too; none if it cannot be read."""
    if not isinstance(mcp_json, str):
        return None
    try:
        return msgspec.json.decode(Path(folder, _expand_variables(mcp_json)).expanduser().read_bytes())
    except (OSError, ValueError, RecursionError, RuntimeError):
        return None


def _digest(path: str) -> str:
    """Digest of the contents, or a mark for a file that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return _UNREADABLE
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return _UNREADABLE


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The files that differ: the settings file first, then in the order in which it refers to them."""
    return tuple(path for path in dict.fromkeys((*now, *before)) if before.get(path) != now.get(path))


def _record_path(folder: str) -> Path:
    return data_folder() / _RECORDS_FOLDER / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()}.json"


def _read_record(path: Path) -> _Record | None:
    """Read a record; None if it is missing, invalid, or writable by other users."""
    try:
        with path.open("rb") as file:
            if not all(map(_is_private, (os.fstat(file.fileno()), path.parent.stat(), path.parent.parent.stat()))):
                return None
            return msgspec.json.decode(file.read(), type=_Record)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_private(status: os.stat_result) -> bool:
    return os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _write_record(record: _Record) -> None:
    path = _record_path(record.folder)
    try:
        make_private_folder(path.parent)
        replace_file(path, msgspec.json.encode(record))
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error
    if _read_record(path) is None:
        raise SettingsError(f"other users can write to {path.parent.parent}; run `chmod -R go-w` on it and try again")
