"""The default folders of the file tools, and reading files in ranges; over real connections."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.packs.peers.callers import Caller, callers_in_room, connected_caller
from tests.packs.peers.room_agents import signalling

from hubbub.pack import data_folder
from hubbub.packs.peers import limits


async def read_ranges(caller: Caller, **arguments: Any) -> list[dict[str, Any]]:
    """Read all ranges of a file, following `next_offset`."""
    read = [await caller.call("vdo_file_receive", **{"offset": 0, **arguments})]
    while (offset := read[-1]["next_offset"]) is not None:
        assert offset > read[-1]["offset"]
        read.append(await caller.call("vdo_file_receive", **{**arguments, "offset": offset}))
    return read


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the data and temporary folders below `tmp_path`, and `/` as the working directory."""
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir("/")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


# -- ranges --------------------------------------------------------------------------------------


async def test_a_large_file_is_read_in_ranges(home: Path) -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        data = os.urandom(2 * limits.FILE_ANSWER_BYTES + 1)
        (data_folder() / "peers" / "files" / "x").write_bytes(data)
        await ann.call("vdo_file_send_path", file_path="x", transfer_id="t")
        read = await read_ranges(bob, transfer_id="t")
        assert [piece["length"] for piece in read] == [limits.FILE_ANSWER_BYTES, limits.FILE_ANSWER_BYTES, 1]
        assert b"".join(base64.b64decode(piece["data_base64"]) for piece in read) == data
        one = await bob.call("vdo_file_receive", transfer_id="t", offset=len(data) - 3, length=2)
        assert base64.b64decode(one["data_base64"]) == data[-3:-1]
        assert (one["offset"], one["length"], one["next_offset"]) == (len(data) - 3, 2, len(data) - 1)
        last = await bob.call("vdo_file_receive", transfer_id="t", offset=len(data) - 1, length=10**9)
        assert (last["length"], last["next_offset"]) == (1, None)
        for wrong, message in (
            ({"offset": len(data)}, "invalid offset"),
            ({"offset": 2**60}, "invalid offset"),
            ({"encoding": "json", "offset": 0}, "json needs the whole file"),
            ({}, "pass offset and length"),
        ):
            error = await bob.failure("vdo_file_receive", transfer_id="t", **wrong)
            assert message in error["message"]


async def test_text_ranges_end_between_characters(home: Path) -> None:
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        text = "a\u00e9\u65e5\U0001f600" * 50
        broken = text.encode() + b"\xff\xf0\x9f"
        for name, data in (("t", text.encode()), ("u", broken)):
            await ann.call("vdo_file_send", data_base64=base64.b64encode(data).decode(), transfer_id=name)
            for length in (1, 4, 7, 10**6):
                read = await read_ranges(bob, transfer_id=name, encoding="utf8", length=length)
                assert "".join(piece["data_text"] for piece in read) == data.decode("utf-8", "replace")
                assert sum(piece["length"] for piece in read) == len(data)
        whole = await bob.call("vdo_file_receive", transfer_id="t", encoding="utf8")
        assert (whole["data_text"], whole["offset"], whole["next_offset"]) == (text, 0, None)


# -- folders -------------------------------------------------------------------------------------


async def test_a_server_started_in_the_root_directory_uses_its_data_folder(home: Path) -> None:
    own = home / "home" / "hubbub" / "peers" / "files"
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        result = (await ann.call("vdo_capabilities"))["files"]
        assert result == {"folders": [str(own)], "relative_to": str(own), "receive_max_bytes": limits.FILE_ANSWER_BYTES}
        assert own.stat().st_mode & 0o777 == 0o700
        (own / "x").write_bytes(os.urandom(2_000_000))
        await ann.call("vdo_file_send_path", file_path="x", transfer_id="t")
        saved = await bob.call("vdo_file_save", transfer_id="t", output_path="deep/y")
        assert saved["output_path"] == str(own / "deep" / "y")
        assert (own / "deep" / "y").read_bytes() == (own / "x").read_bytes()
        (own / "out").symlink_to(home)
        for path in ("/etc/hostname", "../../../secret", "out/secret", str(home / "secret")):
            (home / "secret").write_text("s")
            for tool, arguments in (("send_path", {"file_path": path}), ("save", {"output_path": path})):
                who = {"transfer_id": "t", "overwrite": True} if tool == "save" else {}
                error = await (bob if tool == "save" else ann).failure(f"vdo_file_{tool}", **arguments, **who)
                assert "HUBBUB_PEERS_FILES" in error["message"]
        assert (home / "secret").read_text() == "s"


async def test_configured_folders_replace_the_default_folder(home: Path) -> None:
    (home / "given").mkdir()
    async with signalling() as host, connected_caller(host, files=(str(home / "given"),)) as ann:
        result = (await ann.call("vdo_capabilities"))["files"]
        assert (result["folders"], result["relative_to"]) == ([str(home / "given")], str(home / "given"))
        await ann.connect("ann")
        assert not (home / "home" / "hubbub").exists()


async def test_without_file_tools_no_folder_is_listed_or_created(home: Path) -> None:
    async with signalling() as host, connected_caller(host, profile="core") as ann:
        assert "files" not in await ann.call("vdo_capabilities")
        await ann.connect("ann")
        assert not (home / "home" / "hubbub").exists()


def make_occupied(home: Path) -> None:
    (home / "home" / "hubbub").write_text("a file is in the way")


def make_open_to_all(home: Path) -> None:
    folder = home / "home" / "hubbub" / "peers" / "files"
    folder.mkdir(parents=True)
    folder.chmod(0o777)


@pytest.mark.parametrize("spoil", [make_occupied, make_open_to_all])
async def test_a_private_temporary_folder_replaces_an_unusable_data_folder(spoil: Any, home: Path) -> None:
    spoil(home)
    async with connected_caller() as ann:
        [folder] = (await ann.call("vdo_capabilities"))["files"]["folders"]
        assert folder == str(home / "temporary" / f"hubbub-peers-{os.getuid()}" / "files")
        assert Path(folder).stat().st_mode & 0o777 == 0o700


async def test_no_folder_is_allowed_if_none_can_be_created(home: Path) -> None:
    make_occupied(home)
    (home / "temporary" / f"hubbub-peers-{os.getuid()}").write_text("a file is in the way")
    async with signalling() as host, connected_caller(host) as ann:
        assert (await ann.call("vdo_capabilities"))["files"]["folders"] == []


async def test_a_removed_working_directory_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    async with signalling() as host, connected_caller(host) as ann:
        [folder] = (await ann.call("vdo_capabilities"))["files"]["folders"]
        assert folder.startswith(str(home / "home"))
        await ann.connect("ann")


@pytest.mark.parametrize(
    "folder_name", ["user", ".", "user/.ssh", "user/work/.git/hooks", "user/Library/x", "user/AppData"]
)
async def test_a_home_directory_or_application_folder_is_not_the_default(
    folder_name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = home / "user"
    (home / folder_name).mkdir(parents=True, exist_ok=True)
    user.mkdir(exist_ok=True)
    (home / "alias").symlink_to(user)
    monkeypatch.setenv("HOME", str(home / "alias"))
    monkeypatch.setenv("USERPROFILE", str(home / "alias"))
    (home / folder_name / "key").write_text("secret")
    monkeypatch.chdir(home / folder_name)
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        result = (await ann.call("vdo_capabilities"))["files"]
        own = home / "home" / "hubbub" / "peers" / "files"
        assert (result["folders"], result["relative_to"]) == ([str(own)], str(own))
        error = await ann.failure("vdo_file_send_path", file_path=str(home / folder_name / "key"))
        assert "not below an allowed folder" in error["message"]
        await ann.call("vdo_file_send", data_base64="aaaa", transfer_id="t")
        error = await bob.failure(
            "vdo_file_save", transfer_id="t", output_path=str(home / folder_name / "key"), overwrite=True
        )
        assert "not below an allowed folder" in error["message"]
        assert (home / folder_name / "key").read_text() == "secret"


async def test_the_home_directory_of_the_user_database_is_not_the_default(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    pwd = pytest.importorskip("pwd")
    known = [each.pw_dir for each in pwd.getpwall() if each.pw_uid == os.getuid() and os.access(each.pw_dir, os.W_OK)]
    if not known:
        pytest.skip("this user has no home that can be written")
    monkeypatch.setenv("HOME", str(home / "home"))
    monkeypatch.chdir(known[0])
    async with connected_caller() as ann:
        [folder] = (await ann.call("vdo_capabilities"))["files"]["folders"]
        assert folder.startswith(str(home / "home"))


async def test_hidden_files_of_the_working_directory_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = home / "user" / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home / "user"))
    monkeypatch.setenv("USERPROFILE", str(home / "user"))
    monkeypatch.chdir(work)
    (work / "seen").write_text("x")
    hidden = (".env", ".git/config", "new/.x/y", str(work / ".env"), "a/../.env", "\u200c.env")
    async with signalling() as host, callers_in_room(host, "ann", "bob") as (ann, bob):
        assert (await ann.call("vdo_capabilities"))["files"]["folders"] == [str(work)]
        for name in (".env", ".git/config"):
            (work / name).write_text("secret")
        await ann.call("vdo_file_send_path", file_path="./seen", transfer_id="t")
        for path in hidden:
            error = await ann.failure("vdo_file_send_path", file_path=path)
            assert "hidden files and folders are not read or written" in error["message"]
            assert "HUBBUB_PEERS_FILES" in error["message"]
            error = await bob.failure("vdo_file_save", transfer_id="t", output_path=path, overwrite=True)
            assert "hidden files and folders are not read or written" in error["message"]
        assert [each["transfer_id"] for each in (await ann.call("vdo_file_transfers"))["outgoing"]] == ["t"]
        assert {(work / name).read_text() for name in (".env", ".git/config")} == {"secret"}
        assert not (work / "new").exists()
        error = await ann.failure("vdo_connect", room="hall", host=host, file_spool_dir=str(work / ".git"))
        assert "hidden files" in error["message"]
    async with (
        signalling() as host,
        connected_caller(host, files=(str(work),)) as eve,
    ):  # Configured explicitly, so hidden folders are allowed.
        await eve.connect("eve", file_spool_dir=".spool")
