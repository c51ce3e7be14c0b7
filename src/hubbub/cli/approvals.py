"""`hubbub approvals`: shows the calls that wait for a person, and approves or denies them."""

from __future__ import annotations

from typing import Any, Final

import click

from hubbub.cli.admin_client import AdminOptions, admin_options, call_admin
from hubbub.cli.output import write_lines
from hubbub.cli.rich_output import show_table

_HELP: Final = """Show the calls that wait for a person, and approve or deny them.

\b
hubbub approvals list
hubbub approvals approve a1b2c3
hubbub approvals deny a1b2c3 --reason "not on a Friday"

Without --url, the hub on this machine is asked through its Unix socket, which only the user
who started it can use.
"""


@click.group(
    help=_HELP,
    short_help="Approve or deny calls that wait for a person.",
)
def command() -> None:
    """Only a group: click needs a function."""


@command.command("list", help="List the calls that wait.")
@admin_options
def list_approvals(options: AdminOptions) -> int:
    """Write a table."""
    return call_admin(options, "hub.approvals.list", {}, _show_approvals)


@command.command("approve", help="Approve the call ID; it can be made once.")
@click.argument("id")
@admin_options
def approve(id: str, options: AdminOptions) -> int:
    """Approve one call."""
    return call_admin(options, "hub.approvals.approve", {"id": id}, lambda found: write_lines([f"approved {id}"]))


@command.command("deny", help="Deny the call ID.")
@click.argument("id")
@click.option("--reason", metavar="TEXT", help="Why; the caller reads it.")
@admin_options
def deny(id: str, reason: str | None, options: AdminOptions) -> int:
    """Deny one call."""
    return call_admin(
        options, "hub.approvals.deny", {"id": id, "reason": reason}, lambda found: write_lines([f"denied {id}"])
    )


def _show_approvals(found: Any) -> None:
    waiting = found["approvals"]
    if not waiting:
        write_lines(["no calls are waiting"])
        return
    show_table(
        ("ID", "TENANT", "USER", "SERVER", "TOOL", "EXPIRES", "ARGUMENTS", "REASON"),
        [
            tuple(
                str(each.get(key) or "")
                for key in ("id", "tenant", "user", "server", "tool", "expires", "arguments", "reason")
            )
            for each in waiting
        ],
    )
