"""Run a real ActivityWatch in a temporary folder, and fill it through its REST API."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.interop.external_servers import free_port

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / ".judges" / "activitywatch" / "bin" / "aw-server"
START_TIMEOUT_S = 60.0
HOST = "desk"


class ActivityWatchServer:
    """A running ActivityWatch."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], *, is_testing: bool) -> None:
        self.url = url
        self.process = process
        self.is_testing = is_testing

    def request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(f"{self.url}/api/0/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            if error.code != 304:  # the bucket already exists
                raise
            return None
        return json.loads(text) if text else None

    def bucket(self, name: str, kind: str, *, host: str = HOST, client: str = "test") -> str:
        self.request("POST", f"buckets/{name}", {"client": client, "type": kind, "hostname": host})
        return name

    def insert(self, bucket: str, events: Iterable[dict[str, Any]]) -> None:
        self.request("POST", f"buckets/{bucket}/events", list(events))

    def clear(self) -> None:
        for name in self.request("GET", "buckets/"):
            self.request("DELETE", f"buckets/{name}?force=1")

    def query(self, start: datetime, end: datetime, lines: list[str]) -> Any:
        period = f"{start.isoformat()}/{end.isoformat()}"
        return self.request("POST", "query/", {"timeperiods": [period], "query": lines})[0]


def event(start: datetime, seconds: float, **data: Any) -> dict[str, Any]:
    return {"timestamp": start.isoformat(), "duration": seconds, "data": data}


@contextmanager
def run_activitywatch(folder: Path, *, is_testing: bool, port: int | None = None) -> Iterator[ActivityWatchServer]:
    """Run ActivityWatch; skip the test if it is not installed."""
    if not PROGRAM.exists():
        pytest.skip("no ActivityWatch here: scripts/setup test installs it")
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = [str(PROGRAM), "--host", "127.0.0.1", "--port", str(port), *(["--testing"] if is_testing else [])]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    watch = ActivityWatchServer(f"http://127.0.0.1:{port}", process, is_testing=is_testing)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                watch.request("GET", "info")
                break
            except OSError:
                assert process.poll() is None, "ActivityWatch did not start"
                assert time.monotonic() < deadline, "ActivityWatch did not answer"
                time.sleep(0.05)
        yield watch
    finally:
        process.terminate()
        process.wait()


def insert_morning(watch: ActivityWatchServer) -> datetime:
    """Insert yesterday from nine to eleven: code, a page, mail, half an hour away, code. Returns the start, in UTC."""
    start = (datetime.now(UTC) - timedelta(days=1)).replace(hour=9, minute=0, second=0, microsecond=0)
    window = watch.bucket(f"aw-watcher-window_{HOST}", "currentwindow")
    afk = watch.bucket(f"aw-watcher-afk_{HOST}", "afkstatus")
    web = watch.bucket("aw-watcher-web-firefox", "web.tab.current", host="unknown")

    def at(minutes: float) -> datetime:
        return start + timedelta(minutes=minutes)

    watch.insert(
        window,
        [
            event(at(0), 1800, app="Code", title="main.py - hubbub"),
            event(at(30), 900, app="Firefox", title="MCP - Mozilla Firefox"),
            event(at(45), 900, app="Thunderbird", title="Inbox"),
            event(at(60), 1800, app="Thunderbird", title="Inbox"),
            event(at(90), 1800, app="Code", title="test.py - hubbub"),
        ],
    )
    watch.insert(
        afk,
        [
            event(at(0), 3600, status="not-afk"),
            event(at(60), 1800, status="afk"),
            event(at(90), 1800, status="not-afk"),
        ],
    )
    watch.insert(
        web, [event(at(30), 900, url="https://www.example.org/mcp?x=1", title="MCP", audible=False, incognito=False)]
    )
    return start
