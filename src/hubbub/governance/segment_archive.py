"""Copies sealed segments of an audit journal to storage that cannot be overwritten, by a program of the operator.

One segment at a time, in order, until the program succeeds. The number of the last one is in a file, so that a hub that
was restarted goes on there; a segment whose copy was interrupted is copied again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hubbub.errors import SettingsError
from hubbub.governance.operator_program import run_program
from hubbub.governance.segments import Segment

logger = logging.getLogger("hubbub.audit")

ARCHIVE_TIMEOUT_S: Final = 600.0
"""How long the program may take to copy one segment."""
MAX_SEGMENTS_PER_RUN: Final = 100
"""Segments that are copied one after the other; more of them wait for the next check of the journal."""
ARCHIVED_FILE: Final = "archived"
"""The number of the first record of the last segment that was copied."""
_PATH: Final = "{path}"
_NAME: Final = "{name}"
_NUMBER_BYTES: Final = 32


class SegmentArchive:
    """Runs the program for each sealed segment. All methods belong to the event loop, `last_seq` to every thread."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        """Raises: SettingsError, if the program would not get the path of a segment."""
        if command and not any(_PATH in word for word in command):
            raise SettingsError(
                f"audit.archive_command: no argument has {_PATH}, which stands for the file to be copied; "
                f'write for example ["cp", "{_PATH}", "/mnt/worm/{_NAME}"]'
            )
        self.failures = 0
        self.last_seq = 0
        """The first record of the last segment that was copied; 0: none was."""
        self._file = folder / ARCHIVED_FILE
        self._command = command
        self._task: asyncio.Task[None] | None = None
        self._submitted: Sequence[Segment] = ()
        """What is to be copied after the running copy."""
        self._is_closed = True

    @property
    def is_on(self) -> bool:
        """Whether there is a program."""
        return bool(self._command)

    def open(self) -> None:
        """Find out which segments were copied before; if that is unknown, all are copied again."""
        self._is_closed = False
        if not self.is_on:
            return
        try:
            with self._file.open("rb") as file:
                self.last_seq = max(0, int(file.read(_NUMBER_BYTES)))
        except (OSError, ValueError):
            self.last_seq = 0

    def submit(self, sealed: Sequence[Segment]) -> None:
        """Copy segments soon; while others are being copied, after these."""
        if not sealed or self._is_closed:
            return
        if self._task is not None:
            self._submitted = sealed
            return
        self._task = asyncio.create_task(self._run(sealed[:MAX_SEGMENTS_PER_RUN]))
        self._task.add_done_callback(self._finish)

    async def close(self) -> None:
        """End the program; the next start copies its segment again."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("audit_segment_not_archived", extra={"reason": str(error)})
        submitted, self._submitted = self._submitted, ()
        self.submit([segment for segment in submitted if segment.first_seq > self.last_seq])

    async def _run(self, sealed: Sequence[Segment]) -> None:
        for segment in sealed:
            command = self._fill_in(segment.path)
            problem = await run_program(command, b"", ARCHIVE_TIMEOUT_S)
            if problem:
                self.failures += 1
                extra = {"program": command[0], "file": segment.path.name, "reason": problem}
                logger.error("audit_segment_not_archived", extra=extra)
                return  # in order, and again at the next check
            self._save_position(segment.first_seq)

    def _fill_in(self, path: Path) -> list[str]:
        return [word.replace(_NAME, path.name).replace(_PATH, str(path)) for word in self._command]

    def _save_position(self, seq: int) -> None:
        temporary = self._file.with_suffix(".new")
        try:
            temporary.write_text(f"{seq}\n")
            temporary.chmod(0o600)
            temporary.replace(self._file)
        except OSError as error:  # Copied again after a restart.
            logger.warning("audit_archive_position_not_saved", extra={"reason": error.strerror or str(error)})
        self.last_seq = seq
