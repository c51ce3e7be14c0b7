"""`hubbub activity export` writes a period to stdout or a file."""

import csv
import io
import json
import stat
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
from tests.packs.activity.activitywatch_server import ActivityWatchServer, insert_morning

from hubbub import SettingsError
from hubbub.packs.activity.command import main
from hubbub.packs.activity.export_command import add_parser, run
from hubbub.packs.activity.failures import SourceFailure
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings


def export(*arguments: str, settings: ActivitySettings) -> int:
    parser = ArgumentParser()
    add_parser(parser.add_subparsers(dest="action"))
    return run(parser.parse_args(["export", *arguments]), settings)


def settings_for(watch: ActivityWatchServer) -> ActivitySettings:
    return ActivitySettings(aw_url=watch.url, time_zone="UTC", privacy=PrivacySettings(drop_apps=("thunderbird",)))


def test_a_period_is_written_to_stdout(watch: ActivityWatchServer, capfd: pytest.CaptureFixture[str]) -> None:
    insert_morning(watch)
    assert export("--period", "yesterday", settings=settings_for(watch)) == 0
    names, *rows = csv.reader(io.StringIO(capfd.readouterr().out))
    assert names == ["start", "end", "seconds", "app", "title", "category"]
    assert [(row[3], float(row[2])) for row in rows] == [("Code", 1800), ("Firefox", 900), ("Code", 1800)]


def test_the_command_reads_the_settings_of_the_pack(
    watch: ActivityWatchServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    insert_morning(watch)
    monkeypatch.setenv("HUBBUB_ACTIVITY_AW_URL", watch.url)
    monkeypatch.setenv("HUBBUB_ACTIVITY_TIME_ZONE", "UTC")
    monkeypatch.setenv("HUBBUB_ACTIVITY_PRIVACY__DROP_APPS", "Code")
    assert main(["export", "--period", "yesterday"]) == 0
    _, *rows = csv.reader(io.StringIO(capfd.readouterr().out))
    assert {row[3] for row in rows} == {"Firefox", "Thunderbird"}


def test_the_output_file_is_new_private_and_complete(
    watch: ActivityWatchServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    insert_morning(watch)
    file = tmp_path / "week.json"
    arguments = (
        "--period",
        "yesterday",
        "--what",
        "summary",
        "--per",
        "hour",
        "--format",
        "json",
        "--output",
        str(file),
    )
    assert export(*arguments, settings=settings_for(watch)) == 0
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert [(row["app"], row["seconds"]) for row in rows] == [("Code", 1800), ("Firefox", 900), ("Code", 1800)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    out, err = capfd.readouterr()
    assert (out, err) == ("", f"3 rows were written to {file}\n")
    with pytest.raises(SettingsError, match="exists already"):
        export(*arguments, settings=settings_for(watch))
    with pytest.raises(SettingsError, match="cannot be written"):
        export("--output", str(tmp_path / "no" / "such"), settings=settings_for(watch))


def test_without_activitywatch_no_file_is_created(tmp_path: Path) -> None:
    with pytest.raises(SourceFailure, match="start ActivityWatch"):
        export("--output", str(tmp_path / "none"), settings=ActivitySettings(aw_url="http://127.0.0.1:9"))
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_not_an_error(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    program = (
        "import sys\n"
        "from tests.packs.activity.test_export_command import ActivitySettings, export\n"
        "sys.stdin.readline()\n"  # until the reading end is closed
        f"sys.exit(export('--period', 'yesterday', settings=ActivitySettings(aw_url={watch.url!r})))\n"
    )
    command = [sys.executable, "-c", program]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write("\n")
        process.stdin.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)
