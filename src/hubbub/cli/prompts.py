"""`hubbub prompts`: lists the prompts of a server, or fills one in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from hubbub.cli.client_runner import run_with_client
from hubbub.cli.content_lines import block_lines
from hubbub.cli.options import Options, ServerCommand, server_options
from hubbub.cli.output import first_line, write_json, write_lines
from hubbub.cli.raw_lists import raw_list
from hubbub.client.client import Client
from hubbub.client.results import PromptResult
from hubbub.errors import SettingsError
from hubbub.protocol.results import PromptEntry

_HELP = """List the prompts of a server, or fill one in.

\b
hubbub prompts weather.py
hubbub prompts weather.py pack_for city=Bergen

Exits with 2 for wrong usage, 3 if the server cannot be reached, 4 if it answers with an error.
"""


@click.command(cls=ServerCommand, help=_HELP, short_help="List or fill in prompts.", options_metavar="[OPTION]…")
@click.argument("words", nargs=-1, metavar="TARGET [NAME [KEY=VALUE…]]")
@click.option("--save-to", "folder", metavar="FOLDER", default=".", help="The folder for content that is not text.")
@server_options
def command(options: Options, words: tuple[str, ...], folder: str) -> int:
    """Write a table, or the messages of one prompt."""
    config, rest = options.resolve_server(words)
    arguments = _parse_arguments(rest[1:])

    async def work(client: Client) -> int:
        if rest:
            result = await client.get_prompt(rest[0], arguments)
            write_json(result.raw) if options.as_json else write_lines(_lines(result, rest[0], folder))
        elif options.as_json:
            write_json(await raw_list(client, client.list_prompts, "prompts"))
        else:
            _show_all(await client.prompts())
        return 0

    return run_with_client(config, work, verbosity=options.verbosity)


def _parse_arguments(words: Sequence[str]) -> dict[str, str] | None:
    """Parse the arguments of a prompt, which are always text; None if there are none."""
    arguments: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise SettingsError(f"{word!r} must look like key=value")
        if key in arguments:
            raise SettingsError(f"{key} is given twice")
        arguments[key] = value
    return arguments or None


def _lines(result: PromptResult, name: str, folder: str) -> Iterator[str]:
    for message in result.messages:
        text = "\n".join(block_lines([message.content], name, folder))
        yield f"{message.role}: {text}"


def _show_all(prompts: Sequence[PromptEntry]) -> None:
    if not prompts:
        write_lines(["The server has no prompts."])
        return
    from hubbub.cli.rich_output import show_table

    show_table(
        ("PROMPT", "ARGUMENTS", "WHAT IT IS"),
        [(each.name, _format_arguments(each), _summarize(each)) for each in prompts],
    )


def _format_arguments(prompt: PromptEntry) -> str:
    arguments = prompt.arguments if isinstance(prompt.arguments, list) else []
    return ", ".join(each.name if each.required is True else f"{each.name}?" for each in arguments)


def _summarize(prompt: PromptEntry) -> str:
    return first_line(prompt.description) or first_line(prompt.title)
