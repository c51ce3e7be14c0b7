"""What else can be asked: now, a period added up or in order, a query, a picture, the screen."""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hubbub import Image
from hubbub.packs.activity import day_chart
from hubbub.packs.activity.contract_tools import READS
from hubbub.packs.activity.desk import Desk
from hubbub.packs.activity.now import Now
from hubbub.packs.activity.periods import HELP
from hubbub.packs.activity.query_language import read_query
from hubbub.packs.activity.query_run import Run, Telling
from hubbub.packs.activity.summary import By, Summary
from hubbub.packs.activity.timeline import Timeline
from hubbub.packs.charts import PNG

When = Annotated[str, Meta(description=f"Which period: {HELP}.")]
Host = Annotated[str | None, Meta(description="Which machine, where ActivityWatch knows several.")]
Rules = Annotated[
    dict[str, str] | None,
    Meta(description="Categories for this question, each with a regular expression: {'Work > Code': 'vim|emacs'}."),
]


class Queried(msgspec.Struct):
    """What a query gave."""

    start: str
    end: str
    result: Any
    is_cut: bool
    """Whether the result is only the first part of what there is."""


class Screen(msgspec.Struct):
    """What is on the screen."""

    window: dict[str, Any] | None
    elements: list[dict[str, Any]]
    text: str
    latency_ms: int | None


def register(desk: Desk) -> None:
    """Put the tools on the server."""
    _register_reports(desk)
    _register_rest(desk)


def _register_reports(desk: Desk) -> None:
    tool = desk.server.tool

    @tool(name="aw.now", annotations=READS)
    async def now(*, host: Host = None) -> Now:
        """Tell what the person is doing: window, presence, page and file, each with its age."""
        return await desk.now(host)

    @tool(name="aw.summary", annotations=READS)
    async def summary(
        *, period: When = "today", by: By = "app", top: int = 20, categories: Rules = None, host: Host = None
    ) -> Summary:
        """Add up how a period was spent, without the time nobody was there.

        Args:
            by: What to add up by; domains need the browser's watcher.
            top: How many rows to give at most.
        """
        return await desk.summary(period, by, top=top, given=categories or {}, host=host)

    @tool(name="aw.timeline", annotations=READS)
    async def timeline(
        *, period: When = "today", min_seconds: float = 60.0, limit: int = 100, host: Host = None
    ) -> Timeline:
        """Tell a period in order: what followed what, when nobody was there, how often attention moved.

        Args:
            min_seconds: Leave out what was shorter.
            limit: How many blocks to give at most, the latest ones.
        """
        return await desk.timeline(period, least_s=min_seconds, most=limit, host=host)

    @tool(name="aw.chart", annotations=READS)
    async def chart(*, period: When = "today", by: By = "app", categories: Rules = None, host: Host = None) -> Image:
        """Draw how a period was spent as a PNG picture.

        Args:
            by: What each bar stands for.
        """
        found = await desk.summary(period, by, top=day_chart.BARS, given=categories or {}, host=host)
        return Image(await asyncio.to_thread(day_chart.draw, found), PNG)


def _register_rest(desk: Desk) -> None:
    tool = desk.server.tool

    @tool(name="aw.query", annotations=READS)
    async def query(*, query: str | list[str], period: When = "today") -> Queried:
        """Ask in ActivityWatch's query language, such as RETURN = query_bucket(find_bucket("aw-watcher-window_"));

        Args:
            query: The statements, as one text or as a list of them; the result is what RETURN is assigned.
        """
        statements, meant = read_query(query), desk.period(period)
        result = await Run(desk.sources, meant).result(statements)
        telling = Telling(desk.zone)
        told = telling.tell(result)
        start, end = (moment.isoformat(timespec="seconds") for moment in (meant.start, meant.end))
        return Queried(start, end, told, telling.is_cut)

    @tool(name="screen.read", annotations=READS)
    async def read_screen() -> Screen:
        """Read what is on the screen now, through the sidecar: its text and elements, and the window in front."""
        found = await desk.sources.screen()
        lines = [element["content"] for element in found["elements"] if isinstance(element.get("content"), str)]
        return Screen(found["window"], found["elements"], "\n".join(lines), found["latency_ms"])
