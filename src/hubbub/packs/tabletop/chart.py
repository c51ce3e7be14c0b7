"""The odds as a picture."""

from __future__ import annotations

from typing import Final

from hubbub.packs.charts import PNG, Bar, NoCharts, draw_bars
from hubbub.packs.tabletop.duality import Outcome, Probability
from hubbub.packs.tabletop.failures import FailedPrecondition

__all__ = ["PNG", "draw"]

_COLOURS: Final = {
    Outcome.CRITICAL_SUCCESS: "#b8860b",
    Outcome.SUCCESS_WITH_HOPE: "#2e7d32",
    Outcome.SUCCESS_WITH_FEAR: "#81b784",
    Outcome.FAILURE_WITH_HOPE: "#d98880",
    Outcome.FAILURE_WITH_FEAR: "#a93226",
}


def draw(odds: Probability, title: str) -> bytes:
    """A PNG with a bar for each outcome. Takes a while: run it in a thread.

    Raises: FailedPrecondition, where there is no matplotlib.
    """
    bars = [
        Bar(
            row.outcome.replace("_", " ").capitalize(),
            row.count,
            _COLOURS[row.outcome],
            f"{row.count}  ({row.count / odds.total_outcomes:.1%})",
        )
        for row in odds.outcome_counts
    ]
    success = f"success {odds.success_count / odds.total_outcomes:.1%}, criticals included"
    try:
        return draw_bars(bars, title=f"{title}\n{success}", axis=f"of {odds.total_outcomes} falls of the dice")
    except NoCharts as error:
        raise FailedPrecondition(error.message) from error
