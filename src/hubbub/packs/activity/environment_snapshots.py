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
COMPARED_KEYS: Final = ("torch_version_cuda", "torch_file", "cv2_file", "protected_freeze")
"""Keys that must not differ. Differing keys are counted, not packages: the count is between 0 and 4."""
UNKNOWN_DIFF_COUNT: Final = -1


class SnapshotComparison(msgspec.Struct, frozen=True):
    """Result of the comparison."""

    ok: bool
    diff_count: int
    cause: dict[str, str] | None = None
    """Why the comparison failed, or why its success is not conclusive."""


def snapshot_folder(settings: ActivitySettings) -> Path:
    return Path(settings.protected_folder) if settings.protected_folder else data_folder() / "activity"


def snapshot_path(folder: Path, stage: Stage) -> Path:
    return folder / f"protect_{stage}.json"


def compare_snapshots(folder: Path) -> SnapshotComparison:
    """Compare the two snapshots; report a missing or broken one."""
    found = []
    for stage in STAGES:
        path = snapshot_path(folder, stage)
        snapshot = _read_snapshot(path)
        if snapshot is None:
            problem = "cannot be read" if path.exists() else "does not exist"
            detail = f"{path} {problem}; take it with `hubbub sidecar snapshot --stage {stage}`"
            return SnapshotComparison(False, UNKNOWN_DIFF_COUNT, {"kind": "no_snapshot", "message": detail})
        found.append(snapshot)
    before, after = found
    changed = [key for key in COMPARED_KEYS if _differ(before, after, key)]
    if changed:
        detail = f"changed since the first snapshot: {', '.join(changed)}"
        return SnapshotComparison(False, len(changed), {"kind": "changed", "message": detail})
    if not any(before.get(key) for key in COMPARED_KEYS):
        detail = (
            "neither snapshot has a protected package, so nothing could have changed; "
            "choose an environment with --python, or packages with --package, of `hubbub sidecar snapshot`"
        )
        return SnapshotComparison(True, 0, {"kind": "nothing_protected", "message": detail})
    return SnapshotComparison(True, 0)


class Snapshots:
    """The two snapshots in one folder, read again only when a file has changed.

    Checking for a change runs on the event loop: handing it to a thread takes longer than the check.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths = [str(snapshot_path(folder, stage)) for stage in STAGES]
        self._fingerprints: tuple[object, ...] | None = None
        self._last_comparison = SnapshotComparison(False, UNKNOWN_DIFF_COUNT)

    async def compare(self) -> SnapshotComparison:
        """Return the current comparison."""
        fingerprints = tuple(map(_fingerprint, self._paths))
        if fingerprints != self._fingerprints:
            self._last_comparison = await asyncio.to_thread(compare_snapshots, self._folder)
            self._fingerprints = fingerprints
        return self._last_comparison


def _fingerprint(path: str) -> object:
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


def _read_snapshot(path: Path) -> dict[str, Any] | None:
    """Read a snapshot, with or without the byte order mark that PowerShell writes."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(limits.SNAPSHOT_BYTES).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def take_snapshot(folder: Path, stage: Stage, *, python: str | None = None, packages: list[str] | None = None) -> Path:
    """Inspect an environment, this one or another, and store the snapshot. Returns its path.

    Raises: SettingsError, if it cannot be taken or stored.
    """
    arguments: dict[str, Any] = {} if packages is None else {"names": packages, "parts": []}
    found = environment.inspect_environment(**arguments) if python is None else _inspect_with(python, arguments)
    path = snapshot_path(folder, stage)
    try:
        make_private_folder(folder)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        os.replace(draft, path)  # noqa: PTH105
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}; choose another --folder") from error
    return path


def _inspect_with(python: str, arguments: dict[str, Any]) -> Any:
    script = environment.__file__
    try:
        done = subprocess.run(
            [python, "-I", script, json.dumps(arguments)],
            capture_output=True,
            timeout=limits.SNAPSHOT_TIMEOUT_S,
            check=True,
        )
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        message = (
            f"{python} cannot inspect its environment: {type(error).__name__}; check that --python is an interpreter"
        )
        raise SettingsError(message) from error
