"""`hubbub whoami`: shows the stored logins."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from hubbub.cli.client_runner import run
from hubbub.cli.errors import FAILED
from hubbub.cli.options import config_option, json_option
from hubbub.cli.output import write_json, write_lines
from hubbub.cli.stored_logins import find_resource_url, format_login, read_logins
from hubbub.cli.target import TargetOptions
from hubbub.cli.terminal import note

_HELP: Final = """Show the stored login for a server, or all stored logins.

TARGET is the URL of the server, or the name of [servers.NAME] in hubbub.toml. Shows the user, the
authorization server, the scopes, when the token expires, and where it is stored; never the token.
Sends no request.

\b
hubbub whoami
hubbub whoami https://example.com/mcp --json

Exits with 1 if no login is stored for TARGET.
"""


@click.command(help=_HELP, short_help="Show the stored logins.", options_metavar="[OPTION]…")
@click.argument("target", metavar="[TARGET]", required=False)
@config_option
@json_option
def command(target: str | None, config: str | None, as_json: bool) -> int:
    """Write one block for each login."""
    return run(_show(target, TargetOptions(config=config), as_json=as_json))


async def _show(target: str | None, options: TargetOptions, *, as_json: bool) -> int:
    from hubbub.oauth.client.credential_store import FileCredentialStore  # late: `hubbub --help` loads this module

    store = FileCredentialStore()
    resource = None if target is None else find_resource_url(target, options)
    logins = await read_logins(store, resource)
    if as_json:
        write_json({"store": await store.kind(), "logins": msgspec.to_builtins(logins)})
    for index, login in enumerate(() if as_json else logins):
        write_lines([*([""] if index else []), *format_login(login)])
    if resource is not None and not logins:
        note(f"not logged in at {resource}; run `hubbub login {target}`")
        return FAILED
    if not logins and not as_json:
        write_lines(["No stored logins. To log in, run `hubbub login URL`."])
    return 0
