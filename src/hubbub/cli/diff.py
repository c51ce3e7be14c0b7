"""Shows the change of a file: a unified diff, coloured in a terminal, with secrets masked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from difflib import unified_diff
from typing import Final

import click

from hubbub.cli.exit_codes import replace_controls
from hubbub.security.redact import redact

_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}
_CONTEXT_LINES: Final = 1


def write_diff(path: str, before: str, after: str, *, masks_additions: bool = True) -> None:
    """Write the difference of two texts of a file to stdout. Shows few context lines: they may be of other entries.

    Without `masks_additions`, new lines are shown as they are: they have references where secrets would be, and these
    look like secrets themselves (`API_KEY = "${API_KEY}"`).
    """
    has_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in _diff_lines(path, before, after):
        shown = replace_controls(line.expandtabs(4))
        if masks_additions or not line.startswith("+"):
            shown = redact(shown)  # A changed line may also contain other entries.
        colour = _COLOURS.get(line[:1]) if has_colour and not line.startswith(("+++", "---")) else None
        click.echo(click.style(shown, fg=colour) if colour else shown)


def _diff_lines(path: str, before: str, after: str) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    yield from unified_diff(old, new, path, f"{path} (new)", lineterm="", n=_CONTEXT_LINES)
