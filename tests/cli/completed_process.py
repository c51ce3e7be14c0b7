"""What `hubbub` is run on in these tests, and what a run of it has come to: said, answered or refused."""

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ECHO = str(ROOT / "examples/echo.py")
WEATHER = str(ROOT / "examples/weather.py")
GALLERY = str(ROOT / "tests/fixtures/gallery.py")


def read_stdout(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def read_json(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON that is all of stdout."""
    (line,) = read_stdout(done).splitlines()
    return json.loads(line)


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """It ended with this code and one line on stderr that has these words."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("hubbub: ")
    assert all(word in line for word in words), line
