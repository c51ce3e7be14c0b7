"""`hubbub activity export`: write a period to a file or to stdout, under the same privacy rules as the tools."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, get_args

from hubbub import Server, SettingsError
from hubbub.packs.activity.breakdown import Unit
from hubbub.packs.activity.export import Format, Table, TableKind, render_file
from hubbub.packs.activity.periods import PERIOD_HELP
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.summary import GroupBy

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(actions: _SubParsersAction[ArgumentParser]) -> None:
    """Add the action `export` and its options."""
    parser = actions.add_parser(
        "export",
        help="write how a period was spent to a file, as CSV or JSON",
        description="Write how a period was spent, as CSV or JSON, under the privacy rules of the settings.",
    )
    parser.add_argument("--period", default="today", help=f"{PERIOD_HELP}  [default: %(default)s]")
    parser.add_argument(
        "--what", choices=get_args(TableKind), default="windows", help="which table  [default: %(default)s]"
    )
    parser.add_argument(
        "--by",
        choices=get_args(GroupBy),
        default="app",
        help="for --what summary: what to group the time by  [default: %(default)s]",
    )
    parser.add_argument(
        "--per",
        choices=get_args(Unit),
        help="for --what summary: rows for each unit of time  [default: one set for the whole period]",
    )
    parser.add_argument("--format", choices=get_args(Format), default="csv", help="file format  [default: %(default)s]")
    parser.add_argument(
        "--host", metavar="NAME", help="which machine, if ActivityWatch has data of several; `all` adds them up"
    )
    parser.add_argument("--output", metavar="FILE", help="a new file, which only you can read  [default: stdout]")


def run(options: Namespace, settings: ActivitySettings) -> int:
    """Write the table; return the exit code.

    Raises: HubbubError.
    """
    table, notes = asyncio.run(_read_table(options, settings))
    parts = (part.encode("utf-8", "replace") for part in render_file(table, options.format))
    if options.output is None:
        _write_stdout(parts)
    else:
        _write_file(options.output, parts)
        notes = [f"{len(table.rows)} rows were written to {options.output}", *notes]
    for note in notes:
        sys.stderr.write(f"{note}\n")
    return 0


async def _read_table(options: Namespace, settings: ActivitySettings) -> tuple[Table, list[str]]:
    from hubbub.packs.activity.service import ActivityService

    service = ActivityService(Server("activity", version="0"), settings)
    try:
        _, _, table, notes = await service.export(
            options.period, options.what, by=options.by, per=options.per, host=options.host
        )
    finally:
        await service.sources.close()
    return table, notes


def _write_stdout(parts: Iterable[bytes]) -> None:
    try:
        sys.stdout.buffer.writelines(parts)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe. Python must not flush stdout again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(path: str, parts: Iterable[bytes]) -> None:
    """Raises: SettingsError, if the file exists or cannot be written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.writelines(parts)
    except FileExistsError:
        raise SettingsError(f"{path} exists already; give --output the name of a new file") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}; choose another --output") from error
