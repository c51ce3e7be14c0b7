"""The user's pause of disclosure: a file in the data folder, which every server checks at each call.

`hubbub activity pause` writes it and `hubbub activity resume` removes it. There is no tool for either: callers
cannot end a pause.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hubbub import SettingsError, ToolError
from hubbub.pack import data_folder, make_private_folder
from hubbub.packs.activity import limits


class _Record(msgspec.Struct):
    until: float | None = None
    """Seconds since 1970; None means until the user resumes."""


class Paused(ToolError):
    def __init__(self, message: str) -> None:
        super().__init__(message, code="paused", data={"kind": "paused"})

    def cause(self) -> dict[str, str]:
        """Return the pause as a field of a result that succeeded otherwise."""
        return {"kind": "paused", "message": self.message}


class Pause:
    """The pause of disclosure of this user."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path if path is not None else data_folder() / "activity" / "paused.json"
        self._clock = clock
        self._file = str(self.path)

    def check(self) -> None:
        """Raises: Paused."""
        if (message := self.message()) is not None:
            raise Paused(message)

    def message(self) -> str | None:
        """Return the message for callers; None if there is no pause."""
        try:
            os.lstat(self._file)  # fast path: each call checks, and usually the file does not exist
            with self.path.open("rb") as file:
                until = msgspec.json.decode(file.read(limits.STATE_FILE_BYTES), type=_Record).until
            if until is not None and until <= self._clock():
                return None
            when = "" if until is None else f" until {datetime.fromtimestamp(until, UTC).astimezone():%F %T %Z}"
        except FileNotFoundError:
            return None
        except (OSError, ValueError, OverflowError, RecursionError):
            when = f" (the file {self.path} cannot be read)"
        return f"Paused by the user{when}: nothing is disclosed. Only they can resume: hubbub activity resume"

    def start(self, seconds: float | None) -> None:
        """Pause at once, for this many seconds or until `end` is called.

        Raises: SettingsError.
        """
        record = _Record(None if seconds is None else self._clock() + seconds)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            make_private_folder(self.path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
                file.write(msgspec.json.encode(record))
            draft.replace(self.path)
        except OSError as error:
            raise SettingsError(
                f"the pause was not saved: cannot write {self.path}: {error.strerror}; make its folder writable"
            ) from error

    def end(self) -> bool:
        """End the pause; return whether there was one.

        Raises: SettingsError.
        """
        was_paused = self.message() is not None
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise SettingsError(
                f"the pause was not ended: cannot remove {self.path}: {error.strerror}; make its folder writable"
            ) from error
        return was_paused
