"""What suites and the report agree on: rounds, measures, goals. No measuring and no printing happens here.

A round holds one value for each measure of each target, taken one target right after the
other, so that a ratio within a round compares what ran under the same conditions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
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
    """How a goal reads."""

    SHARE = "at most this share of the peer's"
    MULTIPLE = "at least this multiple of the peer's"
    VALUE = "at most this value"


@dataclass(frozen=True)
class Goal:
    """What a measure is to reach."""

    bound: Bound
    limit: float

    def is_met_by(self, value: float, ratio: float) -> bool:
        """Whether Hubbub's own value, or its ratio to the peer's if there is one, is good enough."""
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
    """The target that the ratio is formed with, where it is not the suite's."""


@dataclass(frozen=True)
class Suite:
    """A set of targets that are measured alike."""

    name: str
    ours: str
    peer: str
    """The target that ratios are formed with, unless a measure names another."""
    targets: dict[str, str]
    """Every target with a word on what it is, in the order of the columns."""
    measures: list[Measure]
    measure: Callable[[Pace], list[Round]]


def median(rounds: list[Round], target: str, key: str) -> float | None:
    """The middle one of a target's values; None if it has none of this kind."""
    values = [round_values[target][key] for round_values in rounds if key in round_values[target]]
    return statistics.median(values) if values else None


def ratios(rounds: list[Round], suite: Suite, measure: Measure) -> list[float]:
    """Ours to the peer's, in each round, from the least to the greatest; none if the peer has no such value."""
    ours, peer, key = suite.ours, measure.peer or suite.peer, measure.key
    return sorted(
        round_values[ours][key] / round_values[peer][key] for round_values in rounds if key in round_values[peer]
    )
