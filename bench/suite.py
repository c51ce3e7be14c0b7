"""Data types shared by suites and the report: rounds, measures, goals.

A round has one value for each measure of each target. Targets are measured one right after the
other, so that a ratio within a round compares values taken under the same conditions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

Values = dict[str, float]
"""One target's values in one round, by measure."""
Round = dict[str, Values]
"""One round's values, by target."""


@dataclass(frozen=True)
class Pace:
    """How long to measure."""

    rounds: int
    phase_s: float


class Bound(Enum):
    """Kind of limit of a goal."""

    SHARE = "at most this share of the peer's"
    MULTIPLE = "at least this multiple of the peer's"
    VALUE = "at most this value"


@dataclass(frozen=True)
class Goal:
    """Target value of a measure."""

    bound: Bound
    limit: float

    def is_met_by(self, value: float, ratio: float) -> bool:
        """Whether Hubbub's value, or its ratio to the peer, is within the limit."""
        match self.bound:
            case Bound.SHARE:
                return ratio <= self.limit
            case Bound.MULTIPLE:
                return ratio >= self.limit
            case Bound.VALUE:
                return value <= self.limit


@dataclass(frozen=True)
class Measure:
    """One line of the report."""

    key: str
    title: str
    unit: str
    goal: Goal | None = None
    peer: str | None = None
    """Target to compare with, if it is not the peer of the suite."""
    is_repeated: bool = False
    """Whether the line above has the same values, compared with another target."""

    def against(self, peer: str, limit: float) -> Measure:
        """Return a second line for the same values, with the goal of at most `limit` times those of another target."""
        goal = Goal(Bound.SHARE, limit)
        return replace(self, title=f"    against {peer}", unit="", goal=goal, peer=peer, is_repeated=True)


@dataclass(frozen=True)
class Suite:
    """A set of targets with the same measures."""

    name: str
    ours: str
    peer: str
    """Target to compare with, unless a measure names another."""
    targets: dict[str, str]
    """Targets with descriptions, in the order of the columns."""
    measures: list[Measure]
    measure: Callable[[Pace], list[Round]]
    floor: str | None = None
    """Target that shows what is possible here: a goal that it misses too is not counted as missed."""


def median(rounds: list[Round], target: str, key: str) -> float | None:
    """Return the median of a target's values; None if it has none."""
    values = [round_values[target][key] for round_values in rounds if key in round_values[target]]
    return statistics.median(values) if values else None


def ratios(rounds: list[Round], target: str, peer: str, key: str) -> list[float]:
    """Return the ratio of a target to a peer in each round, sorted; empty if one of them has no such value."""
    return sorted(
        values[target][key] / values[peer][key] for values in rounds if key in values[target] and key in values[peer]
    )
