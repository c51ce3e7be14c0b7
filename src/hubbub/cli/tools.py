"""`hubbub tools`: lists the tools of a server, or describes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hubbub.cli.client_runner import run_with_client
from hubbub.cli.key_values import describe_arguments, list_parameters
from hubbub.cli.options import Options, ServerCommand, server_options
from hubbub.cli.output import first_line, write_json, write_lines
from hubbub.cli.raw_lists import raw_list
from hubbub.client.client import Client
from hubbub.errors import SettingsError
from hubbub.protocol.results import ToolAnnotations, ToolEntry
from hubbub.settings import format_suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """List the tools of a server, or describe one.

TARGET is a URL, file.py, a name from hubbub.toml or --mcp-json, a pack, or a
command after `--`.

\b
hubbub tools http://127.0.0.1:3000/mcp
hubbub tools weather.py forecast
hubbub tools -- npx -y @modelcontextprotocol/server-everything

Exits with 2 for wrong usage, 3 if the server cannot be reached, 4 if it answers with an error.
"""


@click.command(cls=ServerCommand, help=_HELP, short_help="List the tools of a server.", options_metavar="[OPTION]…")
@click.argument("words", nargs=-1, metavar="TARGET [TOOL]")
@server_options
def command(options: Options, words: tuple[str, ...]) -> int:
    """Write a table, or the description of one tool."""
    config, rest = options.resolve_server(words)
    if len(rest) > 1:
        raise SettingsError(f"give at most one tool, not {' '.join(rest)!r}")

    async def work(client: Client) -> int:
        if options.as_json and not rest:
            write_json(await raw_list(client, client.list_tools, "tools"))
            return 0
        tools = await client.tools()
        if rest:
            tool = find_tool(tools, rest[0])
            write_json(tool) if options.as_json else _show(tool)
        else:
            _show_all(tools)
        return 0

    return run_with_client(config, work, verbosity=options.verbosity)


def find_tool(tools: Sequence[ToolEntry], name: str) -> ToolEntry:
    """Find a tool by name.

    Raises:
        SettingsError: there is none; the message suggests the nearest one.
    """
    for tool in tools:
        if tool.name == name:
            return tool
    raise SettingsError(f"the server has no tool {name!r}{format_suggestion(name, [tool.name for tool in tools])}")


def _show_all(tools: Sequence[ToolEntry]) -> None:
    if not tools:
        write_lines(["The server has no tools."])
        return
    from hubbub.cli.rich_output import show_table

    rows = [(tool.name, describe_arguments(tool.input_schema), first_line(tool.description)) for tool in tools]
    show_table(("TOOL", "ARGUMENTS", "WHAT IT DOES"), rows)


def _show(tool: ToolEntry) -> None:
    lines = [tool.name]
    if isinstance(tool.description, str) and tool.description.strip():
        lines += ["", tool.description.strip()]
    if isinstance(tool.annotations, ToolAnnotations):
        hints = _hints(tool.annotations)
        lines += ["", f"Annotations: {', '.join(hints)}."] if hints else []
    write_lines(lines)
    parameter_rows = list_parameters(tool.input_schema)
    if parameter_rows:
        from hubbub.cli.rich_output import show_table

        write_lines([""])
        rows = [
            (name, kind, "required" if required else "", first_line(summary))
            for name, kind, required, summary in parameter_rows
        ]
        show_table(("ARGUMENT", "TYPE", "", "WHAT IT IS"), rows)


def _hints(annotations: ToolAnnotations) -> list[str]:
    flags = {
        "read-only": annotations.read_only_hint,
        "destructive": annotations.destructive_hint,
        "idempotent": annotations.idempotent_hint,
        "open world": annotations.open_world_hint,
    }
    return [hint for hint, value in flags.items() if value is True]
