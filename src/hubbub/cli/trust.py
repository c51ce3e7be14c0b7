"""`hubbub trust`: allow the hubbub.toml of a folder to start programs, open URLs and set limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from hubbub.cli.errors import FAILED
from hubbub.cli.exit_codes import replace_controls
from hubbub.cli.output import write_lines
from hubbub.cli.terminal import is_interactive
from hubbub.errors import SettingsError
from hubbub.security.redact import redact
from hubbub.settings.fields import Setting
from hubbub.settings.file_keys import iter_keys
from hubbub.settings.sources import DEFAULT_FILE, Key
from hubbub.settings.trust import FolderFile, read_folder_file, remove_trust, trust, trusted_folders

_MAX_SHOWN_CHARACTERS: Final = 400
_HELP: Final = """Allow the hubbub.toml of FOLDER (default: the current folder) to use every setting.

A hubbub.toml in the current folder may have come with a repository that you cloned, so by
default it can only define views and set how tools are displayed. Settings that start
programs, open URLs or files, change limits or reduce security are ignored until you trust
the folder: a server on stdio starts without them and prints a warning, and a server over
HTTP does not start.

This command shows the settings and the files that they refer to, and asks for confirmation.
It stores digests of these files and asks again when one of them changes. Files that an
mcp.json refers to are included. Not checked: programs on the PATH, folders, and files that
the other files load.

\b
hubbub trust                  review hubbub.toml in this folder, then answer yes or no
hubbub trust ~/work --yes     trust without a question, for scripts
hubbub trust --list           list the trusted folders and their state
hubbub trust --remove         stop trusting this folder

A file named with --config or HUBBUB_CONFIG, and your own settings file, are always trusted.
Exit code 1: you answered no. Exit code 2: there is no terminal for the question.
"""


@click.command(help=_HELP, short_help="Allow the hubbub.toml of a folder to start programs and open URLs.")
@click.argument("folder", required=False, default=".")
@click.option("--yes", "assume_yes", is_flag=True, help="Trust without asking.")
@click.option("--list", "lists", is_flag=True, help="List the folders that are trusted.")
@click.option("--remove", "removes", is_flag=True, help="Stop trusting the folder.")
def command(folder: str, assume_yes: bool, lists: bool, removes: bool) -> int:
    if lists:
        write_lines(_format_folder(name) for name in trusted_folders())
        return 0
    if removes:
        if not remove_trust(folder):
            raise SettingsError(f"{Path(folder).resolve()} is not a trusted folder; see `hubbub trust --list`")
        write_lines([f"{Path(folder).resolve()} is no longer trusted."])
        return 0
    folder_file = read_folder_file(str(Path(folder, DEFAULT_FILE)), is_to_be_trusted=True)
    if not folder_file.refused:
        write_lines(
            [f"{DEFAULT_FILE} in {folder_file.folder} sets only how things are displayed, which needs no trust."]
        )
        return 0
    if folder_file.is_trusted:
        write_lines([f"{DEFAULT_FILE} in {folder_file.folder} is already trusted."])
        return 0
    return 0 if ask_for_trust(folder_file, assume_yes=assume_yes) else FAILED


def ask_for_trust(folder_file: FolderFile, *, assume_yes: bool = False) -> bool:
    """Show what the file of a folder sets, and trust it if the user confirms.

    Raises: SettingsError, if there is no terminal to ask at.
    """
    for line in _describe_file(folder_file):
        click.echo(line.replace("\n", "\N{REPLACEMENT CHARACTER}"), err=True)  # names may contain line breaks
    if not assume_yes:
        if not is_interactive():
            raise SettingsError("no terminal to ask for confirmation; read the file, then run `hubbub trust --yes`")
        if not click.confirm("Trust it until one of these files changes?", err=True):
            return False
    trust(folder_file)
    click.echo(f"{DEFAULT_FILE} in {folder_file.folder} is trusted now.", err=True)
    return True


def _describe_file(folder_file: FolderFile) -> Iterator[str]:
    if folder_file.changed:
        yield replace_controls(f"{folder_file.problem}.")
    yield replace_controls(f"{DEFAULT_FILE} in {folder_file.folder} sets:")
    settings = dict(iter_keys(folder_file.file.tree))
    for key in folder_file.refused:
        yield f"  {_format_setting(key, settings[key], folder_file)}"
    others = [path for path in folder_file.digests if Path(path) != Path(folder_file.folder, DEFAULT_FILE)]
    if others:
        yield "It refers to these files, which may be programs:"
        yield from (replace_controls(f"  {path}") for path in others)


def _format_setting(key: Key, setting: Setting | None, folder_file: FolderFile) -> str:
    value: Any = folder_file.file.tree
    for name in key:
        value = value[name]
    name = ".".join(key)
    if setting is not None and setting.is_secret:
        names = ", ".join(value) if isinstance(value, dict) else ""
        return replace_controls(f"{name}: {names or 'a secret'} (values are not shown)")
    text = json.dumps(value, ensure_ascii=False, default=str)
    shown = text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"
    return replace_controls(redact(f"{name} = {shown}"))


def _format_folder(folder: str) -> str:
    path = Path(folder, DEFAULT_FILE)
    if not path.is_file():
        return replace_controls(f"gone     {folder}")
    try:
        folder_file = read_folder_file(str(path))
    except SettingsError:
        return replace_controls(f"changed  {folder}")
    return replace_controls(
        f"{'trusted' if folder_file.is_trusted or not folder_file.refused else 'changed'}  {folder}"
    )
