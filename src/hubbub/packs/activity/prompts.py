"""Prompts about the user's day. Each includes the facts, so that the model need not call a tool first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec

from hubbub import InvalidParams
from hubbub.packs.activity.breakdown import Unit
from hubbub.packs.activity.events import to_single_line
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.service import ActivityService
from hubbub.packs.activity.summary import Summary, format_duration

_DAILY_BREAKDOWN_MAX: Final = timedelta(days=31)
"""Longer periods are broken down by week instead of by day."""
_HONESTY_INSTRUCTION = "Say only what these figures show, and say so where they show little. Times are local."


def register(service: ActivityService) -> None:
    """Register the prompts."""

    @service.server.prompt(title="What did I do?")
    async def what_did_i_do(period: str = "today") -> str:
        """Describe how a day, or another period, was spent.

        Args:
            period: today, yesterday, monday, yesterday 14:00-15:00, last_3d, 2026-11-15, 2026-W46, 2026-11.
        """
        _parse_period(service, period)
        summary = await _summarize_period(service, period)
        return f"{summary}\n\nTell me in a short paragraph how I spent this time. {_HONESTY_INSTRUCTION}"

    @service.server.prompt(title="Standup")
    async def standup() -> str:
        """Write a standup from what was done yesterday and today."""
        yesterday, today = await _summarize_period(service, "yesterday"), await _summarize_period(service, "today")
        return (
            f"Yesterday:\n{yesterday}\n\nToday until now:\n{today}\n\n"
            f"Write my standup: what I worked on, what I am on now. Three to five bullets. {_HONESTY_INSTRUCTION}"
        )

    @service.server.prompt(title="Where was I?")
    async def where_was_i() -> str:
        """Resume work after a break."""
        line = await service.timeline("last_4h", min_s=60, max_blocks=20)
        blocks = "\n".join(
            to_single_line(
                f"- {block.start[11:16]} to {block.end[11:16]} {block.kind} {block.app or ''} {block.title or ''}"
            ).rstrip()
            for block in line.blocks
        )
        now = to_single_line(msgspec.json.encode(await service.now()).decode())
        return (
            f"The last four hours:\n{blocks or '- nothing was recorded'}{_format_notes(line.notes)}\n\nNow: {now}\n\n"
            f"Tell me what I was in the middle of, and what I should resume first. {_HONESTY_INSTRUCTION}"
        )

    @service.server.prompt(title="Week in review")
    async def week_in_review(period: str = "week") -> str:
        """Look back at a week.

        Args:
            period: week, last_week, 2026-W46, last_month, or another one.
        """
        parsed_period = _parse_period(service, period)
        per: Unit = "day" if parsed_period.end - parsed_period.start <= _DAILY_BREAKDOWN_MAX else "week"
        by_category = await service.summary(period, "category", per=per)
        return (
            f"{await _summarize_period(service, period, with_notes=False)}\n\nBy "
            f"category:\n{_format_rows(by_category)}\n\n"
            f"By {per}:\n{_format_intervals(by_category)}{_format_notes(by_category.notes)}\n\n"
            f"Review this week: where the time went, what stands out, one thing to change. {_HONESTY_INSTRUCTION}"
        )


def _parse_period(service: ActivityService, period: str) -> Period:
    """Report a wrong argument as the caller's error.

    Raises: InvalidParams.
    """
    try:
        return service.parse_period(period)
    except BadRequest as error:
        raise InvalidParams(error.message) from None


async def _summarize_period(service: ActivityService, period: str, *, with_notes: bool = True) -> str:
    apps, titles = await service.summary(period, "app", top=10), await service.summary(period, "title", top=10)
    return (
        f"From {apps.start} to {apps.end}, {apps.time_zone}: active {format_duration(apps.active_s)}, "
        f"away {format_duration(apps.afk_s)}.\n\nBy app:\n{_format_rows(apps)}\n\nBy title:\n{_format_rows(titles)}"
        + _format_notes(apps.notes if with_notes else ())
    )


def _format_notes(notes: Iterable[str]) -> str:
    return "".join(f"\n\nNote: {to_single_line(note)}" for note in notes)


def _format_rows(summary: Summary) -> str:
    lines = [f"- {to_single_line(row.name)}: {row.duration} ({row.share:.0%})" for row in summary.rows]
    return "\n".join(lines) or "- nothing was recorded"


def _format_intervals(summary: Summary) -> str:
    lines = [
        to_single_line(
            f"- {each.label}: {each.duration} ({', '.join(f'{row.name} {row.duration}' for row in each.rows[:3])})"
        )
        for each in summary.intervals
    ]
    return "\n".join(lines) or "- nothing was recorded"
