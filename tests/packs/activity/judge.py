"""Call ActivityWatch's own libraries, to compare results."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.packs.activity.activitywatch_server import ROOT

from hubbub.packs.activity.events import Event

PYTHON = ROOT / ".judges" / "activitywatch" / "bin" / "python"


class Judge:
    """aw-core and aw-client in a subprocess."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, what: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": what, **arguments}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def flood(self, events: list[Event], pulse_s: float = 5.0) -> list[Event]:
        event_rows = [[event.timestamp.isoformat(), event.duration, event.data] for event in events]
        found = self.ask("flood", events=event_rows, pulse_s=pulse_s)
        return [Event(datetime.fromisoformat(start), seconds, data) for start, seconds, data in found]


@contextmanager
def run_judge(folder: Path) -> Iterator[Judge]:
    """Run a judge; skip the test if ActivityWatch is not installed."""
    if not PYTHON.exists():
        pytest.skip("no ActivityWatch here: scripts/setup test installs it")
    process = subprocess.Popen(
        [PYTHON, "-I", Path(__file__).with_name("judge_program.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={"HOME": str(folder)}, cwd=folder,
    )  # fmt: skip
    with process:
        yield Judge(process)
