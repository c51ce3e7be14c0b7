"""The commands of `hubbub`: built-in ones, imported when they are used, and those of packs."""

from __future__ import annotations

from typing import Any, Final

import click

from hubbub import __version__
from hubbub.assembly.pack_discovery import PackEntry, find_packs
from hubbub.cli.errors import INTERRUPTED, WRONG_USAGE, print_message
from hubbub.errors import HubbubError
from hubbub.server.pack import Command, load_object
from hubbub.settings import format_suggestion

COMMANDS: Final = {
    "agent": "hubbub.cli.agent:command",
    "approvals": "hubbub.cli.approvals:command",
    "audit": "hubbub.cli.audit:command",
    "call": "hubbub.cli.call:command",
    "doctor": "hubbub.cli.doctor:command",
    "import": "hubbub.cli.import_servers:command",
    "install": "hubbub.cli.install:command",
    "key": "hubbub.cli.key:command",
    "keys": "hubbub.cli.keys:command",
    "login": "hubbub.cli.login:command",
    "logout": "hubbub.cli.logout:command",
    "pins": "hubbub.cli.pins:command",
    "plan": "hubbub.cli.plan:command",
    "policy": "hubbub.cli.policy:command",
    "prompts": "hubbub.cli.prompts:command",
    "read": "hubbub.cli.read:command",
    "serve": "hubbub.cli.serve:command",
    "sessions": "hubbub.cli.sessions:command",
    "tools": "hubbub.cli.tools:command",
    "trust": "hubbub.cli.trust:command",
    "whoami": "hubbub.cli.whoami:command",
}
_HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}


def run_command(arguments: list[str]) -> int:
    """Run the command that the arguments name; return the exit code."""
    try:
        code = hubbub.main(arguments, prog_name="hubbub", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return WRONG_USAGE
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "hubbub"
        print_message(f"{error.format_message().rstrip('.')} (see `{path} --help`)")
        return error.exit_code
    except click.Abort as error:  # click raises it for Ctrl+C and at the end of input.
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else WRONG_USAGE
    return int(code or 0)


class Commands(click.Group):
    """Finds commands by name; loads packs only for names that are not built in."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*sorted(COMMANDS), *sorted(_pack_commands())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        object_path = COMMANDS.get(cmd_name)
        if object_path is not None:
            command: click.Command = load_object(object_path)
            return command
        pack_command = _pack_commands().get(cmd_name)
        return None if pack_command is None else _make_click_command(cmd_name, *pack_command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command of these arguments; the error for an unknown name suggests the nearest one."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise click.UsageError(
                f"unknown command {args[0]!r}{format_suggestion(args[0], self.list_commands(ctx))}", ctx
            )
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings=_HELP_NAMES, subcommand_metavar="COMMAND …")
@click.version_option(__version__, prog_name="hubbub", message="%(prog)s %(version)s")
def hubbub() -> None:
    """Give AI agents tools through the Model Context Protocol.

    \b
    hubbub serve weather.py --transport stdio   serve the tools of a program
    hubbub serve                                serve every pack that can run
    hubbub tools https://example.com/mcp        list the tools of a server
    hubbub call weather.py forecast city=Lima   call one
    hubbub login https://example.com/mcp        log in at a server that is protected by OAuth
    hubbub install                              register Hubbub in the MCP clients on this machine
    hubbub import                               put a hub in front of the servers that they have
    hubbub keys create ada --tenant acme        let a person use a hub for a team
    hubbub doctor                               check the installation
    """


def _pack_commands() -> dict[str, tuple[PackEntry, Command]]:
    commands_by_name: dict[str, tuple[PackEntry, Command]] = {}
    for entry in find_packs().values():
        try:
            commands = entry.pack.commands
        except HubbubError:
            continue  # `hubbub doctor` shows what is wrong with it.
        for name, command in commands.items():
            commands_by_name.setdefault(name, (entry, command))
    return commands_by_name


def _make_click_command(name: str, entry: PackEntry, pack_command: Command) -> click.Command:
    """Make a command that passes its arguments on unparsed, because packs have their own parsers."""

    @click.command(
        name,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        short_help=f"{pack_command.summary.rstrip('.')} (pack {entry.name}).",
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> int:
        entry.require_runnable()
        return int(load_object(pack_command.function)(list(arguments)) or 0)

    return command
