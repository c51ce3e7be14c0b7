"""Storage for incoming files."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.path_sandbox import OutsideFolders, PathSandbox
from hubbub.packs.peers.files.spool import MemoryStore, Spool, Store, default_spool_folder


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_spooled_files_are_private_and_removed(temporary: Path) -> None:
    folders = PathSandbox([])
    spool = Spool(folders, None)
    store = spool.create_store("we ird/../id", 10)
    assert store.path is not None
    assert (mode(store.path), mode(Path(store.path).parent), mode(Path(store.path).parent.parent)) == (
        0o600,
        0o700,
        0o700,
    )
    assert Path(store.path).name.startswith("incoming_we_ird____id_")
    path, folder = store.path, Path(store.path).parent
    file, _ = folders.open(path)  # A received file may be sent again.
    os.close(file)
    another = Spool(PathSandbox([]), None)
    of_another = another.create_store("b", 1)
    assert of_another.path is not None
    with pytest.raises(OutsideFolders):
        folders.open(of_another.path)
    of_another.close()
    another.close()
    store.close()
    assert not Path(path).exists()
    spool.close()
    assert not folder.exists()


def test_spooled_files_stay_if_keep_is_set(temporary: Path) -> None:
    spool = Spool(PathSandbox([]), None, keep=True)
    store = spool.create_store("a", 3)
    store.write(0, b"abc")
    store.close(keep=True)
    spool.close()
    assert store.path is not None
    assert Path(store.path).read_bytes() == b"abc"


def test_a_spool_folder_that_is_not_private_is_refused(temporary: Path) -> None:
    folder = Path(default_spool_folder())
    folder.chmod(0o755)
    with pytest.raises(PeersError, match="private"):
        default_spool_folder()
    folder.rmdir()
    folder.symlink_to(temporary)
    with pytest.raises(PeersError, match="private"):
        default_spool_folder()


def test_a_spool_directory_outside_the_allowed_folders_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(OutsideFolders):
        Spool(PathSandbox([str(tmp_path / "in")]), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    spool = Spool(PathSandbox([str(tmp_path / "in")]), str(tmp_path / "in" / "spool"))
    store = spool.create_store("a", 1)
    assert store.path is not None
    assert store.path.startswith(str(tmp_path / "in" / "spool"))
    store.close()


def test_a_spool_folder_that_is_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    spool = Spool(PathSandbox([str(tmp_path / "in")]), str(tmp_path / "in" / "spool"))
    spool.create_store("a", 1).close()
    (tmp_path / "in" / "spool").rename(tmp_path / "in" / "moved")
    (tmp_path / "in" / "spool").symlink_to(tmp_path / "out")
    store = spool.create_store("b", 1)
    assert [path.parent.parent.name for path in tmp_path.rglob("incoming_b_*")] == ["moved"]
    store.close()
    assert not list(tmp_path.rglob("incoming_*"))
    spool.close()
    another = Spool(PathSandbox([str(tmp_path / "in")]), str(tmp_path / "in" / "new"))
    (tmp_path / "in" / "new").rmdir()
    (tmp_path / "in" / "new").symlink_to(tmp_path / "out")
    with pytest.raises(PeersError):
        another.create_store("c", 1)
    assert not list((tmp_path / "out").iterdir())


def test_a_file_larger_than_the_free_disk_space_is_refused(temporary: Path) -> None:
    free = shutil.disk_usage(temporary).free
    with pytest.raises(PeersError, match="no space"):
        Spool(PathSandbox([]), None).create_store("a", free + 10**12)


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_bytes_are_read_where_they_were_written(where: str, temporary: Path) -> None:
    store: Store = MemoryStore(10) if where == "memory" else Spool(PathSandbox([]), None).create_store("a", 10)
    store.write(5, b"fghij")
    store.write(0, memoryview(b"abcde"))
    assert (store.read(0, 10), store.read(8, 10)) == (b"abcdefghij", b"ij")
    store.close()
    store.close()


def test_spools_of_killed_processes_are_removed_and_those_in_use_are_kept(temporary: Path) -> None:
    script = (
        "import os, signal; from hubbub.packs.peers.files.path_sandbox import PathSandbox; "
        "from hubbub.packs.peers.files.spool import Spool; "
        "Spool(PathSandbox([]), None).create_store('a', 1); os.kill(os.getpid(), signal.SIGKILL)"
    )
    living = Spool(PathSandbox([]), None)
    store = living.create_store("b", 1)
    killed = subprocess.run([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(temporary)}, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(Path(default_spool_folder()).rglob("incoming_a_*"))) == 1
    another = Spool(PathSandbox([]), None)
    another.create_store("c", 1).close()
    assert not list(Path(default_spool_folder()).rglob("incoming_a_*"))
    assert store.path is not None
    assert Path(store.path).exists()
    store.close()
    for spool in (living, another):
        spool.close()
    assert not list(Path(default_spool_folder()).iterdir())


@pytest.mark.parametrize("name", ["session_notes", "session_0123456789abcdef"])
def test_other_files_beside_spool_folders_are_not_removed(name: str, tmp_path: Path) -> None:
    theirs = tmp_path / name
    theirs.mkdir()
    for file in ("lock", "diary.txt"):
        (theirs / file).write_text("mine")
    spool = Spool(PathSandbox([str(tmp_path)]), str(tmp_path))
    spool.create_store("a", 1).close()
    spool.close()
    assert {path.name for path in theirs.iterdir()} == {"lock", "diary.txt"}
