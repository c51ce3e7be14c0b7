"""The disclosure log: JSON Lines in a file of bounded size that only this user can read.

An entry has the caller, the request, the time, and the number of items that the answer was made from. Titles,
addresses and text are not logged: that would be another copy of what ActivityWatch records.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections import deque
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.pack import data_folder, make_private_folder, rate_limit_logger
from hubbub.packs.activity import limits
from hubbub.packs.activity.settings import ActivitySettings

OFF: Final = "off"
logger = logging.getLogger("hubbub.activity.disclosures")
rate_limit_logger(logger.name)


class DisclosureLog:
    """Writes and reads the log. Several servers may write to one log at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, entry: dict[str, Any]) -> None:
        """Append an entry. If the log cannot be written, the server's own log gets a warning and the call continues."""
        line = msgspec.json.encode(entry) + b"\n"
        try:
            self._append(line)
        except FileNotFoundError:
            try:
                make_private_folder(self.path.parent)
                self._append(line)
            except OSError as error:
                self._warn(error)
        except OSError as error:
            self._warn(error)

    def read_last(self, count: int) -> list[dict[str, Any]]:
        """Return the last `count` entries, the oldest first.

        Raises: OSError.
        """
        found: deque[dict[str, Any]] = deque(maxlen=count)
        for number in reversed(range(limits.DISCLOSURE_LOG_FILES)):
            try:
                with self._rotated_path(number).open("rb") as file:
                    for line in file:
                        with contextlib.suppress(ValueError):  # a line that was truncated because the disk was full
                            found.append(msgspec.json.decode(line, type=dict[str, Any]))
            except FileNotFoundError:
                continue
        return list(found)

    def _append(self, line: bytes) -> None:
        """Append with a single write, so that lines of several servers do not mix."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(self.path, flags, 0o600)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError("not a regular file")
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
        if found.st_size + len(line) > limits.DISCLOSURE_LOG_BYTES:
            self._rotate(found)

    def _rotate(self, full_stat: os.stat_result) -> None:
        """Rotate the files, unless another server has done so meanwhile."""
        if not os.path.samestat(full_stat, self.path.lstat()):
            return
        for number in reversed(range(1, limits.DISCLOSURE_LOG_FILES)):
            with contextlib.suppress(FileNotFoundError):
                self._rotated_path(number - 1).replace(self._rotated_path(number))

    def _rotated_path(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def _warn(self, error: OSError) -> None:
        logger.warning(
            "cannot write the disclosure log %s: %s; change disclosure_log, or make the file writable",
            self.path,
            error.strerror or error,
        )


def make_disclosure_log(settings: ActivitySettings) -> DisclosureLog | None:
    """Return the log that the settings name; None if it is disabled."""
    if settings.disclosure_log == OFF:
        return None
    configured_path = settings.disclosure_log
    return DisclosureLog(
        Path(configured_path).expanduser() if configured_path else data_folder() / "activity" / "disclosures.jsonl"
    )
