"""`hubbub audit`: the journal from the command line."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.governance.journals import DENY, call_event, open_journal, segments

from hubbub.cli.main import main


async def write(folder: Path) -> None:
    async with open_journal(folder) as journal:
        await journal.record(call_event(1))
        await journal.record(call_event(2, tenant="globex", user="bob\x1b[2J\n", decision=DENY))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(write(tmp_path / "audit"))
    return tmp_path / "audit"


def test_a_valid_journal_is_reported_with_its_head(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = json.loads((folder / "head.json").read_text())
    assert main(["audit", "verify", "--folder", str(folder), "--head", str(folder / "head.json")]) == 0
    assert capsys.readouterr().out == f"valid: 3 records in 1 files, 1 to 3\nhead: {head['hash']}\n"
    assert main(["audit", "verify", "--folder", str(folder), "--head", head["hash"], "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["holds"], report["records"], report["bad"]) == (True, 3, None)


def test_a_changed_journal_gives_exit_code_1_and_the_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = segments(folder)[0]
    path.write_bytes(path.read_bytes().replace(b"alice", b"carol"))
    assert main(["audit", "verify", "--folder", str(folder)]) == 1
    assert capsys.readouterr().out.startswith(f"NOT VALID (edited): {path.name} line 2, record 2: ")
    assert main(["audit", "verify", "--folder", str(folder), "--json"]) == 1
    bad = json.loads(capsys.readouterr().out)["bad"]
    assert (bad["why"], bad["file"], bad["line"]) == ("edited", path.name, 2)


def test_a_cut_journal_is_found_with_a_head_that_was_stored_elsewhere(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = (folder / "head.json").rename(tmp_path / "anchored.json")
    path = segments(folder)[0]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert main(["audit", "verify", "--folder", str(folder)]) == 0
    assert main(["audit", "verify", "--folder", str(folder), "--head", str(head)]) == 1
    assert "NOT VALID (truncated)" in capsys.readouterr().out


def test_tail_and_search_show_one_safe_line_for_each_record(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "tail", "--folder", str(folder), "-n", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].endswith(
        "decision      globex/bob\\u001b[2J\\u000a  files:read  deny by policy.rules[1]  not on Sundays"
    )
    assert main(["audit", "search", "--folder", str(folder), "--tenant", "acme", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.encode() + b"\n" in segments(folder)[0].read_bytes()
    assert main(["audit", "search", "--folder", str(folder), "--limit", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_export_writes_the_records_of_one_tenant(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "export", "--folder", str(folder), "--tenant", "acme"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["tenant"] == "acme"
    target = tmp_path / "globex.csv"
    export = [
        "audit",
        "export",
        "--folder",
        str(folder),
        "--tenant",
        "globex",
        "--format",
        "csv",
        "--output",
        str(target),
    ]
    assert main(export) == 0
    assert len(target.read_text().splitlines()) == 2
    assert target.stat().st_mode & 0o777 == 0o600
    assert main(export) == 2
    assert capsys.readouterr().err == f"hubbub: {target}: cannot be written: File exists\n"


def test_the_folder_comes_from_the_settings(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "hubbub.toml"
    config.write_text(f"[audit]\nfolder = '{folder}'\n")
    assert main(["audit", "verify", "--config", str(config)]) == 0
    assert "3 records" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "--folder", "/does/not/exist"], "there is no audit journal in /does/not/exist; give --folder"),
        (["search", "--since", "yesterday"], "--since: 'yesterday' is not a time; write 2026-11-18"),
        (["verify", "--head", "abc"], "--head: 'abc' is neither a file with a head nor a hash"),
        (["verify", "--public-key", "/does/not/exist"], "/does/not/exist cannot be read: No such file"),
    ],
)
def test_wrong_usage_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = arguments if "--folder" in arguments else [*arguments, "--folder", str(folder)]
    assert main(["audit", *given]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["verify", "tail", "search", "export"])
def test_a_folder_without_a_journal_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main(["audit", command, "--folder", str(tmp_path)]) == 2
    output = capsys.readouterr()
    assert (output.out, f"there is no audit journal in {tmp_path}" in output.err) == ("", True)


def test_a_stored_head_shows_that_a_whole_journal_was_deleted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = (folder / "head.json").rename(tmp_path / "stored.json")
    for path in folder.iterdir():
        path.unlink()
    assert main(["audit", "verify", "--folder", str(folder), "--head", str(head)]) == 1
    assert "NOT VALID" in capsys.readouterr().out


def test_a_followed_journal_shows_records_of_a_hub_in_another_process(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "hubbub",
        "audit",
        "tail",
        "--folder",
        str(folder),
        "-n",
        "1",
        "--follow",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["seq"] == 3
            asyncio.run(write(folder))
            assert [json.loads(process.stdout.readline())["seq"] for _ in range(3)] == [4, 5, 6]
        finally:
            process.terminate()
