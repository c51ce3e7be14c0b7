"""`hubbub call`: calls a tool, once, and shows its result."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from hubbub import bounds
from hubbub.cli.contents import failure_lines, tool_lines
from hubbub.cli.conversation import converse
from hubbub.cli.key_values import read_arguments, read_object
from hubbub.cli.options import Options, ServerCommand, server_options
from hubbub.cli.outcomes import TOOL_FAILED
from hubbub.cli.tools import find_tool
from hubbub.cli.writing import write_json, write_lines
from hubbub.client.client import Client
from hubbub.errors import SettingsError
from hubbub.protocol.wire import ToolResult

if TYPE_CHECKING:
    from hubbub.cli.screen import ProgressBar

_HELP = """Call a tool and show what it gives.

Arguments are key=value, read as the tool's schema says; key:=JSON is always JSON, and a
list may be given by repeating its key. Or all at once, as --args JSON, or - for stdin.

\b
hubbub call http://127.0.0.1:3000/mcp echo text=hello
hubbub call weather.py forecast city=Bergen days=2
hubbub call weather.py forecast --args '{"city": "Bergen"}'
hubbub call echo text=hello -- npx -y some-server

Images and sound are saved to files whose names are told. Exits with 1 if the tool failed,
2 for wrong usage, 3 if the server cannot be reached, 4 if it answers with an error.
"""


@click.command(cls=ServerCommand, help=_HELP, short_help="Call a tool of a server.", options_metavar="[OPTION]…")
@click.argument("words", nargs=-1, metavar="TARGET TOOL [KEY=VALUE… | -]")
@click.option("--args", "given", metavar="JSON", help="All arguments as one JSON object; - reads it from stdin.")
@click.option("--save-to", "folder", metavar="FOLDER", default=".", help="Where images and sound are saved.")
@server_options
def command(options: Options, words: tuple[str, ...], given: str | None, folder: str) -> int:
    """Call the tool."""
    config, rest = options.server(words)
    if not rest:
        raise SettingsError("which tool? `hubbub tools` lists them")
    name, *pairs = rest
    whole = _whole(given, pairs)
    bar = _bar(name)

    async def talk(client: Client) -> int:
        arguments = whole if whole is not None else await _typed(client, name, pairs)
        result = await _call(client, name, arguments, bar)
        return _show(result, name, folder, as_json=options.as_json)

    return converse(config, talk, verbosity=options.verbosity, aside=nullcontext if bar is None else bar.away)


def _whole(given: str | None, pairs: Sequence[str]) -> dict[str, Any] | None:
    """The arguments, if they are given as one object."""
    if given is None and list(pairs) == ["-"]:
        given, pairs = "-", ()
    if given is None:
        return None
    if pairs:
        raise SettingsError("give key=value or --args, not both")
    if given != "-":
        return read_object(given, "--args")
    text = sys.stdin.buffer.read(bounds.MESSAGE_BYTES + 1)
    if len(text) > bounds.MESSAGE_BYTES:
        raise SettingsError(f"what stdin holds is larger than {bounds.MESSAGE_BYTES} bytes")
    return read_object(text, "what stdin holds")


async def _typed(client: Client, name: str, pairs: Sequence[str]) -> dict[str, Any]:
    return read_arguments(pairs, find_tool(await client.tools(), name).input_schema)


def _bar(name: str) -> ProgressBar | None:
    """The progress bar, if stderr is a terminal."""
    if not sys.stderr.isatty():
        return None
    from hubbub.cli.screen import ProgressBar

    return ProgressBar(name)


async def _call(client: Client, name: str, arguments: Mapping[str, Any], bar: ProgressBar | None) -> ToolResult:
    if bar is None:
        return await client.call_tool(name, arguments)
    with bar:
        return await client.call_tool(name, arguments, progress=bar.update)


def _show(result: ToolResult, name: str, folder: str, *, as_json: bool) -> int:
    has_failed = result.is_error is True
    if as_json:
        write_json(result.raw)
    elif has_failed:
        write_lines(failure_lines(result, name, folder), err=True)
    else:
        write_lines(tool_lines(result, name, folder))
    return TOOL_FAILED if has_failed else 0
