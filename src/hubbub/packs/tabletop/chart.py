"""Draw the probabilities of the outcomes as a picture."""

from __future__ import annotations

from typing import Final

from hubbub.pack.charts import PNG, Bar, Look, NoCharts, draw_bar_chart
from hubbub.packs.tabletop.duality import Outcome, Probability
from hubbub.packs.tabletop.failures import FailedPrecondition

__all__ = ["PNG", "draw"]

_COLOURS: Final = {
    Outcome.CRITICAL_SUCCESS: "#b48700",
    Outcome.SUCCESS_WITH_HOPE: "#004b69",
    Outcome.SUCCESS_WITH_FEAR: "#0078c3",
    Outcome.FAILURE_WITH_HOPE: "#f06978",
    Outcome.FAILURE_WITH_FEAR: "#87004b",
}
"""From `colours.PALETTE`, because many people cannot distinguish red and green."""


def draw(odds: Probability, title: str) -> tuple[bytes, str]:
    """Return a PNG with a bar for each outcome, and the same as text. Slow: run it in a thread.

    Raises: FailedPrecondition, if matplotlib is not installed.
    """
    bars = [
        Bar(
            row.outcome.replace("_", " ").capitalize(),
            row.count,
            Look(_COLOURS[row.outcome]),
            f"{row.count} · {row.count / odds.total_outcomes:.1%}",
        )
        for row in odds.outcome_counts
    ]
    success = f"success {odds.success_count / odds.total_outcomes:.1%}, criticals included"
    lines = [f"Outcomes of all {odds.total_outcomes} combinations of the dice; {success}"]
    try:
        picture = draw_bar_chart(bars, title=title, lines=lines)
    except NoCharts as error:
        raise FailedPrecondition(error.message) from error
    return picture.png, "\n".join([f"{title}. {lines[0]}.", *(f"- {bar.name}: {bar.note}" for bar in bars)])
