"""`hubbub import`: copies the servers of MCP clients into a settings file, so that a hub serves all of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from hubbub.cli.diff import write_diff
from hubbub.cli.errors import FAILED, WRONG_USAGE, print_message
from hubbub.cli.output import write_lines
from hubbub.cli.terminal import is_interactive
from hubbub.errors import SettingsError
from hubbub.install.clients import CLIENTS, Client, detect_clients, find_client, split_installations
from hubbub.install.import_plan import ImportPlan, apply_import, plan_import
from hubbub.install.machine import Machine, this_machine
from hubbub.settings.folders import user_settings_path
from hubbub.settings.variables import variables_path

_NAMES: Final = ", ".join(client.name for client in CLIENTS)
_HELP: Final = f"""Copy the servers of MCP clients into your settings file.

Clients: {_NAMES}.

`hubbub serve` then serves all of them at one endpoint. The files of the clients stay as they
are. Shows the new sections and asks; without a terminal and without --client or --yes, only
shows them, and exits with 2.

\b
hubbub import                                 every client that is found
hubbub import --client cursor --dry-run       show the servers of Cursor
hubbub import --config hub.toml --yes         into another file

Secrets are not written into the settings: they become references such as ${{GITHUB_TOKEN}},
and their values are stored in a file that only you can read. Entries of Hubbub itself, and
entries that a hub cannot serve, are left out and listed with the reason. If the file of a client cannot be read,
the others are imported, and the exit code is 2.
"""


@click.command(help=_HELP, short_help="Copy the servers of MCP clients into your settings.")
@click.option("--client", "names", multiple=True, metavar="NAME", help="Only this client; may be repeated.")
@click.option("--config", metavar="FILE", help="The settings file. Default: your own.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", "assume_yes", is_flag=True, help="Write the file without asking.")
def command(names: tuple[str, ...], config: str | None, dry_run: bool, assume_yes: bool) -> int:
    machine = this_machine()
    clients = _choose_clients(names, machine)
    target = Path(config if config is not None else user_settings_path()).expanduser()
    plan = plan_import(clients, machine, target, is_strict=bool(names))
    _show(plan)
    code = WRONG_USAGE if plan.unreadable else 0
    if not plan.added:
        write_lines(["There is no server to import."])
        return code
    if dry_run:
        return code
    if is_interactive() and not assume_yes:
        if not click.confirm(f"Write {_count_servers(plan)} to {plan.file.path}?", err=True):
            return FAILED
    elif not names and not assume_yes:
        print_message("nothing was changed; choose clients with --client NAME, or use --yes for all of these")
        return WRONG_USAGE
    apply_import(plan)
    flag = "" if config is None else f" --config {shlex.quote(config)}"
    lines = [f"Imported {_count_servers(plan)} into {plan.file.path}. Serve them: hubbub serve{flag}"]
    if config is None:  # What `hubbub install` registers reads no other file.
        lines.append("To use them through Hubbub only, remove them from the clients and run `hubbub install`.")
    write_lines(lines)
    return code


def _choose_clients(names: Sequence[str], machine: Machine) -> list[Client]:
    found = [find_client(name) for name in dict.fromkeys(names)] if names else detect_clients(machine)
    if not found:
        raise SettingsError(f"no MCP client was found; name one with --client: {_NAMES}")
    return split_installations(found, machine)


def _show(plan: ImportPlan) -> None:
    if plan.added:
        write_diff(str(plan.file.path), plan.before, plan.after, masks_additions=False)
    write_lines(_notes(plan))
    for line in plan.unreadable:
        print_message(line)


def _notes(plan: ImportPlan) -> Iterator[str]:
    yield from (f"add      {line}" for line in plan.added)
    yield from (f"present  {line}" for line in plan.present)
    yield from (f"left out {line}" for line in plan.left_out)
    yield from plan.incomplete
    if plan.variables:
        yield f"Secrets are stored in {variables_path()}: {', '.join(plan.variables)}"
    if plan.added and plan.missing:
        yield f"These variables are not set, so servers get empty values: {', '.join(plan.missing)}"


def _count_servers(plan: ImportPlan) -> str:
    return "1 server" if len(plan.added) == 1 else f"{len(plan.added)} servers"
