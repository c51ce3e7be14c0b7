"""Format the results of a suite as a table, and save them as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from pathlib import Path

from bench.process import ROOT
from bench.suite import Bound, Goal, Measure, Round, Suite, median, ratios

_RESULTS = ROOT / "bench" / "results"
_MISSED = "MISSED"


def format_table(suite: Suite, rounds: list[Round]) -> str:
    """Return a table with the medians of every target, our ratio to the peer with its spread, and the goals."""
    rows = [["", *suite.targets, f"{suite.ours}/{suite.peer}", "least..most", "goal", ""]]
    rows += [_row(suite, measure, rounds) for measure in suite.measures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    lines = [f"{suite.name}: medians of {len(rounds)} rounds, {load}", ""]
    lines += [f"  {target}: {what}" for target, what in suite.targets.items()]
    lines.append("")
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def is_met(suite: Suite, rounds: list[Round]) -> bool:
    """Whether every goal of the suite is met."""
    return all(_verdict(suite, measure, rounds) != _MISSED for measure in suite.measures)


def save_rounds(suite: Suite, rounds: list[Round]) -> Path:
    """Write all rounds to a file, and return its path relative to the root of the checkout."""
    _RESULTS.mkdir(exist_ok=True)
    path = _RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}-{suite.name}.json"
    record = {
        "suite": suite.name,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "targets": suite.targets,
        "ratios": {
            f"{measure.key}/{_peer(suite, measure)}": statistics.median(found)
            for measure in suite.measures
            if (found := ratios(rounds, suite.ours, _peer(suite, measure), measure.key))
        },
        "rounds": rounds,
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path.relative_to(ROOT)


def _row(suite: Suite, measure: Measure, rounds: list[Round]) -> list[str]:
    values = [_number(median(rounds, target, measure.key)) for target in suite.targets]
    spread = ratios(rounds, suite.ours, _peer(suite, measure), measure.key)
    ratio = _ratio(statistics.median(spread)) if spread else ""
    return [
        f"{measure.title}, {measure.unit}".removesuffix(", "),
        *([""] * len(values) if measure.is_repeated else values),
        f"{ratio} {measure.peer}" if ratio and measure.peer else ratio,
        f"{_ratio(spread[0])}..{_ratio(spread[-1])}" if spread else "",
        _goal(measure.goal, measure.unit),
        _verdict(suite, measure, rounds),
    ]


def _verdict(suite: Suite, measure: Measure, rounds: list[Round]) -> str:
    if measure.goal is None:
        return ""
    if _meets_goal(suite.ours, suite, measure, rounds):
        return "ok"
    floor_misses = suite.floor is not None and _meets_goal(suite.floor, suite, measure, rounds) is False
    return "floor misses" if floor_misses else _MISSED


def _meets_goal(target: str, suite: Suite, measure: Measure, rounds: list[Round]) -> bool | None:
    """Whether a target meets the goal of a measure; None if it, or the peer, has no such value."""
    assert measure.goal is not None
    value = median(rounds, target, measure.key)
    found = ratios(rounds, target, _peer(suite, measure), measure.key)
    if value is None or (not found and measure.goal.bound is not Bound.VALUE):
        return None
    return measure.goal.is_met_by(value, statistics.median(found or [math.nan]))


def _peer(suite: Suite, measure: Measure) -> str:
    return measure.peer or suite.peer


def _goal(goal: Goal | None, unit: str) -> str:
    if goal is None:
        return ""
    if goal.bound is Bound.VALUE:
        return f"≤ {_number(goal.limit)} {unit}"
    return f"{'≤' if goal.bound is Bound.SHARE else '≥'} {_ratio(goal.limit)}"


def _ratio(ratio: float) -> str:
    """Format a ratio, such as 1/8 or 40x."""
    if ratio >= 1:
        return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"
    inverse = 1 / ratio
    return f"1/{inverse:.1f}".removesuffix(".0") if inverse < 10 else f"1/{inverse:.0f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")
