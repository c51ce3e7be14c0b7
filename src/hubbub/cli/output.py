"""Writes the output of commands to stdout: JSON for machines, text for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from hubbub.cli.exit_codes import replace_controls


def write_json(value: Any) -> None:
    """Write one line of JSON; a `Raw` is written as received, without line breaks."""
    encoded = msgspec.json.encode(value)
    if b"\n" in encoded or b"\r" in encoded:
        encoded = msgspec.json.format(encoded, indent=-1)
    click.echo(encoded)


def write_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Write lines of text; in a terminal, replace control characters."""
    stream = sys.stderr if err else sys.stdout
    for line in lines:
        click.echo(replace_controls(line) if stream.isatty() else line, err=err)


def first_line(text: Any) -> str:
    """The first line of a description, if there is one."""
    return text.strip().partition("\n")[0] if isinstance(text, str) else ""
