"""Plans and makes the changes of `hubbub import`: servers of clients become sections of a settings file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.hub.config import HUB_ID
from hubbub.install.clients import Client
from hubbub.install.documents import find_entry, parse, set_entry
from hubbub.install.entries import container_path, read_entry
from hubbub.install.entry_conversion import EntryReader
from hubbub.install.files import ClientFile, check_writable, read_file, write_file
from hubbub.install.machine import Machine
from hubbub.install.records import Records
from hubbub.install.secret_values import StoredSecrets
from hubbub.settings.folders import user_settings_path
from hubbub.settings.sources import DEFAULT_FILE, SERVERS
from hubbub.settings.trust import read_folder_file, trust
from hubbub.settings.variables import read_variables, write_variables

_INVALID_NAME_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_RUNNERS: Final = ("pipx", "uv", "uvx")


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A planned change of a settings file."""

    file: ClientFile
    before: str
    after: str
    added: tuple[str, ...]
    """One line for each server that is added."""
    present: tuple[str, ...]
    """One line for each server that the file has already."""
    left_out: tuple[str, ...]
    """One line for each entry that is left out, with the reason."""
    unreadable: tuple[str, ...]
    """One line for each client whose file cannot be read."""
    variables: dict[str, str]
    """Secrets to be stored, by the variable that refers to them."""
    missing: tuple[str, ...]
    """Variables that are referred to and not set."""
    incomplete: tuple[str, ...]
    """One line for each server that is added without a part of its entry, with what to do."""


class _Draft:
    """The text of the settings file, to which sections are added."""

    def __init__(self, file: ClientFile) -> None:
        self.text = file.text
        self._path = file.path
        self._servers = self._read_servers()

    def add(self, wanted: str, client: str, section: dict[str, Any]) -> tuple[str, bool]:
        """Add a section under a free name: the wanted one, else one with the client's.

        Returns its name, and False if the file has the same section under such a name already.
        """
        for name, present in self._servers.items():
            if present == section and (name == wanted or name.startswith(f"{wanted}-")):
                return name, False
        names = chain((wanted, f"{wanted}-{client}"), (f"{wanted}-{client}-{number}" for number in count(2)))
        name = next(name for name in names if name not in self._servers and name != HUB_ID)
        self.text = set_entry(self.text, "toml", (SERVERS, name), section)
        self._servers[name] = section
        return name, True

    def _read_servers(self) -> dict[str, Any]:
        try:
            servers = find_entry(parse(self.text, "toml"), (SERVERS,))
        except SettingsError as error:
            raise SettingsError(f"{self._path}: {error.message}") from None
        if servers is not None and not isinstance(servers, dict):
            raise SettingsError(f"{self._path}: `{SERVERS}` is not a table; write [{SERVERS}.NAME] for each server")
        return dict(servers or {})


def plan_import(clients: Sequence[Client], machine: Machine, target: Path, *, is_strict: bool) -> ImportPlan:
    """Plan to add the servers of clients to a settings file.

    A client's file that cannot be read is left out, or with `is_strict` an error.

    Raises: SettingsError, if the settings file cannot be read, edited or trusted.
    """
    file = read_file(target)
    _refuse_untrusted(file)
    draft = _Draft(file)
    secrets = StoredSecrets(read_variables(), machine.environ)
    added: list[str] = []
    present: list[str] = []
    left_out: list[str] = []
    unreadable: list[str] = []
    missing: list[str] = []
    incomplete: list[str] = []
    for client in clients:
        reader = EntryReader(client, secrets, machine.home)
        try:
            entries = _read_client(client, machine)
        except SettingsError as error:
            if is_strict:
                raise
            unreadable.append(f"{client.title} is left out: {error.message}")
            continue
        for name, entry, is_own in entries:
            if is_own:
                left_out.append(f"{client.title}: {name!r} is Hubbub itself")
                continue
            wanted = _clean_name(name)
            try:
                section = reader.convert(wanted, entry)
                chosen, is_new = draft.add(wanted, client.name, section)
            except SettingsError as error:
                left_out.append(f"{client.title}: {name!r} {error.message}")
                continue
            origin = f"{chosen}: {_describe(section)} (from {client.title})"
            (added if is_new else present).append(origin)
            if is_new and isinstance(entry, dict) and entry.get("envFile"):
                incomplete.append(
                    f"{client.title}: {name!r} has an envFile, which is not imported; "
                    f"copy its variables to `env` of [{SERVERS}.{chosen}]"
                )
        missing += [name for name in reader.missing if name not in missing]
    if draft.text != file.text:
        check_writable(file, "choose another file with --config")
    return ImportPlan(
        file=file,
        before=file.text,
        after=draft.text,
        added=tuple(added),
        present=tuple(present),
        left_out=tuple(left_out),
        unreadable=tuple(unreadable),
        variables=_used_variables(secrets.added, draft.text),
        missing=tuple(missing),
        incomplete=tuple(incomplete),
    )


def apply_import(plan: ImportPlan) -> None:
    """Store the secrets, write the settings file, and trust it.

    Raises: SettingsError. The settings file is then unchanged.
    """
    if plan.variables:
        write_variables({**read_variables(), **plan.variables})
    write_file(plan.file, plan.file.encode(plan.after))
    if _needs_trust(plan.file):
        found = read_folder_file(str(plan.file.path), is_to_be_trusted=True)
        if found.refused and found.file.text == plan.after:
            trust(found)


def _refuse_untrusted(file: ClientFile) -> None:
    """Fail if the file has settings that were not reviewed: they would be trusted together with the new ones.

    Raises: SettingsError.
    """
    if file.data is None or not _needs_trust(file):
        return
    found = read_folder_file(str(file.path))
    if found.refused and not found.is_trusted:
        raise SettingsError(f"{found.problem}; review it, run `hubbub trust {found.folder}`, then import again")


def _needs_trust(file: ClientFile) -> bool:
    """Whether the file is also read without being named, by commands that run in its folder."""
    return file.path.name == DEFAULT_FILE and file.target != Path(user_settings_path()).resolve()


def _read_client(client: Client, machine: Machine) -> list[tuple[str, Any, bool]]:
    """Return the names and entries in the file of a client, and whether each is Hubbub itself."""
    file = read_file(client.path(machine))
    try:
        values = parse(file.text, client.format)
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None
    paths = [container_path(client, values)]
    if client.name == "claude-code":  # The scope `local`, where `claude mcp add` writes by default.
        paths.append(("projects", str(machine.folder), *client.key))
    entries = [item for path in paths for item in _read_servers(file, values, path)]
    if len(entries) > bounds.IMPORTED_SERVERS:
        raise SettingsError(
            f"{file.path} has {len(entries)} servers, and at most {bounds.IMPORTED_SERVERS} can be imported"
        )
    records = Records(file.target)
    return [
        (name, entry, (records.find(name) is not None or _is_hubbub(entry)) and not _serves_program(entry))
        for name, entry in entries
    ]


def _read_servers(file: ClientFile, values: dict[str, Any], path: Sequence[str]) -> list[tuple[str, Any]]:
    servers = find_entry(values, path)
    if servers is not None and not isinstance(servers, dict):
        raise SettingsError(f"{file.path}: `{'.'.join(path)}` is not an object")
    return [(str(name), entry) for name, entry in (servers or {}).items()]


def _is_hubbub(entry: Any) -> bool:
    """Whether an entry starts Hubbub, also through a program that installs it first."""
    server = read_entry("", entry)
    if server is None or not server.command:
        return False
    runner = re.split(r"[\\/]", server.command[0])[-1].removesuffix(".exe")
    packages = {re.split(r"[\[@=<>~!]", part)[0] for part in server.command[1:]} if runner in _RUNNERS else set()
    return server.is_hubbub() or bool(packages & {"hubbub", "vdo-mcp-server"})


def _serves_program(entry: Any) -> bool:
    """Whether an entry serves a program of the user, `hubbub serve weather.py`, and not Hubbub itself."""
    server = read_entry("", entry)
    command = server.command if server is not None else ()
    return any(
        word == "serve" and not following.startswith("-") and ".py" in following
        for word, following in pairwise(command)
    )


def _clean_name(name: str) -> str:
    """Make a name that can be a prefix of the names of tools."""
    return _INVALID_NAME_CHARACTERS.sub("-", name).strip("-") or "server"


def _describe(section: dict[str, Any]) -> str:
    """Describe a section in a few words. Its arguments are in the diff."""
    return str(section.get("url") or section["command"])


def _used_variables(added: dict[str, str], text: str) -> dict[str, str]:
    """Leave out the secrets of entries that were left out."""
    return {name: value for name, value in added.items() if f"${{{name}}}" in text}
