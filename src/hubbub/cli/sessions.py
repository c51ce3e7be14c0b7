"""`hubbub sessions`: lists the sessions of the users of a running hub, and logs users out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import click

from hubbub.cli.admin_client import AdminOptions, admin_options, call_admin
from hubbub.cli.output import write_lines
from hubbub.cli.rich_output import show_table
from hubbub.errors import SettingsError

_HELP: Final = """List the sessions of users of a running hub, and log users out.

\b
hubbub sessions list
hubbub sessions list --tenant acme --json
hubbub sessions logout --tenant acme --user alice
hubbub sessions logout --server files

Without --url, the hub on this machine is asked through its Unix socket, which only the user
who started it can use.
"""
_NOTHING: Final = "no sessions"


@click.group(
    help=_HELP,
    short_help="List the sessions of users of a hub; log out.",
)
def command() -> None:
    """Only a group: click needs a function."""


_tenant_option = click.option("--tenant", metavar="T", help="Only this tenant.")
_user_option = click.option("--user", metavar="U", help="Only this user; without tenants, the name of a key.")


@command.command(
    "list",
    help="List the sessions with servers, those of clients with the hub, grants of clients, and upstream logins.",
)
@_tenant_option
@_user_option
@click.option("--server", metavar="S", help="Only sessions with this server.")
@admin_options
def list_sessions(tenant: str | None, user: str | None, server: str | None, options: AdminOptions) -> int:
    """Write a table of each kind of sessions."""
    return call_admin(options, "hub.sessions.list", {"tenant": tenant, "user": user, "server": server}, _show_sessions)


@command.command("logout", help="End the sessions of a user or tenant, or with a server; calls in flight may finish.")
@_tenant_option
@_user_option
@click.option("--server", metavar="S", help="Only the sessions with this server.")
@admin_options
def logout(tenant: str | None, user: str | None, server: str | None, options: AdminOptions) -> int:
    """End sessions and write how many.

    Raises: SettingsError, if nothing was chosen.
    """
    if tenant is None and user is None and server is None:
        raise SettingsError("give --tenant, --user or --server: without them, the sessions of everyone would end")
    chosen = {"tenant": tenant, "user": user, "server": server}
    return call_admin(options, "hub.sessions.logout", chosen, _show_logout, partial(_find_problems, chosen))


def _show_sessions(found: Any) -> None:
    tables = [
        (
            ("SERVER", "TENANT", "USER", "CREDENTIAL", "TRANSPORT", "STARTED", "IDLE", "CALLS", "PID"),
            [
                (
                    *(each[key] for key in ("server", "tenant", "user", "credential", "transport", "started")),
                    _format_idle(each),
                    str(each["inFlight"]),
                    str(each["pid"] or ""),
                )
                for each in found["servers"]
            ],
        ),
        (
            ("PATH", "TENANT", "USER", "CREDENTIAL", "KIND", "PROGRAM", "STARTED", "IDLE", "CALLS"),
            [
                (
                    *(each[key] for key in ("path", "tenant", "user", "credential", "kind", "program", "started")),
                    _format_idle(each),
                    str(each["inFlight"]),
                )
                for each in found["clients"]
            ],
        ),
        (
            ("CLIENT", "TENANT", "USER", "SCOPES", "STARTED", "LAST USED", "EXPIRES"),
            [
                (
                    *(each[key] for key in ("client", "tenant", "user")),
                    " ".join(each["scopes"]),
                    *(each[key] for key in ("started", "lastUsed", "expires")),
                )
                for each in found.get("grants", [])
            ],
        ),
        (
            ("LOGGED IN AT", "TENANT", "USER"),
            [(each["server"], each["tenant"], each["user"]) for each in found.get("logins", [])],
        ),
    ]
    shown = [(head, rows) for head, rows in tables if rows]
    for index, (head, rows) in enumerate(shown):
        write_lines([""] if index else [])
        show_table(head, rows)
    write_lines([] if shown else [_NOTHING])


def _show_logout(found: Any) -> None:
    ended = f"ended {found['serverSessions']} sessions with servers and {found['clientSessions']} sessions of clients"
    if server_logins := found.get("serverLogins", 0):
        ended += f", and {server_logins} upstream logins"
    if client_grants := found.get("clientGrants", 0):
        ended += f", and {client_grants} grants of clients"
    write_lines([ended])


def _find_problems(chosen: Mapping[str, str | None], found: Any) -> list[str]:
    """Say that nothing matched, because a misspelled name must not look like a successful logout."""
    if any(found.get(kind) for kind in ("serverSessions", "clientSessions", "serverLogins", "clientGrants")):
        return []
    options = " ".join(f"--{name} {value}" for name, value in chosen.items() if value is not None)
    known = ", ".join(found.get("knownUsers", [])) or "none"
    return [f"no session, login or grant matches {options}; users that have one: {known}"]


def _format_idle(session: Any) -> str:
    return "ending" if session.get("isEnding") else f"{session['idleS']:g} s"
