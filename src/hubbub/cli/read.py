"""`hubbub read`: reads a resource of a server, or lists its resources."""

from __future__ import annotations

import click
from msgspec import Raw

from hubbub.cli.client_runner import run_with_client
from hubbub.cli.content_lines import resource_lines
from hubbub.cli.options import Options, ServerCommand, server_options
from hubbub.cli.output import first_line, write_json, write_lines
from hubbub.cli.raw_lists import raw_list
from hubbub.client.client import Client
from hubbub.errors import RemoteError, SettingsError
from hubbub.protocol.error_codes import METHOD_NOT_FOUND
from hubbub.protocol.results import TemplateEntry

_HELP = """Read a resource of a server; without a URI, list its resources and templates.

\b
hubbub read weather.py
hubbub read weather.py weather://cities

Content that is not text is saved to a file, whose name is printed. Exits with 2 for wrong
usage, 3 if the server cannot be reached, 4 if it answers with an error.
"""


@click.command(cls=ServerCommand, help=_HELP, short_help="Read a resource of a server.", options_metavar="[OPTION]…")
@click.argument("words", nargs=-1, metavar="TARGET [URI]")
@click.option("--save-to", "folder", metavar="FOLDER", default=".", help="The folder for content that is not text.")
@server_options
def command(options: Options, words: tuple[str, ...], folder: str) -> int:
    """Write the contents, or a table."""
    config, rest = options.resolve_server(words)
    if len(rest) > 1:
        raise SettingsError(f"give at most one URI, not {' '.join(rest)!r}")

    async def work(client: Client) -> int:
        if not rest:
            await _list(client, as_json=options.as_json)
            return 0
        result = await client.read_resource(rest[0])
        if options.as_json:
            write_json(result.raw)
        else:
            write_lines(resource_lines(result.contents, folder))
        return 0

    return run_with_client(config, work, verbosity=options.verbosity)


async def _list(client: Client, *, as_json: bool) -> None:
    if as_json:
        resources = await raw_list(client, client.list_resources, "resources")
        write_json(resources | await _raw_templates(client))
        return
    rows = [(each.uri, first_line(each.mime_type), _summarize(each)) for each in await client.resources()]
    rows += [(each.uri_template, first_line(each.mime_type), _summarize(each)) for each in await _templates(client)]
    if not rows:
        write_lines(["The server has no resources."])
        return
    from hubbub.cli.rich_output import show_table

    show_table(("RESOURCE", "TYPE", "WHAT IT IS"), rows)


def _summarize(entry: object) -> str:
    return first_line(getattr(entry, "description", "")) or first_line(getattr(entry, "name", ""))


async def _templates(client: Client) -> list[TemplateEntry]:
    """List the templates; empty for servers that have resources but do not support templates."""
    try:
        return await client.templates()
    except RemoteError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return []


async def _raw_templates(client: Client) -> dict[str, list[Raw]]:
    try:
        return await raw_list(client, client.list_templates, "resourceTemplates")
    except RemoteError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return {"resourceTemplates": []}
