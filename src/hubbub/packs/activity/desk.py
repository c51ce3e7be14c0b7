"""What the tools, the resource and the prompts of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from hubbub import Server, bounds
from hubbub.packs.activity import now as present_moment
from hubbub.packs.activity import summary as adding
from hubbub.packs.activity import timeline as ordering
from hubbub.packs.activity.categories import Categories, given_rules, own_rules, recorded_rule
from hubbub.packs.activity.failures import BadRequest, SourceFailure
from hubbub.packs.activity.periods import Period, person_zone, read_period
from hubbub.packs.activity.protection import Snapshots, folder_of
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sources import Records, Sources
from hubbub.packs.activity.watchers import Watchers

_NONE: Final[Mapping[str, str]] = {}


class Desk:
    """The pack on one server."""

    def __init__(self, server: Server, settings: ActivitySettings) -> None:
        """Raises: SettingsError."""
        self.server = server
        self.settings = settings
        self.sources = Sources(settings)
        self.snapshots = Snapshots(folder_of(settings))
        self.zone = person_zone(settings.time_zone)

    def period(self, text: str) -> Period:
        """What a caller means by a period.

        Raises: BadRequest.
        """
        return read_period(text, self.zone, datetime.now(UTC))

    async def now(self, host: str | None = None) -> present_moment.Now:
        """What the person does.

        Raises: SourceFailure, BadRequest.
        """
        moment = present_moment.moment_now(self.zone, self.settings.stale_s)
        return await present_moment.look(self.sources, moment, await self.categories(_NONE), host)

    async def summary(
        self, period: str, by: adding.By, *, top: int = 20, given: Mapping[str, str] = _NONE, host: str | None = None
    ) -> adding.Summary:
        """How a period was spent.

        Raises: SourceFailure, BadRequest.
        """
        meant = self.period(period)
        categories = await self.categories(given) if by == "category" else Categories()
        watchers, records, notes = await self._records(meant, host)
        if by == "category" and not categories:
            notes.append("there are no categories: give some, or set them in ActivityWatch 0.13 or later")
        if by == "domain" and not watchers.web:
            notes.append("no pages are recorded: add the aw-watcher-web extension to your browser")
        return await asyncio.to_thread(
            adding.summarize, records, meant, watchers.host, by, top=_rows(top), categories=categories, notes=notes
        )

    async def timeline(self, period: str, *, least_s: float, most: int, host: str | None = None) -> ordering.Timeline:
        """A period in order.

        Raises: SourceFailure, BadRequest.
        """
        meant = self.period(period)
        categories = await self.categories(_NONE)
        watchers, records, notes = await self._records(meant, host)
        return await asyncio.to_thread(
            ordering.draw_line,
            records,
            meant,
            watchers.host,
            least_s=least_s,
            most=_rows(most),
            categories=categories,
            notes=notes,
        )

    async def categories(self, given: Mapping[str, str]) -> Categories:
        """Those of this question, else of the settings, else of ActivityWatch.

        Raises: SourceFailure, BadRequest.
        """
        if given:
            return Categories(given_rules(given))
        if self.settings.categories:
            return Categories(own_rules(self.settings.categories))
        try:
            recorded = await self.sources.categories()
        except SourceFailure:
            return Categories()  # whatever is wrong, the next question will tell
        rules = (recorded_rule(category.name, category.rule) for category in recorded)
        return Categories(rule for rule in rules if rule is not None)

    async def _records(self, period: Period, host: str | None) -> tuple[Watchers, Records, list[str]]:
        watchers = await self.sources.watchers(host)
        records = await self.sources.records(watchers, period.start, period.end)
        notes = list(watchers.missing)
        if max(len(records.window), len(records.web)) >= bounds.ACTIVITY_EVENTS:
            notes.append(f"only the newest {bounds.ACTIVITY_EVENTS} events were looked at; ask for a shorter period")
        return watchers, records, notes


def _rows(count: int) -> int:
    if not 1 <= count <= bounds.ACTIVITY_ROWS:
        raise BadRequest(f"between 1 and {bounds.ACTIVITY_ROWS} rows can be asked for")
    return count
