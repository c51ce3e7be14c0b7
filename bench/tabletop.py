"""The tabletop suite: a roll compared with an echo, a campaign with a bare insert, a long list with its size.

All on stdio. The database is a file on the disk of the checkout, because a commit costs what the disk costs.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import statistics
import sys
from collections.abc import Mapping

from bench.process import ROOT, ServerProcess
from bench.stdio_generator import StdioClient
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values

_FOLDER = ROOT / ".cache" / "bench" / "tabletop"
_HUBBUB = [".venv/bin/hubbub", "serve"]
_ECHO = [*_HUBBUB, "examples/echo.py", "--transport", "stdio"]
_ROLL = {"modifier": 2, "difficulty": 15}
_CAMPAIGN = {"name": "The Lost Expedition", "gm_mode": "HUMAN", "theme_prompt": "A dark fantasy in a cursed forest"}
_CAMPAIGNS = 10_000
_WARM_UP = 0.2  # share of a phase
_TURNS = 10


def _measure(pace: Pace) -> list[Round]:
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    _fill("long.db")
    rounds = []
    for number in range(pace.rounds):
        print(f"tabletop: round {number + 1} of {pace.rounds}", file=sys.stderr)
        ours, floor = _measure_round(pace.phase_s)
        rounds.append({"tabletop": ours, "floor": floor})
    return rounds


def _measure_round(phase_s: float) -> tuple[Values, Values]:
    ours: Values = {"roll_cpu_us": _cpu_us(_table_command("short.db"), "duality_action_roll", _ROLL, phase_s)}
    floor: Values = {"roll_cpu_us": _cpu_us(_ECHO, "echo", {"text": "a text of 20 letters"}, phase_s)}
    ours["create_p50_us"], floor["create_p50_us"] = _create_p50_us(phase_s)
    ours["list_mb"], floor["list_mb"] = _list_mb()
    return ours, floor


def _table_command(database: str) -> list[str]:
    """Return the command of a server whose campaigns are in this file."""
    config = _FOLDER / f"{database}.toml"
    config.write_text(f'[packs.tabletop]\ndatabase = "sqlite:///{_FOLDER / database}"\n')
    return [*_HUBBUB, "--pack", "tabletop", "--transport", "stdio", "--config", str(config)]


def _cpu_us(command: list[str], tool: str, arguments: Mapping[str, object], phase_s: float) -> float:
    """Return the CPU time of the server for one call."""
    with ServerProcess(command) as server:
        client = _open_client(server)
        client.repeat_call(tool, arguments, phase_s * _WARM_UP)
        cpu_s = -server.cpu_s()
        times = client.repeat_call(tool, arguments, phase_s)
        cpu_s += server.cpu_s()
    return cpu_s / len(times) * 1e6


def _create_p50_us(phase_s: float) -> tuple[float, float]:
    """Measure campaigns of the server and rows of `sqlite3` alternately, because the speed of a disk varies."""
    ours: list[float] = []
    bare: list[float] = []
    floor = [sys.executable, "bench/floors/sqlite_insert.py", str(_FOLDER / "bare.db")]
    with ServerProcess(_table_command("short.db")) as server, ServerProcess(floor) as inserting:
        client = _open_client(server)
        client.repeat_call("campaign_create", _CAMPAIGN, phase_s * _WARM_UP)
        for _ in range(_TURNS):
            ours += client.repeat_call("campaign_create", _CAMPAIGN, phase_s / _TURNS)
            bare += _insert_for(inserting, phase_s / _TURNS)
    return statistics.median(ours) * 1e6, statistics.median(bare) * 1e6


def _insert_for(floor: ServerProcess, seconds: float) -> list[float]:
    os.write(floor.input, f"{seconds}\n".encode())
    printed = b""
    while not printed.endswith(b"\n"):
        chunk = os.read(floor.output, 1 << 16)
        if not chunk:
            raise floor.make_error("it has failed")
        printed += chunk
    times: list[float] = json.loads(printed)
    return times


def _list_mb() -> tuple[float, float]:
    """Return the additional memory for reading the long list, and the size of the response."""
    with ServerProcess(_table_command("long.db")) as server:
        client = _open_client(server)
        client.call("campaign_list", {"page_size": 500})  # loads everything that reading needs
        before = server.resident_mb()
        server.reset_peak()
        answer = client.read("campaigns://list")
        return server.peak_mb() - before, len(answer) / 2**20


def _open_client(server: ServerProcess) -> StdioClient:
    client = StdioClient(server)
    client.initialize()
    client.send_initialized()
    return client


def _fill(database: str) -> None:
    """Create one campaign through the server, and copies of it directly in the database."""
    with ServerProcess(_table_command(database)) as server:
        _open_client(server).call("campaign_create", _CAMPAIGN)
    connection = sqlite3.connect(_FOLDER / database)
    columns = [
        name for _, name, *_ in connection.execute("PRAGMA table_info(tabletop_campaigns)") if name != "position"
    ]
    row = connection.execute(f"SELECT {', '.join(columns)} FROM tabletop_campaigns").fetchone()
    place = columns.index("id")
    rows = [(*row[:place], f"{row[place][:-5]}{number:05}", *row[place + 1 :]) for number in range(1, _CAMPAIGNS)]
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO tabletop_campaigns ({', '.join(columns)}) VALUES ({marks})", rows)
    connection.commit()
    connection.close()


SUITE = Suite(
    name="tabletop",
    ours="tabletop",
    peer="floor",
    targets={
        "tabletop": "the tabletop pack on SQLite, started with `hubbub serve`",
        "floor": "echo; sqlite3 with an insert and a commit; the answer's own size",
    },
    measures=[
        Measure("roll_cpu_us", "duality_action_roll beside echo, CPU a call", "µs", Goal(Bound.SHARE, 2)),
        Measure("create_p50_us", "campaign_create beside insert and commit, p50", "µs", Goal(Bound.SHARE, 4)),
        Measure("list_mb", "reading 10,000 campaigns, extra memory beside the answer", "MB", Goal(Bound.SHARE, 3)),
    ],
    measure=_measure,
)
