"""Panels of a canvas: bars, stacked columns, lanes along a clock, a heat map, a legend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from hubbub.pack.charts import colours
from hubbub.pack.charts.canvas import Canvas, Panel, Picture
from hubbub.pack.charts.colours import Look

BAR_IN: Final = 0.3
LANE_IN: Final = 0.26
COLUMNS_IN: Final = 1.9
_NAME_COLUMNS: Final = 36
_NOTE_COLUMNS: Final = 24
_NOTE_SPACE: Final = 1.28
"""The axis is longer than the longest bar, to leave room for the note at its end."""
_KEY_COLUMNS: Final = 3
_KEY_NAME_COLUMNS: Final = 30
_HATCH_LINE_WIDTH: Final = 0.9
_ZERO_TINT: Final = 0.14
_SMALL_FONT_PT: Final = 8


class Bar(msgspec.Struct, frozen=True):
    """One bar, with a name at its left and a note at its right."""

    name: str
    value: float
    look: Look
    note: str


class Tick(msgspec.Struct, frozen=True):
    """A mark on an axis."""

    place: float
    text: str


class Span(msgspec.Struct, frozen=True):
    """A part of a lane."""

    lane: int
    start: float
    end: float
    look: Look


class Lane(msgspec.Struct, frozen=True):
    """A row along the clock."""

    name: str
    note: str = ""


def draw_bar_chart(bars: Sequence[Bar], *, title: str, lines: Iterable[str] = ()) -> Picture:
    """Draw a picture of horizontal bars only, the first one on top; `lines` are written below the title.

    Raises: NoCharts, if matplotlib is not installed.
    """
    canvas = Canvas(title, lines, (), heights_in=[BAR_IN * max(1, len(bars)) + 0.1])
    draw_bars(canvas, canvas.panels[0], bars)
    return canvas.finish()


def draw_bars(canvas: Canvas, axes: Panel, bars: Sequence[Bar]) -> None:
    """Draw horizontal bars, the first one on top; values that are not numbers have no length."""
    values = [_clamp_value(bar.value) for bar in bars]
    longest = max(values, default=0.0) or 1.0
    _hide_frame(axes)
    axes.set_xlim(0, longest * _NOTE_SPACE)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xticks([])
    axes.set_yticks([])
    for place, (bar, value) in enumerate(zip(bars, values, strict=True)):
        axes.barh(place, value, height=0.72, **_style(bar.look))
        _write_name(canvas, axes, place, bar.name)
        canvas.write(
            axes, value + longest * 0.012, place, bar.note, _NOTE_COLUMNS, va="center", fontsize=9, color=colours.INK
        )


def draw_columns(
    canvas: Canvas,
    axes: Panel,
    columns: Sequence[Sequence[tuple[float, Look]]],
    *,
    x_ticks: Sequence[Tick],
    y_ticks: Sequence[Tick],
    notes: Sequence[str] = (),
) -> None:
    """Draw stacked columns, the first part of each at the bottom."""
    _hide_frame(axes)
    heights = [sum(_clamp_value(value) for value, _ in parts) for parts in columns]
    highest = max([*heights, *(tick.place for tick in y_ticks)], default=0.0) or 1.0
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(0, highest * (1.1 if notes else 1.02))
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=colours.GRID, linewidth=0.8)
    for place, parts in enumerate(columns):
        bottom = 0.0
        for value, look in parts:
            axes.bar(place, _clamp_value(value), bottom=bottom, width=0.82, **_style(look))
            bottom += _clamp_value(value)
    for place, note in enumerate(notes):
        style = {"ha": "center", "va": "bottom", "fontsize": _SMALL_FONT_PT, "color": colours.INK}
        canvas.write(axes, place, heights[place] + highest * 0.015, note, _NOTE_COLUMNS, **style)
    axes.axhline(0, color=colours.FAINT_INK, linewidth=0.8)
    _set_ticks(axes, x_ticks, y_ticks)


def draw_lanes(
    canvas: Canvas, axes: Panel, lanes: Sequence[Lane], spans: Sequence[Span], *, width: float, x_ticks: Sequence[Tick]
) -> None:
    """Draw spans along a common axis, the first lane on top."""
    _hide_frame(axes)
    axes.set_xlim(0, width or 1.0)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=colours.GRID, linewidth=0.8)
    grouped_spans: dict[tuple[int, Look], list[tuple[float, float]]] = {}
    for span in spans:
        grouped_spans.setdefault((span.lane, span.look), []).append((span.start, span.end - span.start))
    for (lane, look), parts in grouped_spans.items():
        axes.broken_barh(parts, (lane - 0.36, 0.72), **_style(look, edge_width=0))
    for place, row in enumerate(lanes):
        _write_name(canvas, axes, place, row.name)
        style = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 9, "color": colours.INK}
        canvas.write(axes, 1.012, place, row.note, _NOTE_COLUMNS, **style)
    _set_ticks(axes, x_ticks, ())


def draw_heat(
    canvas: Canvas,
    axes: Panel,
    rows: Sequence[tuple[Lane, Sequence[float | None]]],
    *,
    highest: float,
    x_ticks: Sequence[Tick],
    label: str,
    are_numbered: bool,
) -> None:
    """Draw a cell for each value, darker for more; None is a cell without data."""
    _hide_frame(axes)
    values = [[math.nan if value is None else _clamp_value(value) for value in row] for _, row in rows]
    # The scale begins below zero, so that zero has a tint and differs from cells without data.
    lowest = -_ZERO_TINT * highest
    mesh = axes.pcolormesh(values, cmap="Blues", vmin=lowest, vmax=highest, edgecolors=colours.GRID, linewidth=0.6)
    axes.set_ylim(len(rows), 0)
    for place, (lane, row) in enumerate(rows):
        _write_name(canvas, axes, place + 0.5, lane.name)
        style: dict[str, Any] = {"va": "center", "fontsize": 9, "color": colours.INK}
        canvas.write(axes, 1.012, place + 0.5, lane.note, 24, transform=axes.get_yaxis_transform(), **style)
        for column, value in enumerate(row if are_numbered else ()):
            if value is not None and round(value):
                ink = "white" if value > 0.55 * highest else colours.INK
                axes.text(column + 0.5, place + 0.5, f"{value:.0f}", ha="center", va="center", fontsize=7, color=ink)
    _set_ticks(axes, x_ticks, ())
    bar = axes.figure.colorbar(mesh, ax=axes, orientation="horizontal", shrink=0.35, aspect=28, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.set_xlim(0, highest)
    bar.ax.tick_params(labelsize=_SMALL_FONT_PT, length=2, colors=colours.FAINT_INK)
    bar.set_label(label, fontsize=_SMALL_FONT_PT, color=colours.FAINT_INK)


def draw_key(canvas: Canvas, axes: Panel, entries: Sequence[tuple[str, Look]]) -> None:
    """Draw the legend."""
    axes.axis("off")
    handles = [axes.barh(0, 0, **_style(look)) for _, look in entries]
    legend = axes.legend(
        handles,
        [" "] * len(entries),
        ncols=_KEY_COLUMNS,
        loc="upper left",
        frameon=False,
        fontsize=9,
        labelcolor=colours.INK,
        borderpad=0,
        borderaxespad=0,
    )
    for place, (name, _) in zip(legend.get_texts(), entries, strict=True):
        canvas.set_text(place, name, _KEY_NAME_COLUMNS)


def key_height_in(entries: int) -> float:
    """Height of a legend with so many entries, in inches."""
    return 0.2 * math.ceil(entries / _KEY_COLUMNS) + 0.1


def write_centred(canvas: Canvas, axes: Panel, text: str) -> None:
    """Write a sentence instead of a drawing."""
    axes.axis("off")
    style = {"ha": "center", "va": "center", "fontsize": 13, "color": colours.INK}
    canvas.write(axes, 0.5, 0.5, text, 80, transform=axes.transAxes, **style)


def thin_out(ticks: Sequence[Tick], most: int) -> list[Tick]:
    """Return every second, third, ... mark, so that at most so many are left."""
    return list(ticks[:: max(1, math.ceil(len(ticks) / most))])


def _write_name(canvas: Canvas, axes: Panel, place: float, name: str) -> None:
    style = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center", "fontsize": 10}
    canvas.write(axes, -0.012, place, name, _NAME_COLUMNS, color=colours.INK, **style)


def _style(look: Look, edge_width: float = 0.4) -> dict[str, Any]:
    style: dict[str, Any] = {"facecolor": look.colour, "edgecolor": "white", "linewidth": edge_width}
    return style | {"hatch": look.hatch, "hatch_linewidth": _HATCH_LINE_WIDTH} if look.hatch else style


def _set_ticks(axes: Panel, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick]) -> None:
    axes.set_xticks([tick.place for tick in x_ticks], [tick.text for tick in x_ticks])
    axes.set_yticks([tick.place for tick in y_ticks], [tick.text for tick in y_ticks])
    axes.tick_params(length=0, labelsize=_SMALL_FONT_PT, labelcolor=colours.FAINT_INK)


def _hide_frame(axes: Panel) -> None:
    axes.spines[:].set_visible(False)


def _clamp_value(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0
