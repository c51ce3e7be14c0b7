"""Check that an installation left a Python environment unchanged, by comparing snapshots from before and after it.

`hubbub sidecar snapshot` takes them; `system.health` only compares them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from hubbub import SettingsError
from hubbub.pack import data_folder, make_private_folder
from hubbub.packs.activity import environment, limits
from hubbub.packs.activity.settings import ActivitySettings

Stage: TypeAlias = Literal["pre", "post"]
STAGES: Final[tuple[Stage, ...]] = ("pre", "post")
COMPARED: Final = ("torch_version_cuda", "torch_file", "cv2_file", "protected_freeze")
"""Keys that must not differ. Differing keys are counted, not packages: the count is between 0 and 4."""
UNKNOWN: Final = -1


class Protection(msgspec.Struct, frozen=True):
    """Result of the comparison."""

    ok: bool
    diff_count: int
    cause: dict[str, str] | None = None
    """Why the comparison failed, or why its success is not conclusive."""


def folder_of(settings: ActivitySettings) -> Path:
    """Return the folder of the snapshots."""
    return Path(settings.protected_folder) if settings.protected_folder else data_folder() / "activity"


def path_of(folder: Path, stage: Stage) -> Path:
    """Return the path of one snapshot."""
    return folder / f"protect_{stage}.json"


def compare(folder: Path) -> Protection:
    """Compare the two snapshots; report a missing or broken one."""
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
    if not any(before.get(key) for key in COMPARED):
        told = (
            "neither snapshot has a protected package, so nothing could have changed; "
            "choose an environment with --python, or packages with --package, of `hubbub sidecar snapshot`"
        )
        return Protection(True, 0, {"kind": "nothing_protected", "message": told})
    return Protection(True, 0)


class Snapshots:
    """The two snapshots in one folder, read again only when a file has changed.

    Checking for a change runs on the event loop: handing it to a thread takes longer than the check.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths = [str(path_of(folder, stage)) for stage in STAGES]
        self._marks: tuple[object, ...] | None = None
        self._last = Protection(False, UNKNOWN)

    async def compare(self) -> Protection:
        """Return the current comparison."""
        marks = tuple(map(_mark, self._paths))
        if marks != self._marks:
            self._last = await asyncio.to_thread(compare, self._folder)
            self._marks = marks
        return self._last


def _mark(path: str) -> object:
    """Return a value that changes with the file; None if the file does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116 - creating a Path takes longer than the call
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _differ(before: dict[str, Any], after: dict[str, Any], key: str) -> bool:
    if (key in before) != (key in after):
        return True
    return bool(before.get(key) != after.get(key))


def _read(path: Path) -> dict[str, Any] | None:
    """Read a snapshot, with or without the byte order mark that PowerShell writes."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(limits.SNAPSHOT_BYTES).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def take(folder: Path, stage: Stage, *, python: str | None = None, packages: list[str] | None = None) -> Path:
    """Inspect an environment, this one or another, and store the snapshot. Returns its path.

    Raises: SettingsError, if it cannot be taken or stored.
    """
    given: dict[str, Any] = {} if packages is None else {"names": packages, "parts": []}
    found = environment.look(**given) if python is None else _look_with(python, given)
    path = path_of(folder, stage)
    try:
        make_private_folder(folder)
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
            [python, "-I", script, json.dumps(given)], capture_output=True, timeout=limits.SNAPSHOT_S, check=True
        )
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SettingsError(f"{python} could not look at its environment: {type(error).__name__}") from error
