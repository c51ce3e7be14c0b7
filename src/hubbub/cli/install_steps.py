"""The steps of `hubbub install`, which are all planned and shown before the first one is applied."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Protocol

import click

from hubbub.cli.diff import write_diff
from hubbub.cli.errors import FAILED, WRONG_USAGE, print_message
from hubbub.cli.output import write_lines
from hubbub.cli.terminal import is_interactive
from hubbub.install.client_commands import run_command
from hubbub.install.clients import Client
from hubbub.install.files import backup_path
from hubbub.install.join_secrets import SecretPlace, create_secret, make_secret_variables
from hubbub.install.machine import Machine
from hubbub.install.registration import Change, apply_install, apply_uninstall, check_replaceable, record_command
from hubbub.server.pack import Preset


class Step(Protocol):
    """One change."""

    def show(self) -> None:
        """Write what it would do to stdout."""

    def apply(self) -> str:
        """Do it; return one line about it.

        Raises: SettingsError.
        """


class FileStep:
    """Replaces or deletes the file of a client."""

    def __init__(self, change: Change, *, is_removal: bool) -> None:
        self._change = change
        self._is_removal = is_removal

    def show(self) -> None:
        change = self._change
        write_diff(str(change.file.path), change.before, change.after or "")
        if change.after is None:
            write_lines([f"{change.file.path} will be deleted, because `hubbub install` created it."])

    def apply(self) -> str:
        change = self._change
        if self._is_removal:
            apply_uninstall(change)
            return f"{change.client.title}: removed {change.name!r} from {change.file.path}"
        apply_install(change)
        backup = f" (backup: {backup_path(change.file).name})" if change.file.data is not None else ""
        verb = "updated" if change.is_update else "registered"
        return f"{change.client.title}: {verb} {change.name!r} in {change.file.path}{backup}"


class CommandStep:
    """Runs the own command of a client: to add an entry, or without `add` to remove it."""

    def __init__(
        self,
        client: Client,
        machine: Machine,
        name: str,
        scope: str,
        *,
        get: Sequence[str] | None,
        remove: Sequence[str],
        add: Sequence[str] | None = None,
    ) -> None:
        self._client = client
        self._entry = (client, machine, name, scope)
        self._get = get
        self._remove = remove
        self._add = add

    def show(self) -> None:
        write_lines([shlex.join(self._add or self._remove)])

    def apply(self) -> str:
        check_replaceable(*self._entry)  # again, because the file may have changed since
        is_registered = self._get is not None and not run_command(self._get, must_succeed=False).returncode
        if self._add is not None:
            if is_registered:  # perhaps in another scope, where `remove` fails and `add` does not mind
                run_command(self._remove, must_succeed=False)
            run_command(self._add)
        elif is_registered or self._get is None:
            run_command(self._remove)
        else:
            return f"{self._client.title}: nothing is registered with this name"
        record_command(*self._entry)
        return f"{self._client.title}: ran `{' '.join((self._add or self._remove)[:3])}`"


class SecretStep:
    """Creates the secret of a preset."""

    def __init__(self, preset: Preset, place: SecretPlace) -> None:
        self._preset = preset
        self._place = place

    def show(self) -> None:
        write_lines([f"The secret will be created in {self._describe_place()}, unless it exists."])

    def apply(self) -> str:
        verb = "created" if create_secret(self._preset, self._place) else "kept"
        return f"Secret {verb} in {self._describe_place()}; give the same one to all peers"

    def _describe_place(self) -> str:
        ((_, value),) = make_secret_variables(self._preset, self._place).items()
        return f"the file {value}" if self._place == "file" else f"the keyring entry {value}"


def run_steps(steps: Sequence[Step], *, is_dry_run: bool, is_confirmed: bool, assume_yes: bool) -> int:
    """Show all steps, ask if there is a terminal, and apply them; return the exit code."""
    for step in steps:
        step.show()
    if is_dry_run or not steps:
        return 0
    if is_interactive() and not assume_yes:
        if not click.confirm("Make these changes?", err=True):
            return FAILED
    elif not is_confirmed:
        print_message("nothing was changed; choose clients with --client NAME, or use --yes for all of these")
        return WRONG_USAGE
    for step in steps:
        write_lines([step.apply()])
    return 0
