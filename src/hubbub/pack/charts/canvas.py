"""One picture: its figure, fonts and PNG bytes. The only module that imports matplotlib, for the first picture.

matplotlib takes a while: draw in a thread. Text from outside is written with `write`, never as a tick label, because a
character that no font has is replaced when the picture is finished.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from textwrap import wrap
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.errors import ToolError
from hubbub.pack.charts import colours
from hubbub.pack.charts.labels import clean, cut, replace_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

Panel: TypeAlias = "Axes"
PNG: Final = "image/png"
ADVICE: Final = "install Hubbub with its extra 'charts' (in a clone: pip install -e '.[charts]')"
WIDTH_IN: Final = 8.0
_DOTS_PER_INCH: Final = 100
_COLUMN_EM: Final = 0.62
"""Average width of a column, relative to the font size."""
_TITLE_COLUMNS: Final = 76
_LINE_COLUMNS: Final = 112
_NOTE_COLUMNS: Final = 132
_MAX_NOTE_LINES: Final = 4
_MARGIN_IN: Final = 0.1
_TITLE_IN: Final = 0.26
_LINE_IN: Final = 0.18
_BASE_FAMILY: Final = "DejaVu Sans"
"""Comes with matplotlib."""
_PREFERRED_FAMILIES: Final = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans CJK TC", "Source Han Sans SC",
    "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "VL Gothic", "IPAGothic", "NanumGothic",
    "PingFang SC", "Hiragino Sans", "Hiragino Sans GB", "Apple SD Gothic Neo", "Heiti TC", "Arial Unicode MS",
    "Microsoft YaHei", "Yu Gothic", "Meiryo", "MS Gothic", "Malgun Gothic", "SimSun",
    "Noto Sans", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Segoe UI", "Arial",
    "Noto Emoji", "Noto Sans Symbols2", "Noto Sans Symbols", "Symbola", "Segoe UI Symbol", "Segoe UI Emoji",
    "Apple Symbols", "FreeSans", "Unifont",
)  # fmt: skip
"""Tried first and in this order, because they look good together; then all other installed families."""
_ORDINARY_WEIGHTS: Final = (400, 500, "normal", "regular", "medium", "book")
_BOX_FAMILY_PREFIX: Final = "Last Resort"
"""Comes with matplotlib and has a box for every character."""
_lock: Final = Lock()


class NoCharts(ToolError):
    """matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__(f"charts need matplotlib: {ADVICE}", code="no_matplotlib")


class Picture(msgspec.Struct, frozen=True):
    """A finished picture."""

    png: bytes
    notes: tuple[str, ...] = ()
    """Notes for the reader about the picture itself."""


class Canvas:
    """A figure with a header above and notes below its panels."""

    def __init__(self, title: str, lines: Iterable[str], notes: Iterable[str], *, heights_in: Sequence[float]) -> None:
        """Raises: NoCharts, if matplotlib is not installed."""
        header_lines = list(lines)
        footer_lines = _wrap_notes(notes)
        header_in = _TITLE_IN + _LINE_IN * len(header_lines) + _MARGIN_IN
        footer_in = _LINE_IN * len(footer_lines) + _MARGIN_IN
        height_in = header_in + sum(heights_in) + footer_in
        self._figure: Figure = _load_figure()(
            figsize=(WIDTH_IN, height_in), dpi=_DOTS_PER_INCH, layout="constrained", facecolor="white"
        )
        engine: Any = self._figure.get_layout_engine()
        engine.set(h_pad=_MARGIN_IN / 2, w_pad=_MARGIN_IN)
        # Each panel is laid out by itself: the names beside bars take no space from columns.
        grid: Any = self._figure.subfigures(len(heights_in) + 2, 1, height_ratios=[header_in, *heights_in, footer_in])
        self.panels: list[Panel] = [part.subplots() for part in grid[1:-1]]
        self._texts: list[tuple[Text, int]] = []
        y_in = height_in - _MARGIN_IN
        self._write_line(title, y_in, _TITLE_COLUMNS, fontsize=12, fontweight="bold", color=colours.INK)
        y_in -= _TITLE_IN
        for line in header_lines:
            self._write_line(line, y_in, _LINE_COLUMNS, fontsize=9, color=colours.FAINT_INK)
            y_in -= _LINE_IN
        y_in = footer_in
        for note in footer_lines:
            self._write_line(note, y_in, _NOTE_COLUMNS, fontsize=8, color=colours.FAINT_INK)
            y_in -= _LINE_IN

    def _write_line(self, text: str, y_in: float, columns: int, **style: Any) -> None:
        place = self._figure.text(_MARGIN_IN / WIDTH_IN, y_in / self._figure.get_figheight(), "", va="top", **style)
        place.set_in_layout(False)
        self.set_text(place, text, columns)

    def write(self, axes: Panel, x: float, y: float, text: str, columns: int, **style: Any) -> None:
        """Write a text that may come from outside into a panel; `style` is matplotlib's."""
        self.set_text(axes.text(x, y, "", **style), text, columns)

    def set_text(self, place: Text, text: str, columns: int) -> None:
        """Put a text that may come from outside into a text object of matplotlib."""
        place.set_text(clean(text, columns))
        place.set_parse_math(False)  # titles with two dollars are not formulas
        self._texts.append((place, columns))

    def finish(self) -> Picture:
        """Draw the picture."""
        non_ascii = [(place, columns) for place, columns in self._texts if not place.get_text().isascii()]
        wanted = {character for place, _ in non_ascii for character in place.get_text() if not character.isascii()}
        families, missing = find_families(frozenset(wanted))
        for place, columns in non_ascii:
            place.set_fontfamily(families)
            place.set_fontweight("normal")  # few of the other fonts are bold
            place.set_text(cut(replace_missing(place.get_text(), missing), columns))
        for place, columns in self._texts:
            self._shorten(place, columns)
        picture = BytesIO()
        self._figure.savefig(picture, format="png", metadata={"Software": None})
        return Picture(picture.getvalue(), _missing_note(missing))

    def _shorten(self, place: Text, columns: int) -> None:
        """Cut a text that is wider than its columns, such as thirty W or a character that shows a whole sentence."""
        max_width = columns * _COLUMN_EM * float(place.get_fontsize()) * _DOTS_PER_INCH / 72
        width = place.get_window_extent().width
        if width > max_width:
            place.set_text(cut(place.get_text(), max(1, int(columns * max_width / width))))


def _wrap_notes(notes: Iterable[str]) -> list[str]:
    """Wrap notes into a few lines, so that they leave room for the picture; the text beside it has all of them."""
    lines = [line for note in notes for line in wrap(clean(note, 4 * _NOTE_COLUMNS), _NOTE_COLUMNS)]
    return (
        lines
        if len(lines) <= _MAX_NOTE_LINES
        else [*lines[: _MAX_NOTE_LINES - 1], "More notes are in the text beside this picture."]
    )


def _missing_note(missing: frozenset[str]) -> tuple[str, ...]:
    if not missing:
        return ()
    codes = ", ".join(f"U+{ord(character):04X}" for character in sorted(missing)[:3])
    return (
        f"no installed font has {len(missing)} of the characters, such as {codes}, so the picture shows codes or names "
        "instead; install a font that has them, such as Noto Sans CJK or Noto Emoji, and restart the server",
    )


def _load_figure() -> type[Figure]:
    with _lock:
        is_first_import = "matplotlib" not in sys.modules
        try:
            import matplotlib
            from matplotlib.figure import Figure
        except ImportError:
            raise NoCharts from None
        if is_first_import:
            # It has read the matplotlibrc of an untrusted working folder, if there is one: one that enables TeX
            # would start programs. What the user's own program has set stays.
            matplotlib.rcdefaults()
        return Figure


@lru_cache(maxsize=64)
def find_families(characters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """Return the installed font families that have these characters, and the characters that none of them has."""
    families, missing = [_BASE_FAMILY], _find_missing(_BASE_FAMILY, characters)
    if not missing:
        return families, missing
    with _lock:
        _add_new_fonts()
        for family in _installed_families():
            remaining = _find_missing(family, missing)
            if remaining != missing:
                families.append(family)
                missing = remaining
            if not missing:
                break
    return families, missing


@lru_cache(maxsize=1)
def _add_new_fonts() -> None:
    """Add fonts that were installed after matplotlib wrote its font list to a file, which it never updates."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    known = {entry.fname for entry in manager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known)[: bounds.CHART_FONTS]:
        try:
            manager.addfont(path)
        except (OSError, RuntimeError, ValueError, KeyError):
            continue  # damaged, or only bitmaps; matplotlib skips those as well


def _installed_families() -> list[str]:
    """Upright fonts of ordinary weight, those of `_PREFERRED_FAMILIES` first."""
    from matplotlib import font_manager

    entries = font_manager.fontManager.ttflist
    names = {entry.name for entry in entries if entry.style == "normal" and entry.weight in _ORDINARY_WEIGHTS}
    other_names = sorted(
        name for name in names.difference(_PREFERRED_FAMILIES) if not name.startswith(_BOX_FAMILY_PREFIX)
    )
    return [*(name for name in _PREFERRED_FAMILIES if name in names), *other_names][: bounds.CHART_FONTS]


def _find_missing(family: str, characters: frozenset[str]) -> frozenset[str]:
    from matplotlib import font_manager

    try:
        path = font_manager.findfont(font_manager.FontProperties(family=[family]), fallback_to_default=False)
        font = font_manager.get_font(path)
    except (OSError, RuntimeError, ValueError):
        return characters  # removed, damaged, or nothing but coloured bitmaps
    return frozenset(character for character in characters if not font.get_char_index(ord(character)))
