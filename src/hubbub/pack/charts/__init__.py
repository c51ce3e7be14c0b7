"""Pictures (PNG) of bars, stacked columns, lanes along a clock and heat maps, for results of tools.

    picture = draw_bar_chart([Bar("Brest", 4.0, Look(choose_colour("Brest")), "4 m")], title="Tides")

A `Canvas` has panels, and each `draw_` function fills one. matplotlib is loaded for the first picture and takes a
while, so draw in a thread. Names may be untrusted text of any length. The extra `charts` installs matplotlib;
without it, `NoCharts` is raised.
"""

from hubbub.pack.charts.canvas import PNG, Canvas, NoCharts, Panel, Picture
from hubbub.pack.charts.colours import FAINT, GREY, PALE, PALETTE, Look, choose_colour, looks
from hubbub.pack.charts.panels import (
    BAR_IN,
    COLUMNS_IN,
    LANE_IN,
    Bar,
    Lane,
    Span,
    Tick,
    draw_bar_chart,
    draw_bars,
    draw_columns,
    draw_heat,
    draw_key,
    draw_lanes,
    key_height_in,
    thin_out,
    write_centred,
)

__all__ = [
    "BAR_IN",
    "COLUMNS_IN",
    "FAINT",
    "GREY",
    "LANE_IN",
    "PALE",
    "PALETTE",
    "PNG",
    "Bar",
    "Canvas",
    "Lane",
    "Look",
    "NoCharts",
    "Panel",
    "Picture",
    "Span",
    "Tick",
    "choose_colour",
    "draw_bar_chart",
    "draw_bars",
    "draw_columns",
    "draw_heat",
    "draw_key",
    "draw_lanes",
    "key_height_in",
    "looks",
    "thin_out",
    "write_centred",
]
