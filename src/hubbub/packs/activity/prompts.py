"""Prompts about the user's day. Each includes the facts, so that the model need not call a tool first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec

from hubbub import InvalidParams
from hubbub.packs.activity.breakdown import Unit
from hubbub.packs.activity.desk import Desk
from hubbub.packs.activity.events import one_line
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.summary import Summary, in_words

_DAYS_ONE_BY_ONE: Final = timedelta(days=31)
"""Longer periods are broken down by week instead of by day."""
_HONEST = "Say only what these figures show, and say so where they show little. Times are local."


def register(desk: Desk) -> None:
    """Register the prompts."""

    @desk.server.prompt(title="What did I do?")
    async def what_did_i_do(period: str = "today") -> str:
        """Tell how a day, or another period, was spent.

        Args:
            period: today, yesterday, monday, yesterday 14:00-15:00, last_3d, 2026-11-15, 2026-W46, 2026-11.
        """
        _check(desk, period)
        return f"{await _facts(desk, period)}\n\nTell me in a short paragraph how I spent this time. {_HONEST}"

    @desk.server.prompt(title="Standup")
    async def standup() -> str:
        """Write a standup from what was done yesterday and today."""
        yesterday, today = await _facts(desk, "yesterday"), await _facts(desk, "today")
        return (
            f"Yesterday:\n{yesterday}\n\nToday until now:\n{today}\n\n"
            f"Write my standup: what I worked on, what I am on now. Three to five bullets. {_HONEST}"
        )

    @desk.server.prompt(title="Where was I?")
    async def where_was_i() -> str:
        """Take up work again after a break."""
        line = await desk.timeline("last_4h", least_s=60, most=20)
        blocks = "\n".join(
            one_line(
                f"- {block.start[11:16]} to {block.end[11:16]} {block.kind} {block.app or ''} {block.title or ''}"
            ).rstrip()
            for block in line.blocks
        )
        now = one_line(msgspec.json.encode(await desk.now()).decode())
        return (
            f"The last four hours:\n{blocks or '- nothing was recorded'}{_notes(line.notes)}\n\nNow: {now}\n\n"
            f"Tell me what I was in the middle of, and what I should take up first. {_HONEST}"
        )

    @desk.server.prompt(title="Week in review")
    async def week_in_review(period: str = "week") -> str:
        """Look back at a week.

        Args:
            period: week, last_week, 2026-W46, last_month, or another one.
        """
        meant = _check(desk, period)
        per: Unit = "day" if meant.end - meant.start <= _DAYS_ONE_BY_ONE else "week"
        by_category = await desk.summary(period, "category", per=per)
        return (
            f"{await _facts(desk, period, with_notes=False)}\n\nBy category:\n{_table(by_category)}\n\n"
            f"By {per}:\n{_intervals(by_category)}{_notes(by_category.notes)}\n\n"
            f"Review this week: where the time went, what stands out, one thing to change. {_HONEST}"
        )


def _check(desk: Desk, period: str) -> Period:
    """Report a wrong argument as the caller's error.

    Raises: InvalidParams.
    """
    try:
        return desk.period(period)
    except BadRequest as error:
        raise InvalidParams(error.message) from None


async def _facts(desk: Desk, period: str, *, with_notes: bool = True) -> str:
    apps, titles = await desk.summary(period, "app", top=10), await desk.summary(period, "title", top=10)
    return (
        f"From {apps.start} to {apps.end}, {apps.time_zone}: active {in_words(apps.active_s)}, "
        f"away {in_words(apps.afk_s)}.\n\nBy app:\n{_table(apps)}\n\nBy title:\n{_table(titles)}"
        + _notes(apps.notes if with_notes else ())
    )


def _notes(notes: Iterable[str]) -> str:
    return "".join(f"\n\nNote: {one_line(note)}" for note in notes)


def _table(summary: Summary) -> str:
    lines = [f"- {one_line(row.name)}: {row.duration} ({row.share:.0%})" for row in summary.rows]
    return "\n".join(lines) or "- nothing was recorded"


def _intervals(summary: Summary) -> str:
    lines = [
        one_line(
            f"- {each.label}: {each.duration} ({', '.join(f'{row.name} {row.duration}' for row in each.rows[:3])})"
        )
        for each in summary.intervals
    ]
    return "\n".join(lines) or "- nothing was recorded"
