"""`hubbub call`: calls a tool, once, and shows its result."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from hubbub import bounds
from hubbub.cli.client_runner import run_with_client
from hubbub.cli.content_lines import failure_lines, tool_lines
from hubbub.cli.exit_codes import TOOL_FAILED
from hubbub.cli.key_values import read_arguments, read_object
from hubbub.cli.options import Options, ServerCommand, server_options
from hubbub.cli.output import write_json, write_lines
from hubbub.cli.tools import find_tool
from hubbub.client.client import Client
from hubbub.errors import SettingsError
from hubbub.protocol.results import ToolResult

if TYPE_CHECKING:
    from hubbub.cli.rich_output import ProgressBar

_HELP = """Call a tool and show its result.

Arguments are key=value, converted to the types of the tool's schema; key:=JSON is always JSON,
and a repeated key is a list. Or give all arguments as one object: --args JSON, or - for stdin.

\b
hubbub call http://127.0.0.1:3000/mcp echo text=hello
hubbub call weather.py forecast city=Bergen days=2
hubbub call weather.py forecast --args '{"city": "Bergen"}'
hubbub call echo text=hello -- npx -y some-server

Images and audio are saved to files, whose names are printed. Exits with 1 if the tool failed,
2 for wrong usage, 3 if the server cannot be reached, 4 if it answers with an error.
"""


@click.command(cls=ServerCommand, help=_HELP, short_help="Call a tool of a server.", options_metavar="[OPTION]…")
@click.argument("words", nargs=-1, metavar="TARGET TOOL [KEY=VALUE… | -]")
@click.option("--args", "json_text", metavar="JSON", help="All arguments as one JSON object; - reads it from stdin.")
@click.option("--save-to", "folder", metavar="FOLDER", default=".", help="The folder for images and audio.")
@server_options
def command(options: Options, words: tuple[str, ...], json_text: str | None, folder: str) -> int:
    """Call the tool."""
    config, rest = options.resolve_server(words)
    if not rest:
        raise SettingsError("no tool; give its name (`hubbub tools` lists them)")
    name, *pairs = rest
    json_arguments = _read_json_arguments(json_text, pairs)
    bar = _make_bar(name)

    async def work(client: Client) -> int:
        arguments = json_arguments if json_arguments is not None else await _parse_arguments(client, name, pairs)
        result = await _call(client, name, arguments, bar)
        return _show(result, name, folder, as_json=options.as_json)

    return run_with_client(
        config, work, verbosity=options.verbosity, pause_output=nullcontext if bar is None else bar.paused
    )


def _read_json_arguments(json_text: str | None, pairs: Sequence[str]) -> dict[str, Any] | None:
    """Parse arguments that are one JSON object; None if they are key=value."""
    if json_text is None and list(pairs) == ["-"]:
        json_text, pairs = "-", ()
    if json_text is None:
        return None
    if pairs:
        raise SettingsError("give key=value or --args, not both")
    if json_text != "-":
        return read_object(json_text, "--args")
    text = sys.stdin.buffer.read(bounds.MESSAGE_BYTES + 1)
    if len(text) > bounds.MESSAGE_BYTES:
        raise SettingsError(f"the JSON on stdin is larger than {bounds.MESSAGE_BYTES} bytes")
    return read_object(text, "the text on stdin")


async def _parse_arguments(client: Client, name: str, pairs: Sequence[str]) -> dict[str, Any]:
    return read_arguments(pairs, find_tool(await client.tools(), name).input_schema)


def _make_bar(name: str) -> ProgressBar | None:
    """The progress bar, if stderr is a terminal."""
    if not sys.stderr.isatty():
        return None
    from hubbub.cli.rich_output import ProgressBar

    return ProgressBar(name)


async def _call(client: Client, name: str, arguments: Mapping[str, Any], bar: ProgressBar | None) -> ToolResult:
    if bar is None:
        return await client.call_tool(name, arguments)
    with bar:
        return await client.call_tool(name, arguments, progress=bar.update)


def _show(result: ToolResult, name: str, folder: str, *, as_json: bool) -> int:
    is_failed = result.is_error is True
    if as_json:
        write_json(result.raw)
    elif is_failed:
        write_lines(failure_lines(result, name, folder), err=True)
    else:
        write_lines(tool_lines(result, name, folder))
    return TOOL_FAILED if is_failed else 0
