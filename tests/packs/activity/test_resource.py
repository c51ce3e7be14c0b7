"""`activity://now`: read it, watch it in both eras, and hear of changes only."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from tests.clock import pass_time, until
from tests.packs.activity.desks import at_a_desk, make_server
from tests.packs.activity.odd_server import Odd, odd_server
from tests.packs.activity.watching import Watch, event
from tests.server.conversation import MODERN, Conversation, conversing

from hubbub import Server
from hubbub.packs.activity import diagnosis, resource
from hubbub.packs.activity.pack import install
from hubbub.packs.activity.settings import ActivitySettings

URI = "activity://now"
UPDATED = "notifications/resources/updated"


def show(watch: Watch, title: str) -> None:
    watch.insert("w", [event(datetime.now(UTC) - timedelta(seconds=1), 1, app="Code", title=title)])


async def heard_of_change(client: Conversation) -> None:
    async with asyncio.timeout(60):
        while not client.notes(UPDATED):
            client.take(await client.next())


@pytest.mark.parametrize("dialect", ["2024-11-05", "2025-11-25", MODERN])
async def test_whoever_watches_hears_of_changes(dialect: str, watch: Watch) -> None:
    watch.bucket("w", "currentwindow")
    show(watch, "first")
    server = make_server(watch.url, poll_s=0.1)
    async with server.running(), conversing(server, dialect) as client:
        if dialect == MODERN:
            client.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": [URI]}})
        else:
            await client.result("resources/subscribe", {"uri": URI})
        (contents,) = (await client.result("resources/read", {"uri": URI}))["contents"]
        assert json.loads(contents["text"])["window"]["title"] == "first"
        show(watch, "second")
        await heard_of_change(client)
        (contents,) = (await client.result("resources/read", {"uri": URI}))["contents"]
        assert json.loads(contents["text"])["window"]["title"] == "second"
    assert [note["uri"] for note in client.notes(UPDATED)] == [URI]


async def test_nobody_is_asked_while_nobody_watches() -> None:
    with odd_server(Odd(body=b"{}")) as watch:
        async with looking(watch.url) as (server, clock, _), conversing(server, "2025-11-25") as client:
            await clock.pass_one()
            await clock.pass_one()
            assert watch.asked == []
            await client.result("resources/subscribe", {"uri": URI})
            await clock.pass_one()
            assert watch.asked


async def test_an_activitywatch_that_goes_away_is_a_change_and_no_end() -> None:
    is_well = True

    def answer(method: str, path: str) -> Odd:
        return Odd(body=b"{}") if is_well else Odd(500)

    with odd_server(answer) as watch:
        server = make_server(watch.url, poll_s=0.1)
        async with server.running(), conversing(server, "2025-11-25") as client:
            await client.result("resources/subscribe", {"uri": URI})
            await until(lambda: [path for _, path, _ in watch.asked].count("/api/0/buckets/") > 1)  # it looked once
            is_well = False
            await heard_of_change(client)
            client.heard.clear()
            is_well = True
            await heard_of_change(client)


class Clock:
    """Stands in for sleeping: time passes only when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.may_begin = asyncio.Event()
        self._is_asleep = asyncio.Event()
        self._wake = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self._is_asleep.set()
        await self._wake.wait()
        self._wake.clear()
        self.now_s += seconds

    async def pass_one(self) -> None:
        """Let one sleep pass, and all that follows up to the next."""
        await self.until_asleep()
        self._is_asleep.clear()
        self._wake.set()
        await self.until_asleep()

    async def until_asleep(self) -> None:
        async with asyncio.timeout(60):
            await self._is_asleep.wait()


@asynccontextmanager
async def looking(url: str, *, is_begun: bool = True) -> AsyncIterator[tuple[Server, Clock, Any]]:
    """A server that looks whether something has changed when its clock is told to go on."""
    server, clock = Server("desk", version="1"), Clock()
    desk = install(server, ActivitySettings(aw_url=url, time_zone="UTC"))

    async def look() -> None:
        await clock.may_begin.wait()
        await resource.watch(desk, clock.sleep)

    if is_begun:
        clock.may_begin.set()
    async with server.running():
        watching = asyncio.create_task(look())
        try:
            yield server, clock, desk
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await desk.sources.close()


@pytest.mark.parametrize("is_read_first", [False, True])
async def test_a_change_is_told_within_one_interval_of_looking(is_read_first: bool, watch: Watch) -> None:
    """Also one between reading and the first look."""
    watch.bucket("w", "currentwindow")
    show(watch, "first")
    async with looking(watch.url, is_begun=False) as (server, clock, desk), conversing(server, "2025-11-25") as client:
        await client.result("resources/subscribe", {"uri": URI})
        if is_read_first:
            await client.result("resources/read", {"uri": URI})
            show(watch, "second")
        clock.may_begin.set()
        await clock.until_asleep()
        if not is_read_first:
            await clock.pass_one()
            assert client.notes(UPDATED) == []  # it was looked at again, and was the same
            show(watch, "second")
            await clock.pass_one()
        await heard_of_change(client)
    assert clock.now_s == (0 if is_read_first else 2 * desk.settings.poll_s)
    assert desk.settings.poll_s <= 2


@pytest.mark.parametrize(
    ("tool", "place"),
    [*product(["aw.now", "aw.timeline"], ["/", "/settings", "/buckets/"]), ("aw.now", "/events")],
)
async def test_now_takes_no_longer_than_one_question_may(tool: str, place: str) -> None:
    """Whatever hangs; categories are only nice to have."""
    bucket = b'{"w": {"type": "currentwindow", "hostname": "h"}}'

    def answer(method: str, path: str) -> Odd:
        if place in path and not (place == "/buckets/" and "/events" in path):
            return Odd(hangs=True)
        return Odd(body=b"[]" if "/events" in path or "/settings" in path else bucket if "/buckets" in path else b"{}")

    with odd_server(answer) as watch:
        async with at_a_desk(watch.url, timeout_s=3 if place == "/settings" else 60) as asker:
            calling = asyncio.create_task(asker.client.call(tool, {}))
            await watch.only_hangs()
            if place != "/settings":
                pass_time(60)
            result = await calling
    assert bool(result.get("isError")) == (place != "/settings")


@pytest.mark.parametrize("tool", ["system.health", "nowframe.build", "doctor"])
async def test_slow_buckets_and_events_that_hang_share_the_time_of_one_question(tool: str) -> None:
    def answer(method: str, path: str) -> Odd:
        if "/buckets" not in path or "/events" in path:
            return Odd(hangs="/events" in path)
        loop.call_soon_threadsafe(pass_time, 45)
        return Odd(body=buckets)

    loop, now = asyncio.get_running_loop(), datetime.now(UTC)
    silent = {"type": "web.tab.current", "last_updated": (now - timedelta(hours=1)).isoformat()}
    window = {"type": "currentwindow", "last_updated": now.isoformat()}
    buckets = json.dumps({"aw-watcher-web-firefox": silent, "w": window}).encode()
    with odd_server(answer) as watch:
        async with at_a_desk(watch.url, timeout_s=60) as asker:

            async def ask() -> str:
                if tool == "doctor":
                    return str((await diagnosis.watchers(ActivitySettings(aw_url=watch.url, timeout_s=60))).detail)
                return json.dumps(await asker.call(tool))

            asking = asyncio.create_task(ask())
            await watch.only_hangs()
            pass_time(15)
            told = await asking
    assert "did not answer within 60 s" in told or tool == "nowframe.build"
