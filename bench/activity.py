"""The activity suite: each call, compared with the same requests sent directly to ActivityWatch and the sidecar.

A real ActivityWatch (from `scripts/setup test`) with 10,000 events of one day, and our sidecar with its mock engine.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from bench.process import ROOT, BenchError, ServerProcess, on_any_core
from bench.stdio_generator import StdioClient
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite

_FOLDER = ROOT / ".cache" / "bench" / "activity"
_WATCH = ROOT / ".judges" / "activitywatch" / "bin" / "aw-server"
_EVENTS = 10_000
_START_S = 30.0
_APPS = ("Code", "Firefox", "Terminal", "Thunderbird", "Slack", "Files")
_QUERY = [
    'events = flood(query_bucket("aw-watcher-window_bench"));',
    'afk = flood(query_bucket("aw-watcher-afk_bench"));',
    'present = filter_keyvals(afk, "status", ["not-afk"]);',
    "events = filter_period_intersect(events, present);",
    'RETURN = sort_by_duration(merge_events_by_keys(events, ["app"]));',
]
_PAUSE_S = 0.02


def _measure(pace: Pace) -> list[Round]:
    if not _WATCH.exists():
        raise BenchError("ActivityWatch is not installed; run scripts/setup test")
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    start = (datetime.now(UTC) - timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    rounds = []
    with _activitywatch() as watch, _sidecar() as sidecar:
        _fill(watch, start)
        for number in range(pace.rounds):
            print(f"activity: round {number + 1} of {pace.rounds}", file=sys.stderr)
            rounds.append(_round(watch, sidecar, start, pace))
    return rounds


def _round(watch: int, sidecar: int, start: datetime, pace: Pace) -> Round:
    period = f"{start.isoformat()}/{(start + timedelta(days=1)).isoformat()}"
    query = {"timeperiods": [period], "query": _QUERY}

    def info() -> object:
        return _request(watch, "GET", "/api/0/info")

    def buckets() -> object:
        return _request(watch, "GET", "/api/0/buckets/")

    def probe() -> object:
        return _request(sidecar, "GET", "/probe")

    def events() -> object:
        return _request(watch, "POST", "/api/0/query/", query)

    ours, raw = {}, {}
    with ServerProcess(_command(watch, sidecar)) as server:
        client = StdioClient(server)
        client.initialize()
        client.send_initialized()
        for name, tool, arguments, requests in (
            ("health_ms", "system.health", {}, (info, probe)),
            ("frame_ms", "nowframe.build", {}, (info, buckets, probe)),
            ("summary_ms", "aw.summary", {"period": period}, (events,)),
        ):
            own_ms, *other_ms = _median_ms([partial(client.call, tool, arguments), *requests], pace.phase_s)
            ours[name], raw[name] = own_ms, max(other_ms)
    return {"activity": ours, "raw": raw}


def _command(watch: int, sidecar: int) -> list[str]:
    config = _FOLDER / "hubbub.toml"
    config.write_text(
        f'[packs.activity]\naw_url = "http://127.0.0.1:{watch}"\nsidecar_url = "http://127.0.0.1:{sidecar}"\n'
        f'time_zone = "UTC"\nprotected_folder = "{_FOLDER}"\n'
    )
    return [".venv/bin/hubbub", "serve", "--pack", "activity", "--transport", "stdio", "--config", str(config)]


def _median_ms(calls: Sequence[Callable[[], object]], phase_s: float) -> list[float]:
    """Return the median duration of each call, from at least three runs.

    The calls alternate, so that other load affects all of them equally; a pause between them lets the servers
    finish the previous one.
    """
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + phase_s * len(calls)
    while len(times[0]) < 3 or time.perf_counter() < end:
        for call, durations in zip(calls, times, strict=True):
            time.sleep(_PAUSE_S)
            start = time.perf_counter()
            call()
            durations.append(time.perf_counter() - start)
    return [statistics.median(durations) * 1000 for durations in times]


def _request(port: int, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_S)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300 and answer.status != 304:
            raise BenchError(f"{path} answered with {answer.status}: {text[:200]!r}")
        return json.loads(text) if text else None
    finally:
        connection.close()


def _fill(watch: int, start: datetime) -> None:
    for name, kind in (("aw-watcher-window_bench", "currentwindow"), ("aw-watcher-afk_bench", "afkstatus")):
        _request(watch, "POST", f"/api/0/buckets/{name}", {"client": "bench", "type": kind, "hostname": "bench"})
    step_s = 86_000 / _EVENTS
    windows = [
        _event(start, number * step_s, step_s - 1, app=_APPS[number % 6], title=f"window {number % 400}")
        for number in range(_EVENTS)
    ]
    presence = [
        _event(start, number * 600.0, 590, status="afk" if number % 4 == 3 else "not-afk") for number in range(143)
    ]
    for name, events in (("aw-watcher-window_bench", windows), ("aw-watcher-afk_bench", presence)):
        for first in range(0, len(events), 1000):
            _request(watch, "POST", f"/api/0/buckets/{name}/events", events[first : first + 1000])


def _event(start: datetime, after_s: float, seconds: float, **data: str) -> dict[str, Any]:
    return {"timestamp": (start + timedelta(seconds=after_s)).isoformat(), "duration": seconds, "data": data}


@contextmanager
def _activitywatch() -> Iterator[int]:
    folders = {f"XDG_{name}_HOME": str(_FOLDER / name.lower()) for name in ("DATA", "CONFIG", "CACHE")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(_FOLDER), **folders}
    with _listening([str(_WATCH), "--host", "127.0.0.1"], "/api/0/info", environment) as port:
        yield port


@contextmanager
def _sidecar() -> Iterator[int]:
    with _listening([".venv/bin/hubbub", "sidecar", "--engine", "mock"], "/probe", dict(os.environ)) as port:
        yield port


@contextmanager
def _listening(command: Sequence[str], path: str, environment: dict[str, str]) -> Iterator[int]:
    """Run a server on a free port; yields the port when it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with on_any_core():
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                _request(port, "GET", path)
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise BenchError(f"{command[0]} did not start") from error
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(_START_S)


SUITE = Suite(
    name="activity",
    ours="activity",
    peer="raw",
    targets={
        "activity": "the activity pack, started with `hubbub serve`",
        "raw": "the slowest request that it sends, and ActivityWatch's own query, sent directly",
    },
    measures=[
        Measure("health_ms", "system.health beside its slowest request, p50", "ms", Goal(Bound.SHARE, 1.5)),
        Measure("frame_ms", "nowframe.build beside its slowest request, p50", "ms", Goal(Bound.SHARE, 1.5)),
        Measure("summary_ms", "aw.summary of 10,000 events beside the query, p50", "ms", Goal(Bound.SHARE, 1.5)),
    ],
    measure=_measure,
)
