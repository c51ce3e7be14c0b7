"""Whether an environment was left as it was: two snapshots, one from before and one from after an installation.

`hubbub sidecar snapshot` takes them; `system.health` compares them and takes none itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from hubbub.errors import SettingsError
from hubbub.packs.activity import environment
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.settings.folders import data_folder

Stage: TypeAlias = Literal["pre", "post"]
STAGES: Final[tuple[Stage, ...]] = ("pre", "post")
COMPARED: Final = ("torch_version_cuda", "torch_file", "cv2_file", "protected_freeze")
"""What must not differ. Keys are counted, not packages: the count goes from 0 to 4."""
UNKNOWN: Final = -1
_LOOK_S: Final = 60
_BYTES: Final = 4 * 1024 * 1024


class Protection(msgspec.Struct, frozen=True):
    """How the two compare."""

    ok: bool
    diff_count: int
    cause: dict[str, str] | None = None
    """Why it is not well, or why that it is says little."""


def folder_of(settings: ActivitySettings) -> Path:
    """Where the snapshots are."""
    return Path(settings.protected_folder) if settings.protected_folder else data_folder() / "activity"


def path_of(folder: Path, stage: Stage) -> Path:
    """The file of one snapshot."""
    return folder / f"protect_{stage}.json"


def compare(folder: Path) -> Protection:
    """Compare the two snapshots; a missing or broken one is told as such."""
    found = []
    for stage in STAGES:
        path = path_of(folder, stage)
        snapshot = _read(path)
        if snapshot is None:
            problem = "cannot be read" if path.exists() else "is not there"
            told = f"{path} {problem}; take it with `hubbub sidecar snapshot --stage {stage}`"
            return Protection(False, UNKNOWN, {"kind": "no_snapshot", "message": told})
        found.append(snapshot)
    before, after = found
    changed = [key for key in COMPARED if _differ(before, after, key)]
    if changed:
        told = f"changed since the first snapshot: {', '.join(changed)}"
        return Protection(False, len(changed), {"kind": "changed", "message": told})
    return Protection(True, 0)


class Snapshots:
    """The two in one folder, read anew only when one of them has changed.

    A thread for each question would cost more than the question: it and the loop wait for each other.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths = [str(path_of(folder, stage)) for stage in STAGES]
        self._marks: tuple[object, ...] | None = None
        self._last = Protection(False, UNKNOWN)

    async def compare(self) -> Protection:
        """How they compare now."""
        marks = tuple(map(_mark, self._paths))
        if marks != self._marks:
            self._last = await asyncio.to_thread(compare, self._folder)
            self._marks = marks
        return self._last


def _mark(path: str) -> object:
    """What changes whenever a file does; None if it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path is slower than the question
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _differ(before: dict[str, Any], after: dict[str, Any], key: str) -> bool:
    if (key in before) != (key in after):
        return True
    return bool(before.get(key) != after.get(key))


def _read(path: Path) -> dict[str, Any] | None:
    """PowerShell puts a byte order mark in front, so that is taken for what it is."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_BYTES).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def take(folder: Path, stage: Stage, *, python: str | None = None, packages: list[str] | None = None) -> Path:
    """Look at an environment, ours or another's, and keep what was found. The file.

    Raises: SettingsError, if that cannot be.
    """
    given: dict[str, Any] = {} if packages is None else {"names": packages, "parts": []}
    found = environment.look(**given) if python is None else _look_with(python, given)
    path = path_of(folder, stage)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        os.replace(draft, path)  # noqa: PTH105
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _look_with(python: str, given: dict[str, Any]) -> Any:
    script = environment.__file__
    try:
        done = subprocess.run(
            [python, "-I", script, json.dumps(given)], capture_output=True, timeout=_LOOK_S, check=True
        )
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SettingsError(f"{python} could not look at its environment: {type(error).__name__}") from error
