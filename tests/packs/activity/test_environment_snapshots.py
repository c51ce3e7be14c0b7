"""Snapshots of an environment before and after a change, and their comparison."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hubbub.packs.activity.environment import inspect_environment
from hubbub.packs.activity.environment_snapshots import (
    Snapshots,
    Stage,
    compare_snapshots,
    snapshot_path,
    take_snapshot,
)
from hubbub.packs.activity.sidecar.command import main

BEFORE = {"torch_version_cuda": "12.1", "torch_file": "/a", "cv2_file": "/b", "protected_freeze": ["torch==2", "x"]}


def write(folder: Path, stage: Stage, snapshot: Any, encoding: str = "utf-8") -> None:
    snapshot_path(folder, stage).write_text(
        snapshot if isinstance(snapshot, str) else json.dumps(snapshot), encoding=encoding
    )


@pytest.mark.parametrize(
    ("after", "count"),
    [
        (BEFORE, 0),
        ({**BEFORE, "timestamp": "later", "numpy_version": "9"}, 0),
        ({**BEFORE, "torch_file": "/c"}, 1),
        ({**BEFORE, "protected_freeze": ["x", "torch==2"]}, 1),
        ({key: value for key, value in BEFORE.items() if key != "cv2_file"}, 1),
        ({}, 4),
        ({**dict.fromkeys(BEFORE), "more": 1}, 4),
    ],
)
def test_keys_that_differ_are_counted(after: dict[str, Any], count: int, tmp_path: Path) -> None:
    write(tmp_path, "pre", BEFORE)
    write(tmp_path, "post", after)
    found = compare_snapshots(tmp_path)
    assert (found.ok, found.diff_count) == (count == 0, count)
    assert (found.cause is None) == (count == 0)


@pytest.mark.parametrize("nothing", [{}, dict.fromkeys(BEFORE), {"torch_file": None, "protected_freeze": []}])
def test_snapshots_without_protected_packages_are_equal_and_reported(nothing: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, "pre", nothing)
    write(tmp_path, "post", nothing)
    found = compare_snapshots(tmp_path)
    assert (found.ok, found.diff_count) == (True, 0)
    assert found.cause is not None
    assert found.cause["kind"] == "nothing_protected"


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, "pre", BEFORE, "utf-8-sig")
    write(tmp_path, "post", BEFORE)
    assert compare_snapshots(tmp_path).ok


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_an_unreadable_snapshot_counts_as_missing(text: str, tmp_path: Path) -> None:
    write(tmp_path, "pre", BEFORE)
    assert compare_snapshots(tmp_path).diff_count == -1
    write(tmp_path, "post", text)
    found = compare_snapshots(tmp_path)
    assert (found.ok, found.diff_count) == (False, -1)
    assert found.cause is not None
    assert "--stage post" in found.cause["message"]


async def test_a_changed_snapshot_is_compared_again(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    assert (await snapshots.compare()).diff_count == -1
    write(tmp_path, "pre", BEFORE)
    write(tmp_path, "post", BEFORE)
    assert (await snapshots.compare()).diff_count == 0
    write(tmp_path, "post", {**BEFORE, "torch_file": "/c"})
    assert (await snapshots.compare()).diff_count == 1
    snapshot_path(tmp_path, "pre").unlink()
    assert (await snapshots.compare()).diff_count == -1


async def test_unchanged_snapshots_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, "pre", BEFORE)
    write(tmp_path, "post", BEFORE)
    snapshots = Snapshots(tmp_path)
    first = await snapshots.compare()
    assert first.ok
    assert await snapshots.compare() is first  # each read creates another object


def test_installed_packages_are_found_without_importing_them() -> None:
    found = inspect_environment()
    assert found["python_executable"] == sys.executable
    assert found["numpy_version"]
    assert Path(found["numpy_file"]).exists()
    assert "torch" not in sys.modules
    assert inspect_environment(names=["pytest"], parts=[])["protected_freeze"] == [f"pytest=={pytest.__version__}"]


def test_the_cuda_release_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "torch"
    folder.mkdir()
    folder.joinpath("__init__.py").write_text("raise RuntimeError('imported')")
    folder.joinpath("version.py").write_text("debug = False\ncuda: Optional[str] = '12.4'\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = inspect_environment()
    assert (found["torch_version_cuda"], found["torch_file"]) == ("12.4", str(folder / "__init__.py"))


def test_the_command_takes_both_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stage in ("pre", "post"):
        assert main(["snapshot", "--stage", stage, "--folder", str(tmp_path / "kept")]) == 0
        assert capsys.readouterr().out.strip() == str(tmp_path / "kept" / f"protect_{stage}.json")
    assert compare_snapshots(tmp_path / "kept").ok


def test_the_environment_of_another_interpreter_can_be_inspected(tmp_path: Path) -> None:
    path = take_snapshot(
        tmp_path, "pre", python="/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    )
    assert json.loads(path.read_text())["python_executable"] != ""


def test_an_invalid_interpreter_is_refused(tmp_path: Path) -> None:
    from hubbub import SettingsError

    with pytest.raises(SettingsError, match="cannot inspect its environment"):
        take_snapshot(tmp_path, "pre", python=str(tmp_path / "none"))
