"""`hubbub audit`: verifies, shows and exports the audit journal, from its files or at a running hub."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import click
import msgspec

from hubbub.cli.admin_client import AdminOptions, hub_options
from hubbub.cli.errors import FAILED
from hubbub.cli.hub_journal import search_at_hub, tail_at_hub, verify_at_hub
from hubbub.cli.options import config_option, json_option
from hubbub.cli.output import write_json, write_lines
from hubbub.errors import SettingsError
from hubbub.governance.audit_events import AuditRecord
from hubbub.governance.hidden_characters import escape_unprintable
from hubbub.governance.journal_head import Head, read_head
from hubbub.governance.journal_reader import Filter, follow_records, format_csv, read_tail, search_records
from hubbub.governance.journal_verification import Progress, VerificationReport, verify
from hubbub.governance.segments import HEAD_FILE, list_segments
from hubbub.settings import collect_sources, read_settings
from hubbub.settings.folders import data_folder
from hubbub.settings.governance import AUDIT, AuditSettings

F = TypeVar("F", bound=Callable[..., Any])
Records: TypeAlias = Iterable[tuple[bytes, AuditRecord]]
"""Records with their lines."""

_HELP = """Verify, show and export the audit journal of this node.

\b
hubbub audit verify --head head.json --public-key audit.pub
hubbub audit tail --follow
hubbub audit search --tenant acme --effect deny --since 2026-11-18
hubbub audit export --tenant acme --format csv > acme.csv

The commands read the files of the journal, while the hub runs and while it does not. With --hub
or --url, they ask a running hub, which records that.
"""
_PROGRESS_STEP_BYTES: Final = 16 * 1024 * 1024
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_TIME: Final = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?Z?)?)?)?")

_folder_option: Final = click.option(
    "--folder", metavar="FOLDER", help="The folder of the journal; by default that of [audit] in the settings."
)
_FILTERS: Final = (
    click.option("--tenant", metavar="NAME", help="Only records of this tenant."),
    click.option("--user", metavar="NAME", help="Only records of this user."),
    click.option("--server", metavar="NAME", help="Only records about this server."),
    click.option("--tool", metavar="NAME", help="Only records about this tool, by its name here or on its server."),
    click.option("--event", metavar="NAME", help="Only these events; a final * matches any ending, as in 'call.*'."),
    click.option("--effect", type=click.Choice(["allow", "deny", "confirm"]), help="Only these decisions."),
    click.option("--since", metavar="TIME", help="Only records from then on: UTC, such as 2026-11-18T09:30."),
    click.option("--until", metavar="TIME", help="Only records before then."),
)  # fmt: skip


def _source_options(function: F) -> F:
    """Add the options that choose the files or a hub; the command gets `folder`, `config` and `options`."""
    decorated: Any = _folder_option(config_option(hub_options(function)))
    found: F = decorated
    return found


def _asks_hub(options: AdminOptions, folder: str | None, config: str | None) -> bool:
    """Whether to ask a running hub; otherwise the files are read.

    Raises: SettingsError, if both were chosen.
    """
    if options.names_hub and (folder is not None or config is not None):
        raise SettingsError("--folder and --config choose files; leave them out with --hub and --url")
    return options.names_hub


def _filters(function: F) -> F:
    """Add the options that select records; the command gets them as `wanted`."""
    import functools

    @functools.wraps(function)
    def with_filter(**values: Any) -> Any:
        chosen = {name: values.pop(name) for name in Filter.__struct_fields__}
        for name in ("since", "until"):
            if chosen[name] is not None and not _TIME.fullmatch(chosen[name]):
                raise SettingsError(
                    f"--{name}: {chosen[name]!r} is not a time; write 2026-11-18 or 2026-11-18T09:30:00"
                )
            chosen[name] = chosen[name] and chosen[name].rstrip("Z")
        return function(wanted=Filter(**chosen), **values)

    decorated: Any = with_filter
    for option in reversed(_FILTERS):
        decorated = option(decorated)
    found: F = decorated
    return found


@click.group(
    help=_HELP,
    short_help="Verify and search the audit journal.",
)
def command() -> None:
    """Only a group: click needs a function."""


@command.command("verify", help="Verify the hash chain. The exit code is 1 if a record was changed, added or removed.")
@_source_options
@click.option(
    "--head", "expected", metavar="FILE|HASH",
    help="A head that was stored elsewhere; without it, a journal whose end was cut off can be valid.",
)  # fmt: skip
@click.option("--public-key", metavar="FILE", help="The Ed25519 public key (PEM) that the heads must be signed with.")
@json_option
def verify_journal(
    folder: str | None, config: str | None, options: AdminOptions, expected: str | None, public_key: str | None
) -> int:
    """Write a report."""
    head = None if expected is None else _read_expected(expected)
    show = partial(_show_report, as_json=options.as_json)
    if _asks_hub(options, folder, config):
        if public_key is not None:
            raise SettingsError(
                "--public-key cannot be used with --hub or --url: a hub cannot prove its own signatures. Verify the "
                "files with --folder"
            )
        return verify_at_hub(options, head, show)
    # Whoever has a stored head gets a report about what is missing.
    path = _find_folder(folder, config, may_be_empty=expected is not None)
    from hubbub.security.crypto import VerifyingKey

    key = None if public_key is None else VerifyingKey(Path(public_key))
    try:
        report = verify(path, public_key=key, expected=head, progress=_make_progress())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    return show(report)


def _show_report(report: VerificationReport, *, as_json: bool) -> int:
    if as_json:
        write_json({"holds": report.holds, **msgspec.to_builtins(report)})
    else:
        write_lines(_describe_report(report))
    return 0 if report.holds else FAILED


@command.command("tail", help="Show the last records.")
@_source_options
@click.option("-n", "--lines", "number", type=click.IntRange(min=0), default=20, show_default=True, metavar="N",
              help="How many records.")  # fmt: skip
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on with records that are added, until Ctrl+C.")
@_filters
@json_option
def tail(
    folder: str | None, config: str | None, options: AdminOptions, number: int, follows: bool, wanted: Filter
) -> int:
    """Show records, and wait for further ones."""
    as_json = options.as_json
    if _asks_hub(options, folder, config):
        if follows:
            raise SettingsError(
                "--follow cannot be used with --hub or --url: the hub would record every poll. Run it where the "
                "journal files are"
            )
        return tail_at_hub(options, wanted, number, partial(_write_records, as_json=as_json))
    path = _find_folder(folder, config)
    last = read_tail(path, 1)
    last_seq = last[0][1].seq if last else 0
    found = read_tail(path, number, wanted)
    # What was added meanwhile is shown below, once.
    _write_records([pair for pair in found if not follows or pair[1].seq <= last_seq], as_json=as_json)
    if follows:
        import asyncio

        asyncio.run(_follow(path, last_seq + 1, wanted, as_json))
    return 0


@command.command("search", help="Show the records that match all given options.")
@_source_options
@_filters
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after so many records.")
@json_option
def search(folder: str | None, config: str | None, options: AdminOptions, wanted: Filter, limit: int | None) -> int:
    """Show records in the order of the journal."""
    write = partial(_write_records, as_json=options.as_json)
    if _asks_hub(options, folder, config):
        return search_at_hub(options, wanted, limit, write)
    write(islice(search_records(_find_folder(folder, config), wanted), limit))
    return 0


@command.command("export", help="Write records as JSON lines, exactly as in the journal, or as CSV.")
@_source_options
@_filters
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--output", metavar="FILE", help="A new file; by default stdout.")
def export(
    folder: str | None, config: str | None, options: AdminOptions, wanted: Filter, form: str, output: str | None
) -> int:
    """Write records."""
    if _asks_hub(options, folder, config):
        with _open_output(output) as write:
            return search_at_hub(options, wanted, None, _make_exporter(form, write))
    found = search_records(_find_folder(folder, config), wanted)
    with _open_output(output) as write:
        _make_exporter(form, write)(found)
    return 0


def _make_exporter(
    form: str, write: Callable[[bytes], object]
) -> Callable[[Iterable[tuple[bytes, AuditRecord]]], None]:
    """Return a function that writes records in a format, each time some more of them."""
    is_first = True

    def export_records(found: Records) -> None:
        nonlocal is_first
        if form == "jsonl":
            for line, _ in found:
                write(line)
            return
        rows = format_csv(record for _, record in found)
        for text in rows if is_first else islice(rows, 1, None):  # one line with the names of the columns
            write(text.encode())
        is_first = False

    return export_records


@contextmanager
def _open_output(output: str | None) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to stdout, or to a new file that only the user can read.

    Raises: SettingsError.
    """
    if output is None:
        yield partial(click.echo, nl=False)
        return
    try:
        with Path(output).open("xb") as file:
            Path(output).chmod(0o600)
            yield file.write
    except OSError as error:
        raise SettingsError(f"{output}: cannot be written: {error.strerror}") from None


def _find_folder(folder: str | None, config: str | None, *, may_be_empty: bool = False) -> Path:
    """Return the folder of the journal; with `may_be_empty`, its files may all be deleted.

    Raises: SettingsError, if there is none.
    """
    if folder is None:
        flags = {} if config is None else {"--config": config}
        settings = read_settings(AuditSettings, collect_sources(flags, ignore_untrusted=True), (AUDIT,))
        folder = settings.folder
    path = data_folder() / "audit" if folder is None else Path(folder)
    if not path.is_dir() or not (may_be_empty or _has_journal(path)):
        raise SettingsError(f"there is no audit journal in {path}; give --folder FOLDER, or set folder in [audit]")
    return path


def _has_journal(folder: Path) -> bool:
    try:
        return (folder / HEAD_FILE).exists() or bool(list_segments(folder))
    except OSError as error:
        raise SettingsError(f"{folder} cannot be read: {error.strerror}") from None


def _read_expected(expected: str) -> Head | str:
    if _HASH.fullmatch(expected):
        return expected
    try:
        head = read_head(Path(expected))
    except OSError as error:
        raise SettingsError(f"--head: {expected} cannot be read: {error.strerror}") from None
    if head is None:
        raise SettingsError(f"--head: {expected!r} is neither a file with a head nor a hash of 64 hex digits")
    return head


def _make_progress() -> Progress | None:
    """Show how far a long verification is, on a terminal."""
    if not sys.stderr.isatty():
        return None
    shown = 0

    def show(done: int, total: int) -> None:
        nonlocal shown
        if done - shown >= _PROGRESS_STEP_BYTES or (shown and done == total):
            shown = done
            end = "\n" if done == total else ""
            sys.stderr.write(f"\rhubbub: verified {done >> 20} of {total >> 20} MiB{end}")
            sys.stderr.flush()

    return show


def _describe_report(report: VerificationReport) -> Iterator[str]:
    bad = report.bad
    if bad is not None:
        place = f"{bad.file} line {bad.line}, record {bad.seq}: " if bad.file else ""
        yield f"NOT VALID ({bad.why}): {place}{bad.message}"
        yield f"{report.records} records before it are valid"
        return
    yield f"valid: {report.records} records in {report.segments} files, {report.first_seq} to {report.last_seq}"
    yield f"head: {report.head}"
    if report.head_signature != "none":
        yield f"signature of head.json: {report.head_signature}"
    if report.gaps:
        yield f"{report.gaps} gaps: records that could not be written; see `hubbub audit search --event journal.gap`"
    if report.recoveries:
        yield f"{report.recoveries} recoveries after crashes; see `hubbub audit search --event journal.recovered`"
    if report.torn_bytes:
        yield f"the last line is incomplete ({report.torn_bytes} bytes): it is being written, or the hub was killed"


def _write_records(found: Records, *, as_json: bool) -> None:
    if as_json:
        for line, _ in found:
            click.echo(line, nl=False)
    else:
        write_lines(_describe_record(record) for _, record in found)


async def _follow(folder: Path, first_seq: int, wanted: Filter, as_json: bool) -> None:
    async for batch in follow_records(folder, first_seq=first_seq):
        _write_records(((line, record) for line, record in batch if wanted.matches(record)), as_json=as_json)


def _describe_record(record: AuditRecord) -> str:
    who = f"{record.tenant}/{record.user}" if record.tenant else record.user
    what = f"{record.server}:{record.tool}" if record.server else record.tool
    decision = record.decision
    parts = (
        f"{record.seq:<6}",
        record.ts,
        f"{record.event:<12}",
        who,
        what,
        f"{decision.effect} by {decision.rule}" if decision is not None else "",
        decision.reason if decision is not None else "",
        record.outcome,
        str(record.code) if record.code != "" else "",
        f"{record.ms:g} ms" if record.ms is not None else "",
        " ".join(f"{name}={value}" for name, value in (record.facts or {}).items()),
    )
    # One line for each record, whatever its texts contain.
    return "  ".join(escape_unprintable(part) for part in parts if part)
