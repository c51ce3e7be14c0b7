"""`hubbub install`: registers Hubbub in MCP clients, and removes it again."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Final, Literal, get_args

import click

from hubbub.cli.install_steps import CommandStep, FileStep, SecretStep, Step, run_steps
from hubbub.cli.output import write_lines
from hubbub.cli.terminal import note
from hubbub.errors import SettingsError
from hubbub.install import links
from hubbub.install.client_commands import make_add_command, make_get_command, make_remove_command
from hubbub.install.clients import CLIENTS, Client, detect_clients, find_client, split_installations
from hubbub.install.entries import ServerEntry, format_entry, missing_variables
from hubbub.install.hubbub_entry import DEFAULT_NAME, Choice, check_name, find_preset, make_default_name, make_entry
from hubbub.install.join_secrets import SecretPlace
from hubbub.install.machine import Machine, this_machine
from hubbub.install.registration import check_replaceable, plan_install, plan_uninstall

_NAMES: Final = ", ".join(client.name for client in CLIENTS)
_HELP: Final = f"""Register Hubbub in MCP clients.

Clients: {_NAMES}.

TARGET is a program that defines a server, file.py or file.py:name. Without it, the installed
packs are registered, or those named with --pack.

Finds the clients that are installed, shows how their files would change, and asks. Other
entries, comments and the layout of a file stay as they are; the version before the first entry
of Hubbub is saved next to it with the suffix .hubbub-backup. Without a terminal and without
--client or --yes, only shows the changes, and exits with 2.

\b
hubbub install                                    every client that is found
hubbub install weather.py                         your own server, with the name weather
hubbub install --client cursor --client codex     only these
hubbub install --pack tabletop --scope project    one pack, for this folder
hubbub install --preset core                      the pack peers, messages only
hubbub install --url https://hub.example/mcp --key-env HUB_KEY
hubbub install --uninstall                        remove it again

The registered command starts this Python by its absolute path, so it works in any folder.
Secrets are never written: entries refer to environment variables, in the syntax of each client.
"""

PrintFormat = Literal["codex", "claude-code", "cursor-link", "cursor-badge", "vscode-link", "vscode-badge"]


@click.command(help=_HELP, short_help="Register Hubbub in MCP clients.")
@click.argument("target", required=False)
@click.option("--client", "names", multiple=True, metavar="NAME", help="Only this client; may be repeated.")
@click.option("--scope", type=click.Choice(["user", "project"]), default="user", show_default=True,
              help="Edit your own file, or that of the project in the current folder.")  # fmt: skip
@click.option("--preset", metavar="NAME", help="A named set of arguments from a pack. The pack peers has core, file, "
              "state, full, secure-core and secure-full.")  # fmt: skip
@click.option("--pack", "packs", multiple=True, metavar="NAME", help="Serve only this pack; may be repeated.")
@click.option("--url", metavar="URL", help="Register the running hub at this URL, instead of a command.")
@click.option(
    "--key-env", "key_variable", metavar="VARIABLE", help="The environment variable with the API key for --url."
)
@click.option("--name", help=f"The name of the entry. Default: that of TARGET, or {DEFAULT_NAME}.")
@click.option("--create-secret", "secret_place", type=click.Choice(["keyring", "file"]),
              help="Where to create the secret of a secure preset, unless it exists.")  # fmt: skip
@click.option("--uninstall", is_flag=True, help="Remove the entry.")
@click.option("--use-cli", is_flag=True, help="Call the client's own command instead of editing its file.")
@click.option("--print", "print_format", type=click.Choice(get_args(PrintFormat)),
              help="Print an entry, an installation link or a badge, and change nothing.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", "assume_yes", is_flag=True, help="Change the files without asking.")
def command(
    *,
    target: str | None,
    names: tuple[str, ...],
    scope: str,
    preset: str | None,
    packs: tuple[str, ...],
    url: str | None,
    key_variable: str | None,
    name: str | None,
    secret_place: SecretPlace | None,
    uninstall: bool,
    use_cli: bool,
    print_format: PrintFormat | None,
    dry_run: bool,
    assume_yes: bool,
) -> int:
    """Run the command; the options are those of `--help`."""
    machine = this_machine()
    name = make_default_name(target) if name is None else name
    check_name(name)
    is_confirmed = bool(names) or assume_yes
    has_several_files = scope == "user" and not use_cli
    if uninstall and print_format is not None:
        raise SettingsError("--print shows an entry and --uninstall removes one; use one of them")
    if uninstall:
        clients = _choose_clients(names, machine, has_several_files=has_several_files)
        steps = _plan_removals(clients, machine, name, scope, use_cli=use_cli, is_named=bool(names))
        if not steps:
            write_lines([f"{name!r} is not registered in any of these clients."])
        return run_steps(steps, is_dry_run=dry_run, is_confirmed=is_confirmed, assume_yes=assume_yes)
    choice = Choice(
        name=name,
        target=target,
        packs=packs,
        preset=preset,
        url=url,
        key_variable=key_variable,
        secret_place=secret_place,
    )
    server = make_entry(choice)
    if print_format is not None:
        if secret_place is not None:
            raise SettingsError("--print changes nothing, so it creates no secret; leave out --create-secret")
        write_lines([render_entry(print_format, server)])
        _write_notes(server, [])
        return 0
    clients = _choose_clients(names, machine, has_several_files=has_several_files)
    steps = _plan_entries(clients, machine, server, scope, use_cli=use_cli, is_named=bool(names))
    _write_notes(server, clients)
    if secret_place is not None and preset is not None:
        steps.insert(0, SecretStep(find_preset(preset, packs).preset, secret_place))
    return run_steps(steps, is_dry_run=dry_run, is_confirmed=is_confirmed, assume_yes=assume_yes)


def render_entry(form: PrintFormat, server: ServerEntry) -> str:
    """Return an entry in the form of `--print`."""
    match form:
        case "cursor-link":
            return links.make_cursor_link(server)
        case "cursor-badge":
            return links.make_cursor_badge(server)
        case "vscode-link":
            return links.make_vscode_link(server)
        case "vscode-badge":
            return links.make_vscode_badge(server)
    if server.is_remote:
        raise SettingsError("--print codex and --print claude-code show a command; leave out --url")
    entry = {"command": server.command[0], "args": list(server.command[1:])}
    shown = {"name": server.name, **entry} if form == "codex" else {"mcpServers": {server.name: entry}}
    return json.dumps(shown, indent=2, ensure_ascii=False)


def _choose_clients(names: Sequence[str], machine: Machine, *, has_several_files: bool) -> list[Client]:
    found = [find_client(name) for name in dict.fromkeys(names)] if names else detect_clients(machine)
    if not found:
        known = ", ".join(client.name for client in CLIENTS)
        raise SettingsError(f"no MCP client was found; name one with --client: {known}")
    return split_installations(found, machine) if has_several_files else found


def _plan_entries(
    clients: Sequence[Client], machine: Machine, server: ServerEntry, scope: str, *, use_cli: bool, is_named: bool
) -> list[Step]:
    """Plan all changes. Clients that were found, but cannot have this entry, are left out with a note."""
    steps: list[Step] = []
    left_out = 0
    for client in clients:
        step: Step | None = None
        try:
            if use_cli:
                add, get = make_add_command(client, server, scope), make_get_command(client, server.name, scope)
                remove = make_remove_command(client, server.name, scope) if get is not None else []
                step = CommandStep(client, machine, server.name, scope, get=get, remove=remove, add=add)
            else:
                format_entry(client, server)
                client.path(machine, scope)
        except SettingsError as error:
            if is_named:
                raise
            note(f"{client.title} is left out: {error.message}")
            left_out += 1
            continue
        if step is not None:
            check_replaceable(client, machine, server.name, scope)
            steps.append(step)
            continue
        change = plan_install(client, machine, server, scope)
        if change.is_needed:
            steps.append(FileStep(change, is_removal=False))
        else:
            write_lines([f"{client.title}: {server.name!r} is already registered in {change.file.path}"])
    if left_out == len(clients):
        raise SettingsError("none of the clients that were found can have this entry")
    return steps


def _plan_removals(
    clients: Sequence[Client], machine: Machine, name: str, scope: str, *, use_cli: bool, is_named: bool
) -> list[Step]:
    steps: list[Step] = []
    for client in clients:
        if use_cli:
            try:
                remove, get = make_remove_command(client, name, scope), make_get_command(client, name, scope)
            except SettingsError as error:
                if is_named:
                    raise
                note(f"{client.title} is left out: {error.message}")
                continue
            check_replaceable(client, machine, name, scope)
            steps.append(CommandStep(client, machine, name, scope, get=get, remove=remove))
        elif scope == "user" or client.project or is_named:
            change = plan_uninstall(client, machine, name, scope)
            if change is not None:
                steps.append(FileStep(change, is_removal=True))
    return steps


def _write_notes(server: ServerEntry, clients: Sequence[Client]) -> None:
    """Say which variables must be set, and which clients cannot pass them on."""
    needed = [*server.variables, *([server.key_variable] if server.key_variable else [])]
    for variable in needed:
        if not os.environ.get(variable):
            note(f"Set the variable {variable} where the client starts; it is not set here.")
    unable = [client.title for client in clients if missing_variables(client, server)]
    if unable:
        note(
            f"{', '.join(unable)}: entries cannot refer to environment variables; use --create-secret keyring or file."
        )
    if any(mark in "".join(server.command[:1]) for mark in ("/uv/archive-v", "/uv/environments-v")):
        note("This Python is in uv's cache and may be deleted; install Hubbub with `uv tool install` first.")
