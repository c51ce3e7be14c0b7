"""Targets of these tests, and assertions about finished `hubbub` processes."""

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
    """Parse stdout, which must be one JSON value."""
    (line,) = read_stdout(done).splitlines()
    return json.loads(line)


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """Check the exit code, and that stderr is one line with these words."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("hubbub: ")
    assert all(word in line for word in words), line
