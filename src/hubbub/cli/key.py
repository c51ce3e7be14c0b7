"""`hubbub key`: creates and lists the API keys that `hubbub serve --key-file` accepts.

A key is revoked by removing its table from the file; a running server notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from hubbub.errors import SettingsError
from hubbub.security.api_keys import KeyRecord, append_record, generate_key, read_records
from hubbub.settings import ServeSettings, collect_sources, read_settings

_HELP = """Create and list the API keys of callers.

\b
hubbub key add alice --key-file keys.toml
hubbub serve --key-file keys.toml --host 0.0.0.0

The file contains only hashes: a key is shown once, when it is created. To revoke a key,
remove its table from the file; a running server notices within seconds.
"""

_file_option = click.option("--key-file", metavar="FILE", help="The key file; by default the setting key_file.")


@click.group(
    help=_HELP, short_help="Create and list API keys.", context_settings={"help_option_names": ["-h", "--help"]}
)
def command() -> None:
    """Only a group: click needs a function."""


@command.command("add", help="Create a key for NAME, show it once, and store its hash.")
@click.argument("name")
@_file_option
@click.option("--scope", multiple=True, metavar="SCOPE", help="A scope of the key; repeatable.")
@click.option(
    "--days", type=click.IntRange(min=1, max=36500), metavar="N", help="Days until it expires; by default it does not."
)
def add(name: str, key_file: str | None, scope: tuple[str, ...], days: int | None) -> int:
    """Create a key. Only the key itself goes to stdout, so that a script can read it."""
    expires = None if days is None else datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    path = _key_file_path(key_file)
    key, record = generate_key(name, scopes=scope, expires=expires)
    with _keep_folder_trusted(path):
        append_record(path, record)
    click.echo(f"hubbub: stored the hash of a key for {name} in {path}; the key itself is not shown again", err=True)
    click.echo(key)
    return 0


@command.command("list", help="List the stored keys with their scopes and expiry dates.")
@_file_option
def list_keys(key_file: str | None) -> int:
    """Write one line for each key."""
    for record in read_records(_key_file_path(key_file)):
        click.echo(
            f"{record.name:<20} hb_{record.id}_…  {_format_expiry(record):<18} {' '.join(record.scopes)}".rstrip()
        )
    return 0


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


def _format_expiry(record: KeyRecord) -> str:
    if record.expires is None:
        return "no expiry"
    is_expired = record.expires_at <= datetime.now(UTC).timestamp()
    return f"{'expired' if is_expired else 'until'} {record.expires:%Y-%m-%d}"


def _key_file_path(key_file: str | None) -> Path:
    flags = {} if key_file is None else {"--key-file": key_file}
    sources = collect_sources(flags, ignore_untrusted=True)
    chosen = read_settings(ServeSettings, sources).key_file
    if chosen is None:
        sources.require_trust()
        raise SettingsError("no key file; give --key-file FILE, or set key_file in the settings")
    return Path(chosen)
