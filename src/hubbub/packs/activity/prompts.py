"""What to ask a model about the person's day. Each brings the facts along, so that no tool needs to be called first."""

from __future__ import annotations

import msgspec

from hubbub.errors import InvalidParams
from hubbub.packs.activity.desk import Desk
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.summary import Summary, in_words

_HONEST = "Say only what these figures show, and say so where they show little. Times are local."


def register(desk: Desk) -> None:
    """Put the prompts on the server."""

    @desk.server.prompt(title="What did I do?")
    async def what_did_i_do(period: str = "today") -> str:
        """Tell how a day, or another period, was spent.

        Args:
            period: today, yesterday, week, last_3d, a day, or two ISO times with a slash.
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
            f"- {block.start[11:16]} to {block.end[11:16]} {block.kind} {block.app or ''} {block.title or ''}".rstrip()
            for block in line.blocks
        )
        now = msgspec.json.encode(await desk.now()).decode()
        return (
            f"The last four hours:\n{blocks or '- nothing was recorded'}\n\nNow: {now}\n\n"
            f"Tell me what I was in the middle of, and what I should take up first. {_HONEST}"
        )

    @desk.server.prompt(title="Week in review")
    async def week_in_review(period: str = "week") -> str:
        """Look back at a week.

        Args:
            period: week, last_week, or another one.
        """
        _check(desk, period)
        by_category = _table(await desk.summary(period, "category"))
        return (
            f"{await _facts(desk, period)}\n\nBy category:\n{by_category}\n\n"
            f"Review this week: where the time went, what stands out, one thing to change. {_HONEST}"
        )


def _check(desk: Desk, period: str) -> None:
    """A wrong argument is the caller's fault, and is told as such.

    Raises: InvalidParams.
    """
    try:
        desk.period(period)
    except BadRequest as error:
        raise InvalidParams(error.message) from None


async def _facts(desk: Desk, period: str) -> str:
    apps, titles = await desk.summary(period, "app", top=10), await desk.summary(period, "title", top=10)
    return (
        f"From {apps.start} to {apps.end}, {apps.time_zone}: active {in_words(apps.active_s)}, "
        f"away {in_words(apps.afk_s)}.\n\nBy app:\n{_table(apps)}\n\nBy title:\n{_table(titles)}"
        + "".join(f"\n\nNote: {note}" for note in apps.notes)
    )


def _table(summary: Summary) -> str:
    lines = [f"- {row.name}: {row.duration} ({row.share:.0%})" for row in summary.rows]
    return "\n".join(lines) or "- nothing was recorded"
