"""The folders below which files are read and written."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub import ArgumentsInvalid
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.path_sandbox import OutsideFolders, PathSandbox


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(folders: PathSandbox, path: str | Path) -> bytes:
    file, found = folders.open(str(path))
    try:
        return os.read(file, found.st_size + 1)
    finally:
        os.close(file)


def write(folders: PathSandbox, path: str | Path, data: bytes = b"new", *, overwrite: bool = False) -> str:
    with folders.new_file(str(path), overwrite=overwrite) as (file, shown):
        os.write(file, data)
    return shown


def test_files_below_an_allowed_folder_are_read_and_written(allowed: Path) -> None:
    folders = PathSandbox([str(allowed)])
    assert write(folders, allowed / "a" / "b" / "c.txt") == str(allowed / "a" / "b" / "c.txt")
    assert read(folders, allowed / "a" / "." / "x" / ".." / "b" / "c.txt") == b"new"
    assert names(allowed / "a" / "b") == ["c.txt"]


def test_relative_paths_are_below_the_working_directory_or_else_the_first_folder(
    allowed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (allowed / "inner").mkdir()
    monkeypatch.chdir(allowed / "inner")
    write(PathSandbox([str(allowed)]), "here.txt")
    assert (allowed / "inner" / "here.txt").read_bytes() == b"new"
    monkeypatch.chdir(allowed.parent)
    write(PathSandbox([str(allowed)]), "there.txt")
    assert (allowed / "there.txt").read_bytes() == b"new"


@pytest.mark.parametrize("path", ["../outside/secret", "a/../../outside/secret", "/etc/hostname", "~/x", "", "."])
def test_paths_outside_the_allowed_folders_are_refused(
    path: str, allowed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(allowed)
    folders = PathSandbox([str(allowed)])
    with pytest.raises(PeersError):
        read(folders, path)
    with pytest.raises(PeersError):
        write(folders, path, overwrite=True)
    assert (allowed.parent / "outside" / "secret").read_bytes() == b"secret"


def test_a_folder_with_the_same_name_prefix_is_not_allowed(allowed: Path) -> None:
    (allowed.parent / "allowed-not").mkdir()
    with pytest.raises(OutsideFolders):
        write(PathSandbox([str(allowed)]), allowed.parent / "allowed-not" / "x")


def test_links_are_not_followed(allowed: Path) -> None:
    outside = allowed.parent / "outside"
    (allowed / "link").symlink_to(outside)
    (allowed / "file").symlink_to(outside / "secret")
    folders = PathSandbox([str(allowed)])
    for path in ("link/secret", "file"):
        with pytest.raises(OutsideFolders):
            read(folders, allowed / path)
    with pytest.raises(OutsideFolders):
        write(folders, allowed / "link" / "new")
    with pytest.raises(PeersError, match="output exists"):
        write(folders, allowed / "file")
    write(folders, allowed / "file", overwrite=True)
    assert (outside / "secret").read_bytes() == b"secret"
    assert names(outside) == ["secret"]
    assert not (allowed / "file").is_symlink()


def test_an_allowed_folder_may_itself_be_a_link(allowed: Path) -> None:
    (allowed.parent / "alias").symlink_to(allowed)
    folders = PathSandbox([str(allowed.parent / "alias")])
    write(folders, allowed.parent / "alias" / "x")
    assert read(folders, allowed / "x") == b"new"


@contextmanager
def swapping(allowed: Path) -> Iterator[None]:
    """A folder that is repeatedly replaced by a link to another folder."""
    swapped, over = allowed / "door", threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            try:
                swapped.symlink_to(allowed.parent / "outside")
                swapped.unlink()
            except FileExistsError:  # The writer created a folder there.
                swapped.rename(allowed / f"old{number}")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_folder_that_is_replaced_by_a_link_does_not_escape_the_sandbox(allowed: Path) -> None:
    folders = PathSandbox([str(allowed)])
    written = refused = 0
    with swapping(allowed):
        for number in range(1500):
            try:
                write(folders, allowed / "door" / f"new{number}")
                written += 1
            except PeersError:
                refused += 1
            with pytest.raises(PeersError):
                read(folders, allowed / "door" / "secret")
    assert written + refused == 1500
    assert names(allowed.parent / "outside") == ["secret"]


def test_files_are_overwritten_only_on_request(allowed: Path) -> None:
    folders, path = PathSandbox([str(allowed)]), allowed / "x"
    path.write_bytes(b"old")
    with pytest.raises(PeersError, match=f"output exists: {path}"):
        write(folders, path)
    assert path.read_bytes() == b"old"
    write(folders, path, overwrite=True)
    assert path.read_bytes() == b"new"


def test_a_file_that_appears_during_writing_is_not_overwritten(allowed: Path) -> None:
    folders, path = PathSandbox([str(allowed)]), allowed / "x"

    def write_slowly() -> None:
        with folders.new_file(str(path), overwrite=False):
            path.write_bytes(b"somebody else's")

    with pytest.raises(PeersError, match="output exists"):
        write_slowly()
    assert path.read_bytes() == b"somebody else's"
    assert names(allowed) == ["x"]


def test_a_failed_write_leaves_no_file(allowed: Path) -> None:

    def write_half() -> None:
        with PathSandbox([str(allowed)]).new_file(str(allowed / "x"), overwrite=False) as (file, _):
            os.write(file, b"half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert names(allowed) == []


def test_only_regular_files_are_read(allowed: Path) -> None:
    os.mkfifo(allowed / "pipe")
    folders = PathSandbox([str(allowed)])
    for name in ("pipe", "."):
        with pytest.raises(PeersError, match="not a regular file"):
            read(folders, allowed / name)
    with pytest.raises(PeersError, match="no such file"):
        read(folders, allowed / "missing")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "~nobody-of-this-name/x"])
def test_invalid_paths_are_refused(path: str, allowed: Path) -> None:
    with pytest.raises(ArgumentsInvalid, match="invalid path"):
        read(PathSandbox([str(allowed)]), path)


def test_file_names_can_be_as_long_as_the_file_system_allows(allowed: Path) -> None:
    folders = PathSandbox([str(allowed)])
    write(folders, allowed / ("ä" * 127))
    assert read(folders, allowed / ("ä" * 127)) == b"new"
    with pytest.raises(PeersError, match="too long"):
        write(folders, allowed / ("ä" * 128))
