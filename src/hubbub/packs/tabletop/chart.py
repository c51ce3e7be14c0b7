"""The odds as a picture. The only importer of matplotlib, which is loaded for the first picture."""

from __future__ import annotations

from io import BytesIO
from typing import Final

from hubbub.packs.tabletop.duality import Outcome, Probability
from hubbub.packs.tabletop.failures import FailedPrecondition

PNG: Final = "image/png"
_INCHES: Final = (8, 4.5)
_DOTS_PER_INCH: Final = 100
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
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FailedPrecondition("charts need matplotlib: pip install 'hubbub[charts]'") from None

    figure = Figure(figsize=_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    axes = figure.subplots()
    rows = odds.outcome_counts[::-1]  # the first one on top
    names = [row.outcome.replace("_", " ").capitalize() for row in rows]
    bars = axes.barh(names, [row.count for row in rows], color=[_COLOURS[row.outcome] for row in rows])
    axes.bar_label(bars, [f"{row.count}  ({row.count / odds.total_outcomes:.1%})" for row in rows], padding=4)
    axes.set_title(f"{title}\nsuccess {odds.success_count / odds.total_outcomes:.1%}, criticals included")
    axes.set_xlabel(f"of {odds.total_outcomes} falls of the dice")
    axes.margins(x=0.18)
    axes.spines[["top", "right"]].set_visible(False)
    picture = BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()
