"""`vdon-mcp-install`: registers the pack peers with the flags and exit codes of the original VDO.Ninja installer.

Calls `codex` and `claude`, as the original does. `hubbub install` knows more clients.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from shutil import which
from typing import Final

import click
import msgspec

from hubbub.cli.errors import FAILED, INTERRUPTED
from hubbub.cli.output import write_lines
from hubbub.errors import HubbubError, SettingsError
from hubbub.install.client_commands import make_get_command, run_command
from hubbub.install.clients import find_client
from hubbub.install.hubbub_entry import check_name, find_preset, make_serve_command

_PACK: Final = "peers"
_PROGRAM: Final = "vdon-mcp-install"
_SCOPES: Final = ("local", "user", "project")
_HELP: Final = """Register the VDO.Ninja tools (the pack peers) in Codex and Claude Code.

Calls the programs `codex` and `claude`; one that is not installed is skipped. An existing entry
of the same name is replaced. Exits with 1 on every failure, also if neither is
installed.

\b
vdon-mcp-install
vdon-mcp-install --preset secure-core
vdon-mcp-install --uninstall
"""


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    uninstall: bool
    name: str
    server_script: str | None
    node_cmd: str | None
    preset: str
    server_args: tuple[str, ...]
    codex_only: bool
    claude_only: bool
    claude_scope: str
    dry_run: bool


@click.command(_PROGRAM, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--uninstall", is_flag=True, help="Remove the entry.")
@click.option("--name", default="vdo-ninja-mcp", show_default=True, help="The name of the entry.")
@click.option("--server-script", metavar="FILE", help="Start this script instead of Hubbub.")
@click.option(
    "--node-cmd", metavar="PROGRAM", help="The interpreter of the server. Default: this Python, or node for a script."
)
@click.option(
    "--preset", default="full", show_default=True, help="core, file, state, full, secure-core or secure-full."
)
@click.option(
    "--server-arg",
    "server_args",
    multiple=True,
    metavar="TEXT",
    help="An additional argument of the server; may be repeated.",
)
@click.option("--codex-only", is_flag=True, help="Only Codex.")
@click.option("--claude-only", is_flag=True, help="Only Claude Code.")
@click.option("--claude-scope", default="local", show_default=True, help="local, user or project.")
@click.option("--dry-run", is_flag=True, help="Only print the commands.")
def command(**values: object) -> int:
    """Run the installer; the options are those of `--help`."""
    return _install(msgspec.convert(values, _Options))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the installer; return the exit code: 0, or 1 for every failure, as the original."""
    try:
        code = command.main(list(sys.argv[1:] if argv is None else argv), prog_name=_PROGRAM, standalone_mode=False)
    except click.ClickException as error:
        return _report(f"{error.format_message().rstrip('.')} (see `{_PROGRAM} --help`)")
    except HubbubError as error:
        return _report(error.message)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return int(code or 0)


def _install(options: _Options) -> int:
    check_name(options.name)
    if options.claude_scope not in _SCOPES:
        raise SettingsError(f"unknown scope {options.claude_scope!r}; known: {', '.join(_SCOPES)}")
    if options.codex_only and options.claude_only:
        raise SettingsError("--codex-only and --claude-only cannot be combined")
    server = [] if options.uninstall else _server_command(options)
    adds = {
        "codex": ["codex", "mcp", "add", options.name, "--", *server],
        "claude": ["claude", "mcp", "add", "-s", options.claude_scope, options.name, "--", *server],
    }
    skipped = {"claude"} if options.codex_only else {"codex"} if options.claude_only else set()
    programs = [program for program in adds if program not in skipped and _is_installed(program)]
    if not programs:
        if options.uninstall:
            return 0
        wanted = " or ".join(program for program in adds if program not in skipped)
        raise SettingsError(f"cannot run {wanted}; install it, or register other clients with `hubbub install`")
    for program in programs:
        _register(program, options, [] if options.uninstall else adds[program])
    return 0


def _server_command(options: _Options) -> list[str]:
    preset = find_preset(options.preset, (_PACK,)).preset
    if preset.secret is not None and not any(
        os.environ.get(name) for name in (preset.secret, f"{preset.secret}_FILE", preset.keyring) if name
    ):
        _warn(f"the preset {options.preset} needs {preset.secret}; set it in the client's environment")
    if options.server_script is not None:
        return [options.node_cmd or "node", options.server_script, *preset.arguments, *options.server_args]
    own = make_serve_command([_PACK], [*preset.arguments, *options.server_args])
    return [options.node_cmd or own[0], *own[1:]]


def _is_installed(program: str) -> bool:
    is_found = which(program) is not None and not run_command([program, "--version"], must_succeed=False).returncode
    if not is_found:
        _warn(f"{program} was not found and is skipped")
    return is_found


def _register(program: str, options: _Options, add: list[str]) -> None:
    """Replace or remove the entry of one client, and show it."""
    client = find_client("codex" if program == "codex" else "claude-code")
    get = make_get_command(client, options.name, options.claude_scope) or []
    scope = ["-s", options.claude_scope] if program == "claude" else []
    is_registered = run_command(get, must_succeed=False).returncode == 0
    commands = [[program, "mcp", "remove", *scope, options.name]] if is_registered else []
    if not commands and not add:
        write_lines([f"{client.title}: {options.name!r} is not registered, nothing to remove"])
    commands += [add] if add else []
    for each in commands:
        if options.dry_run:
            write_lines([f"[dry-run] {shlex.join(each)}"])
        else:
            # `get` also finds entries of other scopes, which `remove` cannot remove and `add` does not mind.
            run_command(each, must_succeed=each is add or not add)
            write_lines([f"{client.title}: {shlex.join(each[:3])} {options.name}"])
    if add and not options.dry_run:
        write_lines(run_command(get, must_succeed=False).stdout.splitlines())


def _warn(text: str) -> None:
    click.echo(f"{_PROGRAM}: warning: {text}", err=True)


def _report(text: str) -> int:
    click.echo(f"{_PROGRAM}: {' '.join(text.split())}", err=True)
    return FAILED
