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


def report_error(error: HubbubError) -> int:
    """Write an error to stderr; return the exit code."""
    if isinstance(error, TargetFailed) and error.__cause__ is not None:
        sys.stderr.write("".join(_format_traceback(error.__cause__)))
    location = _format_location(error) if isinstance(error, DefinitionError) else ""
    print_message(f"{location}{error.message}")
    return WRONG_USAGE if isinstance(error, SettingsError) else FAILED


def print_message(message: str) -> None:
    """Write one line to stderr; stdout may belong to the protocol."""
    sys.stderr.write(f"hubbub: {' '.join(message.split())}\n")
    sys.stderr.flush()


def _format_location(error: BaseException) -> str:
    """The place of an invalid declaration in the user's program."""
    user_frames = [frame for frame in extract_tb(error.__traceback__) if not _is_internal(frame.filename)]
    return f"{user_frames[-1].filename} line {user_frames[-1].lineno}: " if user_frames else ""


def _format_traceback(cause: BaseException) -> Iterator[str]:
    """Format a traceback that starts in the user's program; import and syntax errors have none of Hubbub's frames."""
    formatted = TracebackException.from_exception(cause)
    internal_flags = [_is_internal(frame.filename) for frame in formatted.stack]
    if isinstance(cause, ImportError | SyntaxError):
        user_frames = [
            frame for frame, is_internal in zip(formatted.stack, internal_flags, strict=True) if not is_internal
        ]
        # Without frames there is no traceback, and no line that announces one.
        formatted.stack = StackSummary.from_list(user_frames) if user_frames else None  # type: ignore[assignment]
    elif False in internal_flags:
        formatted.stack = StackSummary.from_list(formatted.stack[internal_flags.index(False) :])
    return formatted.format()


def _is_internal(filename: str) -> bool:
    """Whether a frame belongs to Hubbub, to click, or to Python's own import and start code."""
    own = __file__.removesuffix("cli/errors.py").removesuffix("cli\\errors.py")
    click = sys.modules.get("click")
    commands = (click.__file__ or "").removesuffix("__init__.py") if click is not None else ""
    return (
        filename.startswith(("<", own, commands or own))
        or "importlib" in filename
        or filename.endswith(("/bin/hubbub", "hubbub.exe"))
    )
