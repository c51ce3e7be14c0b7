"""`hubbub keys`: creates, lists, rotates and revokes the API keys that `hubbub serve --key-file` accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import click

from hubbub.cli.admin_client import AdminOptions, admin_options, hub_options
from hubbub.cli.errors import print_message
from hubbub.cli.hub_keys import StoredKey, create_at_hub, find_hub, list_at_hub, revoke_at_hub, rotate_at_hub
from hubbub.cli.output import write_json, write_lines
from hubbub.errors import HubbubError, SettingsError
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.security import key_file_editor as editor
from hubbub.security.key_records import KeyRecord, read_records
from hubbub.settings import ServeSettings, Sources, collect_sources, format_suggestion, read_settings

_HELP = """Create, list, rotate and revoke the API keys of callers.

\b
hubbub keys create alice --key-file keys.toml
hubbub serve --key-file keys.toml --host 0.0.0.0

The file contains only hashes: a key is shown once, when it is created or rotated. A running
server notices changes within seconds.

If a hub runs on this machine with the settings file of this folder (or HUBBUB_CONFIG), it is
asked, changes its key file, and records that in its audit journal. --hub and --url choose
another hub. With --key-file, or if no such hub runs, the commands read and write the file.
"""
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_OVERLAP_DAYS: Final = 366
_MAX_DIGITS: Final = 9
_COLUMNS: Final = ("NAME", "PREFIX", "TENANT", "USER", "VERSION", "CREATED", "EXPIRES", "LAST USE", "SCOPES")

file_option = click.option("--key-file", metavar="FILE", help="The key file; by default the setting key_file.")
days_option = click.option(
    "--days", type=click.IntRange(min=1, max=36500), metavar="N", help="Days until it expires; by default it does not."
)
scope_option = click.option("--scope", multiple=True, metavar="SCOPE", help="A scope of the key; repeatable.")


def _parse_overlap(context: click.Context, parameter: click.Parameter, text: str) -> timedelta:
    """Parse a time such as 30s, 15m, 24h or 7d; 0 is no time."""
    number, unit = (text, "s") if text == "0" else (text[:-1], text[-1:])
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS) or unit not in _UNIT_SECONDS:
        raise click.BadParameter(f"{text!r} is not a time; write 30s, 15m, 24h or 7d", context, parameter)
    overlap = timedelta(seconds=int(number) * _UNIT_SECONDS[unit])
    if overlap > timedelta(days=_MAX_OVERLAP_DAYS):
        raise click.BadParameter(f"{text!r} is longer than {_MAX_OVERLAP_DAYS} days", context, parameter)
    return overlap


@click.group(
    help=_HELP,
    short_help="Create, list, rotate and revoke API keys.",
)
def command() -> None:
    """Only a group: click needs a function."""


@command.command("create", help="Create a key for NAME, show it once, and store its hash.")
@click.argument("name")
@file_option
@click.option("--tenant", metavar="TENANT", help="The tenant that its user belongs to.")
@click.option("--user", metavar="USER", help="The user of the tenant; by default NAME.")
@scope_option
@days_option
@hub_options
def create(
    name: str,
    *,
    key_file: str | None,
    tenant: str | None,
    user: str | None,
    scope: tuple[str, ...],
    days: int | None,
    options: AdminOptions,
) -> int:
    """Create a key. Only the key itself goes to stdout, so that a script can read it."""
    hub = find_hub(options, key_file)
    if hub is not None:
        _check_user(tenant, user)
        arguments = {"name": name, "tenant": tenant, "user": user, "scopes": list(scope), "days": days}
        return create_at_hub(hub, arguments)
    create_key(name, key_file, scopes=scope, days=days, tenant=tenant, user=user)
    return 0


def create_key(
    name: str,
    key_file: str | None,
    *,
    scopes: tuple[str, ...],
    days: int | None,
    tenant: str | None = None,
    user: str | None = None,
) -> None:
    """Create a key, store its hash and write the key to stdout.

    Raises: SettingsError.
    """
    _check_user(tenant, user)
    path = key_file_path(key_file)
    with _keep_folder_trusted(path):
        key, record = editor.create_key(path, name, tenant=tenant, user=user, scopes=scopes, days=days)
    _check_tenant(record, key_file)
    click.echo(f"hubbub: stored the hash of a key for {name} in {path}; the key itself is not shown again", err=True)
    click.echo(key)


def _check_user(tenant: str | None, user: str | None) -> None:
    if user is not None and tenant is None:
        raise SettingsError("--user needs --tenant: users belong to tenants")


@command.command("list", help="List the stored keys, without their secrets.")
@file_option
@admin_options
def list_keys(key_file: str | None, options: AdminOptions) -> int:
    """Write one line for each key, or a JSON array."""
    hub = find_hub(options, key_file)
    if hub is not None:
        return list_at_hub(hub, partial(_show_keys, as_json=options.as_json))
    from hubbub.security.key_usage import read_last_uses

    last_uses = read_last_uses()
    records = read_records(key_file_path(key_file))
    _show_keys([_describe(record, last_uses.get(record.id)) for record in records], as_json=options.as_json)
    return 0


def _show_keys(keys: Sequence[StoredKey], *, as_json: bool) -> None:
    if as_json:
        write_json(keys)
        return
    rows = [_COLUMNS, *map(_row, keys)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    write_lines("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


@command.command("rotate", help="Replace the secret of a key: create its next version, and let the current one expire.")
@click.argument("name")
@file_option
@click.option(
    "--overlap",
    callback=_parse_overlap,
    default="0",
    metavar="TIME",
    help="How long the current key stays valid, such as 24h; by default it ends at once.",
)
@days_option
@hub_options
def rotate(name: str, key_file: str | None, overlap: timedelta, days: int | None, options: AdminOptions) -> int:
    """Rotate a key. Only the new key goes to stdout, so that a script can read it."""
    hub = find_hub(options, key_file)
    if hub is not None:
        arguments = {"name": name, "overlap_s": int(overlap.total_seconds()), "days": days}
        return rotate_at_hub(hub, arguments, lambda created: _describe_end(created, overlap))
    path = key_file_path(key_file)
    with _keep_folder_trusted(path):
        new_key, record = editor.rotate_key(path, name, overlap=overlap, days=days)
    assert record.created is not None
    ends = _describe_end(record.created, overlap)
    click.echo(
        f"hubbub: stored version {record.version} of the key for {name} in {path}; the previous one {ends}", err=True
    )
    click.echo(new_key)
    return 0


def _describe_end(created: datetime, overlap: timedelta) -> str:
    return f"stays valid until {(created + overlap):%Y-%m-%d %H:%M:%S} UTC" if overlap else "is no longer valid"


@command.command("revoke", help="Remove every version of a key; its sessions end within seconds.")
@click.argument("name")
@file_option
@hub_options
def revoke(name: str, key_file: str | None, options: AdminOptions) -> int:
    """Remove a key from the file."""
    hub = find_hub(options, key_file)
    if hub is not None:
        return revoke_at_hub(hub, name)
    path = key_file_path(key_file)
    record = editor.find_current(path, read_records(path), name)
    with _keep_folder_trusted(path):
        editor.revoke_records(path, name)
    click.echo(f"hubbub: removed the key for {name} from {path}", err=True)
    tenant = "" if record.tenant is None else f" --tenant {record.tenant}"
    click.echo(
        f"hubbub: logins of {record.owner or name} at servers behind a hub are not deleted; to delete them, run "
        f"`hubbub sessions logout{tenant} --user {record.owner or name}`",
        err=True,
    )
    return 0


def key_file_path(key_file: str | None) -> Path:
    """Return the key file that the option or the settings name.

    Raises: SettingsError, if none does.
    """
    sources = _collect(key_file)
    chosen = read_settings(ServeSettings, sources).key_file
    if chosen is None:
        sources.require_trust()
        raise SettingsError(
            "no key file; give --key-file FILE, set key_file in the settings, or ask a running hub with --hub auto"
        )
    return Path(chosen)


def _collect(key_file: str | None) -> Sources:
    return collect_sources({} if key_file is None else {"--key-file": key_file}, ignore_untrusted=True)


@contextmanager
def _keep_folder_trusted(path: Path) -> Iterator[None]:
    """Keep a trusted folder trusted when the user changes its key file with this command."""
    sources = collect_sources({}, ignore_untrusted=True)
    if sources.folder is None or sources.refused:
        yield
        return
    from hubbub.settings.trust import renew_trust

    yield
    renew_trust(str(sources.config), str(path))


def _check_tenant(record: KeyRecord, key_file: str | None) -> None:
    """Warn about a key that the hub of these settings would not accept; without readable settings, do nothing."""
    from hubbub.settings.governance_reader import read_governance

    try:
        names = [tenant.name for tenant in read_governance(_collect(key_file)).tenants]
    except HubbubError:
        return
    if not names:
        return
    if record.tenant is None and ADMIN_SCOPE not in record.scopes:
        print_message(
            f"warning: the settings have tenants, so this key needs one: --tenant {' or '.join(names[:5])}; or "
            f"--scope {ADMIN_SCOPE} for an operator's key, which administers the hub and can use no tool"
        )
    elif record.tenant is not None and record.tenant not in names:
        suggestion = format_suggestion(record.tenant, names)
        print_message(
            f"warning: the settings have no tenant {record.tenant!r}{suggestion}; the key is not accepted yet"
        )


def _describe(record: KeyRecord, last_use: int | None) -> StoredKey:
    return StoredKey(
        name=record.name,
        prefix=record.prefix,
        tenant=record.tenant,
        user=record.owner,
        scopes=record.scopes,
        created=record.created,
        expires=record.expires,
        version=record.version,
        last_use=None if last_use is None else datetime.fromtimestamp(last_use, UTC),
    )


def _row(key: StoredKey) -> tuple[str, ...]:
    return (
        key.name,
        key.prefix,
        key.tenant or "-",
        key.user or "-",
        str(key.version),
        "-" if key.created is None else f"{key.created:%Y-%m-%d}",
        _format_expiry(key.expires),
        "never" if key.last_use is None else f"{key.last_use:%Y-%m-%d %H:%M}",
        " ".join(key.scopes) or "-",
    )


def _format_expiry(expires: datetime | None) -> str:
    if expires is None:
        return "never"
    return f"{'expired ' if expires <= datetime.now(UTC) else ''}{expires:%Y-%m-%d}"
