"""`hubbub key`: makes and lists the API keys that `hubbub serve --key-file` accepts.

A key is revoked by removing its table from the file; a running server notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from hubbub.errors import SettingsError
from hubbub.security.keys import KeyRecord, append_record, generate_key, read_records
from hubbub.settings import ServeSettings, gather, read_settings

_HELP = """Make and list the API keys of those who may call.

\b
hubbub key add alice --key-file keys.toml
hubbub serve --key-file keys.toml --host 0.0.0.0

The file keeps only hashes: a key is shown once, when it is made. To take one back,
take its table out of the file; a running server notices within seconds.
"""

_file_option = click.option("--key-file", metavar="FILE", help="Where keys are kept; otherwise the setting key_file.")


@click.group(help=_HELP, short_help="Make and list API keys.", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The group; click wants a function."""


@command.command("add", help="Make a key for NAME, show it once, and keep its hash.")
@click.argument("name")
@_file_option
@click.option("--scope", multiple=True, metavar="SCOPE", help="What its owner may do; may be repeated.")
@click.option(
    "--days", type=click.IntRange(min=1, max=36500), metavar="N", help="How long it is good; otherwise for ever."
)
def add(name: str, key_file: str | None, scope: tuple[str, ...], days: int | None) -> int:
    """Make a key. Only the key itself goes to stdout, so that a script can take it."""
    expires = None if days is None else datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    path = _path(key_file)
    key, record = generate_key(name, scopes=scope, expires=expires)
    with _keep_folder_trusted(path):
        append_record(path, record)
    click.echo(f"hubbub: {path} keeps the hash of this key of {name}; the key itself is not shown again", err=True)
    click.echo(key)
    return 0


@command.command("list", help="List whose keys are kept, with their scopes and ends.")
@_file_option
def list_keys(key_file: str | None) -> int:
    """One line for each key."""
    for record in read_records(_path(key_file)):
        click.echo(f"{record.name:<20} hb_{record.id}_…  {_end_of(record):<16} {' '.join(record.scopes)}".rstrip())
    return 0


@contextmanager
def _keep_folder_trusted(path: Path) -> Iterator[None]:
    """Keep a trusted folder trusted when the user changes its key file with this command."""
    sources = gather({}, drops_untrusted=True)
    if sources.folder is None or sources.refused:
        yield
        return
    from hubbub.settings.trust import renew_trust

    yield
    renew_trust(str(sources.config), str(path))


def _end_of(record: KeyRecord) -> str:
    if record.expires is None:
        return "no end"
    has_ended = record.expires_at <= datetime.now(UTC).timestamp()
    return f"{'ended' if has_ended else 'until'} {record.expires:%Y-%m-%d}"


def _path(key_file: str | None) -> Path:
    flags = {} if key_file is None else {"--key-file": key_file}
    sources = gather(flags, drops_untrusted=True)
    chosen = read_settings(ServeSettings, sources).key_file
    if chosen is None:
        sources.require_trust()
        raise SettingsError("say where keys are kept, with --key-file FILE or the setting key_file")
    return Path(chosen)
