"""`hubbub logout`: revokes and deletes the credentials of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from hubbub.cli.client_runner import run
from hubbub.cli.errors import FAILED
from hubbub.cli.options import config_option, private_network_option
from hubbub.cli.output import write_lines
from hubbub.cli.stored_logins import (
    auth_settings,
    find_resource_url,
    hub_options,
    make_oauth_client,
    resolve_remote,
    upstream_key_option,
)
from hubbub.cli.target import TargetOptions
from hubbub.cli.terminal import note
from hubbub.errors import HubbubError, SettingsError

if TYPE_CHECKING:
    from hubbub.oauth.client.credential_store import FileCredentialStore
    from hubbub.oauth.client.credentials import CredentialKey

_HELP: Final = """Log out of a server: revoke its tokens, and delete them from this machine.

TARGET is the URL of the server, or the name of [servers.NAME] in hubbub.toml; --all logs out of
every server.

\b
hubbub logout https://example.com/mcp
hubbub logout --all
hubbub logout https://hub.example.com/mcp --upstream github

Tokens are deleted even if the authorization server cannot be reached or offers no revocation;
they then stay valid there until they expire.

Exits with 1 if there was no login or a hub refuses, 2 for wrong usage, 3 if a hub cannot be
reached, 4 if its answer is an error or invalid.
"""


@click.command(help=_HELP, short_help="Log out of a server: revoke and delete its tokens.", options_metavar="[OPTION]…")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option("--all", "is_all", is_flag=True, help="Log out of every server.")
@click.option("--upstream", metavar="NAME", help="End your login at this server behind the hub TARGET.")
@upstream_key_option
@config_option
@private_network_option
def command(
    target: str | None,
    *,
    is_all: bool,
    upstream: str | None,
    key_variable: str | None,
    config: str | None,
    allow_private_network: bool,
) -> int:
    """Revoke and delete credentials, and write what was done."""
    if (target is None) is not is_all:
        raise SettingsError("give the server to log out of, or --all")
    options = hub_options(upstream, key_variable, config=config, allow_private_network=allow_private_network)
    if upstream is not None:
        if target is None:
            raise SettingsError("give the URL of the hub with --upstream, not --all")
        from hubbub.cli.upstream_login import log_out_upstream

        return run(log_out_upstream(resolve_remote(target, options), upstream))
    return run(_log_out(target, options))


async def _log_out(target: str | None, options: TargetOptions) -> int:
    from hubbub.oauth.client.credential_store import FileCredentialStore  # late: `hubbub --help` loads this module

    store = FileCredentialStore()
    resource = None if target is None else find_resource_url(target, options)
    keys = await store.list(resource=resource, principal="")
    if not keys:
        note("no stored logins" if resource is None else f"not logged in at {resource}")
        return FAILED if target is not None else 0
    for key in keys:
        await _end_login(store, key, target or key.resource, options)
    return 0


async def _end_login(store: FileCredentialStore, key: CredentialKey, target: str, options: TargetOptions) -> None:
    # Otherwise a process that is refreshing the tokens would store them again.
    async with store.lock(key):
        credentials = await store.load(key)
        if credentials is None:
            return
        result = (
            "its tokens are deleted here; the authorization server did not revoke them, so they stay valid there until "
            "they expire"
        )
        try:
            server = resolve_remote(target, options)
            if await make_oauth_client(server, auth_settings(server)).revoke(credentials):
                result = "its tokens are revoked and deleted"
        except HubbubError as error:
            note(f"the tokens for {key.resource} could not be revoked: {error.message}")
            result = "its tokens are deleted, but not revoked"
        await store.delete(key)
    write_lines([f"Logged out of {key.resource}: {result}."])
