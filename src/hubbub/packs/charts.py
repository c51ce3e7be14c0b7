"""Pictures for packs: bars, each as long as its number. The only importer of matplotlib.

It is loaded for the first picture, and packs work without it; drawing takes a while, so do it in
a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Final

import msgspec

from hubbub import ToolError

PNG: Final = "image/png"
ADVICE: Final = "pip install 'hubbub[charts]'"
_WIDTH: Final = 8.0
_HEIGHT_OF_ONE: Final = 0.42
_HEIGHT_OF_REST: Final = 1.6
_LEAST_HEIGHT: Final = 4.5
_DOTS_PER_INCH: Final = 100
_ROOM_FOR_NOTES: Final = 1.25
_LABEL_CHARACTERS: Final = 40


class NoCharts(ToolError):
    """There is no matplotlib here."""

    def __init__(self) -> None:
        super().__init__(f"charts need matplotlib: {ADVICE}", code="no_matplotlib")


class Bar(msgspec.Struct, frozen=True):
    """One bar."""

    name: str
    value: float
    colour: str
    note: str
    """Stands at its end."""


def draw_bars(bars: Sequence[Bar], *, title: str, axis: str) -> bytes:
    """A PNG with horizontal bars, the first one on top.

    Raises: NoCharts, where there is no matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NoCharts from None

    height = max(_LEAST_HEIGHT, _HEIGHT_OF_ONE * len(bars) + _HEIGHT_OF_REST)
    figure = Figure(figsize=(_WIDTH, height), dpi=_DOTS_PER_INCH, layout="constrained")
    axes = figure.subplots()
    places = range(len(bars))[::-1]
    drawn = axes.barh(places, [bar.value for bar in bars], color=[bar.colour for bar in bars])
    axes.bar_label(drawn, [_plain(bar.note) for bar in bars], padding=4)
    axes.set_yticks(places, [_plain(bar.name) for bar in bars])
    axes.set_title(_plain(title, 200))
    axes.set_xlabel(axis)
    longest = max((bar.value for bar in bars), default=0)
    axes.set_xlim(0, longest * _ROOM_FOR_NOTES or 1)
    axes.spines[["top", "right"]].set_visible(False)
    picture = BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def _plain(text: str, longest: int = _LABEL_CHARACTERS) -> str:
    """Matplotlib takes dollars for mathematics, and titles of windows are not."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return shown.replace("$", r"\$")
