"""Draw the sample pictures of docs/: `.venv/bin/python docs/pictures/draw.py`. The data are invented."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.chart import ChartKind, draw_chart
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.filtered_sources import Records
from hubbub.packs.activity.periods import Period
from hubbub.packs.tabletop.chart import draw as draw_odds
from hubbub.packs.tabletop.duality import probability

ZONE = ZoneInfo("Europe/Berlin")
APPS = {
    "Code": (30, 900), "Firefox": (30, 420), "kitty": (16, 300), "Thunderbird": (10, 400), "Slack": (14, 180),
    "Obsidian": (7, 500), "微信": (5, 200), "zoom": (2, 2400), "Spotify": (3, 60), "Nautilus": (3, 90),
    "Inkscape": (1, 1200), "דואר": (1, 300),
}  # fmt: skip
"""How often each is used, and for how many seconds on average."""


def invent(first: datetime, days: int, seed: int) -> Records:
    """Invent days at a desk: work with breaks, less at the weekend, sometimes an evening."""
    random = Random(seed)
    window: list[Event] = []
    afk: list[Event] = []
    for number in range(days):
        midnight = first + timedelta(days=number)
        sessions = [(10.5, 12.0)] if midnight.weekday() >= 5 else [(8.6, 12.3), (13.1, 17.4)]
        if random.random() < 0.4:
            sessions.append((20.0, 22.0))
        ends = [(start + random.uniform(-0.4, 0.4), end + random.uniform(-0.5, 0.5)) for start, end in sessions]
        for index, (start_h, end_h) in enumerate(ends):
            end = _work(random, midnight + timedelta(hours=start_h), (end_h - start_h) * 3600, window, afk)
            if index == 0 and len(ends) > 1 and ends[1][0] < 15:  # the machine stays on over lunch
                lunch = midnight + timedelta(hours=ends[1][0])
                afk.append(Event(end, (lunch.astimezone(UTC) - end).total_seconds(), {"status": "afk"}))
    return Records(window=window, afk=afk, web=[])


def _work(random: Random, start: datetime, length_s: float, window: list[Event], afk: list[Event]) -> datetime:
    moment, left_s = start.astimezone(UTC), length_s
    while left_s > 0:
        [app] = random.choices(list(APPS), [weight for weight, _ in APPS.values()])
        duration_s = min(left_s, random.expovariate(1 / APPS[app][1]) + 20)
        window.append(Event(moment, duration_s, {"app": app, "title": app}))
        afk.append(Event(moment, duration_s, {"status": "not-afk"}))
        moment, left_s = moment + timedelta(seconds=duration_s), left_s - duration_s
        if random.random() < 0.05:
            pause_s = random.uniform(300, 1500)
            afk.append(Event(moment, pause_s, {"status": "afk"}))
            moment, left_s = moment + timedelta(seconds=pause_s), left_s - pause_s
    return moment


def main(folder: Path) -> None:
    """Draw all of them."""
    monday = datetime(2026, 11, 2, tzinfo=ZONE)
    month = invent(datetime(2026, 10, 1, tzinfo=ZONE), 62, 14)
    samples: dict[str, tuple[ChartKind, datetime, int]] = {
        "day": ("bars", monday + timedelta(days=1), 1),
        "week": ("bars", monday, 7),
        "timeline": ("timeline", monday + timedelta(days=1), 1),
        "timeline-week": ("timeline", monday, 7),
        "heatmap": ("heatmap", monday, 7),
    }
    for name, (kind, start, days) in samples.items():
        period = Period(start, start + timedelta(days=days))
        records = Records(window=_select_events(month.window, period), afk=_select_events(month.afk, period), web=[])
        chart = draw_chart(kind, records, period, "desk", "app", categories=Categories(), notes=[])
        (folder / f"{name}.png").write_bytes(chart.png)
    (folder / "odds.png").write_bytes(draw_odds(probability(2, 15), "Duality dice +2 against difficulty 15")[0])


def _select_events(events: list[Event], period: Period) -> list[Event]:
    return [event for event in events if period.start <= event.timestamp < period.end]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
