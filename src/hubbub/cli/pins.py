"""`hubbub pins`: shows definitions of tools that are new or changed, and approves them."""

from __future__ import annotations

from typing import Any, Final

import click

from hubbub.cli.admin_client import AdminOptions, admin_options, call_admin
from hubbub.cli.output import write_lines
from hubbub.cli.rich_output import show_table
from hubbub.governance.definitions import KINDS

_HELP: Final = """Show the tools, prompts and templates that are new or changed, and approve them.

\b
hubbub pins list
hubbub pins diff files
hubbub pins approve files read_file --sha256 9f2c…    only what diff showed
hubbub pins approve files                            everything of one server
hubbub pins revoke files read_file

Without --url, the hub on this machine is asked through its Unix socket, which only the user
who started it can use.
"""
_DIGEST_CHARACTERS: Final = 12


@click.group(
    help=_HELP,
    short_help="Approve new and changed tool definitions.",
)
def command() -> None:
    """Only a group: click needs a function."""


@command.command("list", help="List the definitions, approved or not.")
@click.argument("server", required=False)
@admin_options
def list_pins(server: str | None, options: AdminOptions) -> int:
    """Write a table."""
    return call_admin(options, "hub.pins.list", {"server": server}, _show_pins)


@command.command("diff", help="Show what changed in the definitions of SERVER.")
@click.argument("server", required=False)
@click.argument("name", required=False)
@admin_options
def diff(server: str | None, name: str | None, options: AdminOptions) -> int:
    """Write the differences."""
    return call_admin(options, "hub.pins.diff", {"server": server, "name": name}, _show_diff)


_kind_option = click.option("--kind", type=click.Choice(KINDS), help="What NAME is, if several kinds have this name.")


@command.command("approve", help="Approve the definitions of SERVER, or one of them; read `hubbub pins diff` first.")
@click.argument("server")
@click.argument("name", required=False)
@_kind_option
@click.option(
    "--sha256", metavar="DIGEST", help="Approve only if the definition still has this digest, which `pins diff` shows."
)
@admin_options
def approve(server: str, name: str | None, kind: str | None, sha256: str | None, options: AdminOptions) -> int:
    """Approve definitions."""
    wanted = {"server": server, "name": name, "kind": kind, "sha256": sha256}
    return call_admin(options, "hub.pins.approve", wanted, _show_approved, _find_refused)


@command.command("revoke", help="Remove the approvals of SERVER, or one of them: callers lose these definitions.")
@click.argument("server")
@click.argument("name", required=False)
@_kind_option
@admin_options
def revoke(server: str, name: str | None, kind: str | None, options: AdminOptions) -> int:
    """Remove approvals."""
    wanted = {"server": server, "name": name, "kind": kind}
    return call_admin(options, "hub.pins.revoke", wanted, _show_revoked, _find_not_revoked)


def _show_pins(found: Any) -> None:
    if not found["pins"]:
        write_lines(["no definitions"])
        return
    show_table(
        ("NAME", "SERVER", "KIND", "STATUS", "DIGEST", "FINDINGS"),
        [
            (
                *(str(each[key]) for key in ("name", "server", "kind", "status")),
                (each["sha256"] or "")[:_DIGEST_CHARACTERS],
                "; ".join(each["findings"]),
            )
            for each in found["pins"]
        ],
    )


def _show_approved(found: Any) -> None:
    write_lines([f"approved {label}" for label in found["approved"]])


def _find_refused(found: Any) -> list[str]:
    if not found["approved"] and not found["refused"]:
        return ["nothing was approved: no such definition is new or changed; see `hubbub pins list`"]
    return [f"not approved: {refusal}" for refusal in found["refused"]]


def _show_revoked(found: Any) -> None:
    write_lines([f"revoked {label}" for label in found["revoked"]])


def _find_not_revoked(found: Any) -> list[str]:
    return [] if found["revoked"] else ["nothing was revoked: no such definition is approved; see `hubbub pins list`"]


def _show_diff(found: Any) -> None:
    write_lines(found["lines"] or ["no differences"])
