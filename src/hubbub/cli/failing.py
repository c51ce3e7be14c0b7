"""How the command line says that something is wrong: one line on stderr and an exit code.

Only the user's own program gets a traceback, without the frames that are ours.
"""

from __future__ import annotations

import sys
from traceback import extract_tb, print_exception
from types import TracebackType
from typing import Final

from hubbub.errors import DefinitionError, HubbubError, SettingsError, TargetFailed

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130


def tell(error: HubbubError) -> int:
    """Say on stderr what is wrong; return the exit code."""
    if isinstance(error, TargetFailed) and error.__cause__ is not None:
        cause = error.__cause__
        print_exception(type(cause), cause, _without_ours(cause.__traceback__))
    place = _place_of(error) if isinstance(error, DefinitionError) else ""
    say(f"{place}{error.message}")
    return WRONG_USAGE if isinstance(error, SettingsError) else FAILED


def say(message: str) -> None:
    """Write one line to stderr; stdout may belong to the protocol."""
    sys.stderr.write(f"hubbub: {' '.join(message.split())}\n")
    sys.stderr.flush()


def _place_of(error: BaseException) -> str:
    """Where in the user's program a wrong declaration stands."""
    theirs = [frame for frame in extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    return f"{theirs[-1].filename} line {theirs[-1].lineno}: " if theirs else ""


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    first = traceback
    while first is not None and _is_ours(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    return first if first is not None else traceback


def _is_ours(filename: str) -> bool:
    """Ours, or the machinery of Python that imports and starts things."""
    here = __file__.removesuffix("cli/failing.py").removesuffix("cli\\failing.py")
    return (
        filename.startswith(("<", here)) or "importlib" in filename or filename.endswith(("/bin/hubbub", "hubbub.exe"))
    )
