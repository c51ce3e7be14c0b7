"""Reports errors on the command line: one line on stderr and an exit code.

Only errors of the user's own program have a traceback, without Hubbub's frames.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from traceback import StackSummary, TracebackException, extract_tb
from typing import Final

from hubbub.errors import DefinitionError, HubbubError, SettingsError, TargetFailed

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130


def tell(error: HubbubError) -> int:
    """Write an error to stderr; return the exit code."""
    if isinstance(error, TargetFailed) and error.__cause__ is not None:
        sys.stderr.write("".join(_told(error.__cause__)))
    place = _place_of(error) if isinstance(error, DefinitionError) else ""
    say(f"{place}{error.message}")
    return WRONG_USAGE if isinstance(error, SettingsError) else FAILED


def say(message: str) -> None:
    """Write one line to stderr; stdout may belong to the protocol."""
    sys.stderr.write(f"hubbub: {' '.join(message.split())}\n")
    sys.stderr.flush()


def _place_of(error: BaseException) -> str:
    """The place of an invalid declaration in the user's program."""
    theirs = [frame for frame in extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    return f"{theirs[-1].filename} line {theirs[-1].lineno}: " if theirs else ""


def _told(cause: BaseException) -> Iterator[str]:
    """Format a traceback that starts in the user's program; import and syntax errors have none of Hubbub's frames."""
    told = TracebackException.from_exception(cause)
    is_ours = [_is_ours(frame.filename) for frame in told.stack]
    if isinstance(cause, ImportError | SyntaxError):
        theirs = [frame for frame, ours in zip(told.stack, is_ours, strict=True) if not ours]
        # Without frames there is no traceback, and no line that announces one.
        told.stack = StackSummary.from_list(theirs) if theirs else None  # type: ignore[assignment]
    elif False in is_ours:
        told.stack = StackSummary.from_list(told.stack[is_ours.index(False) :])
    return told.format()


def _is_ours(filename: str) -> bool:
    """Whether a frame belongs to Hubbub, or to Python's own import and start code."""
    here = __file__.removesuffix("cli/failing.py").removesuffix("cli\\failing.py")
    return (
        filename.startswith(("<", here)) or "importlib" in filename or filename.endswith(("/bin/hubbub", "hubbub.exe"))
    )
