"""`hubbub key`: the deprecated form of `hubbub keys`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from hubbub.cli.errors import print_message
from hubbub.cli.keys import create_key, days_option, file_option, key_file_path, scope_option
from hubbub.security.key_records import KeyRecord, read_records


@click.group(
    help="Deprecated: use `hubbub keys`.",
    short_help="Deprecated: use `hubbub keys`.",
    hidden=True,
)
def command() -> None:
    """Only a group: click needs a function."""


@command.command("add", help="Deprecated: use `hubbub keys create`.")
@click.argument("name")
@file_option
@scope_option
@days_option
def add(name: str, key_file: str | None, scope: tuple[str, ...], days: int | None) -> int:
    """Create a key. Only the key itself goes to stdout, so that a script can read it."""
    _warn("add", "create")
    create_key(name, key_file, scopes=scope, days=days)
    return 0


@command.command("list", help="Deprecated: use `hubbub keys list`.")
@file_option
def list_keys(key_file: str | None) -> int:
    """Write one line for each key, in the form that scripts may know."""
    _warn("list", "list")
    for record in read_records(key_file_path(key_file)):
        click.echo(
            f"{record.name:<20} {record.prefix}_…  {_format_expiry(record):<18} {' '.join(record.scopes)}".rstrip()
        )
    return 0


def _warn(old: str, new: str) -> None:
    print_message(f"`hubbub key {old}` is deprecated and will be removed in 0.3.0; use `hubbub keys {new}`")


def _format_expiry(record: KeyRecord) -> str:
    if record.expires is None:
        return "no expiry"
    is_expired = record.expires_at <= datetime.now(UTC).timestamp()
    return f"{'expired' if is_expired else 'until'} {record.expires:%Y-%m-%d}"
