"""Tables and progress bars. The only module that imports rich, which is slow to load.

All text may come from a server, so it is never interpreted as rich's markup, and control characters are replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubbub.cli.exit_codes import replace_controls

if TYPE_CHECKING:
    from hubbub.protocol.results import ProgressParams

_PIPE_WIDTH: Final = 120
_GAP: Final = "  "


def show_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table to stdout; the first column is never cut, so that names can be copied.

    Outside of a terminal nothing is cut, and each row is one line, for programs that read it.
    """
    if not sys.stdout.isatty():
        _write_plain_table([[_format_cell(cell) for cell in row] for row in (head, *rows)])
        return
    console = _make_console(sys.stdout)
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for number, title in enumerate(head):
        table.add_column(Text(title), no_wrap=number == 0, overflow="fold" if number == 0 else "ellipsis")
    for row in rows:
        table.add_row(*(Text(_format_cell(cell)) for cell in row))
    console.print(table)


def _write_plain_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        sys.stdout.write(f"{_GAP.join(cells).rstrip()}\n")


def _format_cell(text: str) -> str:
    """Keep text in its row: a name with line breaks or invisible characters could pass for another row."""
    line = " ".join(replace_controls(text).splitlines())
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)


class ProgressBar:
    """The progress of one call on stderr, from its first message to its end. Shown only in a terminal."""

    def __init__(self, title: str) -> None:
        self._title = replace_controls(title)
        self._bar: Any = None
        self._task: Any = None
        self._is_paused = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the bar while a person types; the next message shows it again."""
        self._is_paused = True
        self._stop()
        try:
            yield
        finally:
            self._is_paused = False

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def update(self, progress: ProgressParams) -> None:
        """Show a progress message of the server."""
        if self._is_paused or not sys.stderr.isatty():
            return
        if self._bar is None:
            self._start()
        total = progress.total if isinstance(progress.total, int | float) else None
        message = replace_controls(progress.message) if isinstance(progress.message, str) else ""
        self._bar.update(self._task, completed=progress.progress, total=total, message=Text(message))

    def _start(self) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

        class MessageColumn(ProgressColumn):
            """The server's message; not a TextColumn, which would interpret markup in it."""

            def render(self, task: Any) -> Text:
                message: Text = task.fields["message"]
                return message

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), MessageColumn())
        self._bar = Progress(*columns, console=_make_console(sys.stderr), transient=True)
        self._task = self._bar.add_task(self._title, total=None, message=Text(""))
        self._bar.start()


def _make_console(stream: Any) -> Console:
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)
