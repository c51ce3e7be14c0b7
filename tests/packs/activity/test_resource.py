"""`activity://now` can be read and subscribed to in both eras; only changes are notified."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from tests.clock import advance_clock, wait_until
from tests.packs.activity.activitywatch_server import ActivityWatchServer, event
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.tool_clients import connect_tool_client, make_server
from tests.server.raw_client import MODERN, RawClient, connect_raw_client

from hubbub import Server
from hubbub.packs.activity import diagnosis, resource
from hubbub.packs.activity.pack import install
from hubbub.packs.activity.settings import ActivitySettings

URI = "activity://now"
UPDATED = "notifications/resources/updated"


def show(watch: ActivityWatchServer, title: str) -> None:
    watch.insert("w", [event(datetime.now(UTC) - timedelta(seconds=1), 1, app="Code", title=title)])


async def wait_for_update(client: RawClient) -> None:
    async with asyncio.timeout(60):
        while not client.notifications(UPDATED):
            client.handle_message(await client.next_message())


@pytest.mark.parametrize("dialect", ["2024-11-05", "2025-11-25", MODERN])
async def test_subscribers_are_notified_of_changes(dialect: str, watch: ActivityWatchServer) -> None:
    watch.bucket("w", "currentwindow")
    show(watch, "first")
    server = make_server(watch.url, poll_s=0.1)
    async with server.running(), connect_raw_client(server, dialect) as client:
        if dialect == MODERN:
            client.send_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": [URI]}})
        else:
            await client.result("resources/subscribe", {"uri": URI})
        (contents,) = (await client.result("resources/read", {"uri": URI}))["contents"]
        assert json.loads(contents["text"])["window"]["title"] == "first"
        show(watch, "second")
        await wait_for_update(client)
        (contents,) = (await client.result("resources/read", {"uri": URI}))["contents"]
        assert json.loads(contents["text"])["window"]["title"] == "second"
    assert [note["uri"] for note in client.notifications(UPDATED)] == [URI]


async def test_without_subscribers_activitywatch_is_not_polled() -> None:
    with run_scripted_server(ScriptedResponse(body=b"{}")) as watch:
        async with (
            run_polling_server(watch.url) as (server, clock, _),
            connect_raw_client(server, "2025-11-25") as client,
        ):
            await clock.advance()
            await clock.advance()
            assert watch.requests == []
            await client.result("resources/subscribe", {"uri": URI})
            await clock.advance()
            assert watch.requests


async def test_an_unreachable_activitywatch_is_a_change_and_polling_continues() -> None:
    is_well = True

    def answer(method: str, path: str) -> ScriptedResponse:
        return ScriptedResponse(body=b"{}") if is_well else ScriptedResponse(500)

    with run_scripted_server(answer) as watch:
        server = make_server(watch.url, poll_s=0.1)
        async with server.running(), connect_raw_client(server, "2025-11-25") as client:
            await client.result("resources/subscribe", {"uri": URI})
            await wait_until(
                lambda: [path for _, path, _ in watch.requests].count("/api/0/buckets/") > 1
            )  # it polled once
            is_well = False
            await wait_for_update(client)
            client.received.clear()
            is_well = True
            await wait_for_update(client)


class Clock:
    """Replaces `asyncio.sleep`: time passes only in `advance`."""

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

    async def advance(self) -> None:
        """End the current sleep, and wait for the next one."""
        await self.wait_until_asleep()
        self._is_asleep.clear()
        self._wake.set()
        await self.wait_until_asleep()

    async def wait_until_asleep(self) -> None:
        async with asyncio.timeout(60):
            await self._is_asleep.wait()


@asynccontextmanager
async def run_polling_server(url: str, *, is_started: bool = True) -> AsyncIterator[tuple[Server, Clock, Any]]:
    """Run a server that polls for changes when its clock is advanced."""
    server, clock = Server("desk", version="1"), Clock()
    desk = install(server, ActivitySettings(aw_url=url, time_zone="UTC"))

    async def poll() -> None:
        await clock.may_begin.wait()
        await resource.poll_changes(desk, clock.sleep)

    if is_started:
        clock.may_begin.set()
    async with server.running():
        watching = asyncio.create_task(poll())
        try:
            yield server, clock, desk
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await desk.sources.close()


@pytest.mark.parametrize("is_read_first", [False, True])
async def test_a_change_is_notified_within_one_polling_interval(
    is_read_first: bool, watch: ActivityWatchServer
) -> None:
    """Also a change between reading and the first poll."""
    watch.bucket("w", "currentwindow")
    show(watch, "first")
    async with (
        run_polling_server(watch.url, is_started=False) as (server, clock, desk),
        connect_raw_client(server, "2025-11-25") as client,
    ):
        await client.result("resources/subscribe", {"uri": URI})
        if is_read_first:
            await client.result("resources/read", {"uri": URI})
            show(watch, "second")
        clock.may_begin.set()
        await clock.wait_until_asleep()
        if not is_read_first:
            await clock.advance()
            assert client.notifications(UPDATED) == []  # polled again, without a change
            show(watch, "second")
            await clock.advance()
        await wait_for_update(client)
    assert clock.now_s == (0 if is_read_first else 2 * desk.settings.poll_s)
    assert desk.settings.poll_s <= 2


@pytest.mark.parametrize(
    ("tool", "place"),
    [*product(["aw.now", "aw.timeline"], ["/", "/settings", "/buckets/"]), ("aw.now", "/events")],
)
async def test_now_takes_at_most_the_timeout_of_one_request(tool: str, place: str) -> None:
    """Whatever request hangs; only categories are optional."""
    bucket = b'{"w": {"type": "currentwindow", "hostname": "h"}}'

    def answer(method: str, path: str) -> ScriptedResponse:
        if place in path and not (place == "/buckets/" and "/events" in path):
            return ScriptedResponse(hangs=True)
        return ScriptedResponse(
            body=b"[]" if "/events" in path or "/settings" in path else bucket if "/buckets" in path else b"{}"
        )

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, timeout_s=3 if place == "/settings" else 60) as tool_client:
            calling = asyncio.create_task(tool_client.client.call(tool, {}))
            await watch.wait_until_hanging()
            if place != "/settings":
                advance_clock(60)
            result = await calling
    assert bool(result.get("isError")) == (place != "/settings")


@pytest.mark.parametrize("tool", ["system.health", "nowframe.build", "doctor"])
async def test_slow_buckets_and_hanging_events_share_one_timeout(tool: str) -> None:
    def answer(method: str, path: str) -> ScriptedResponse:
        if "/buckets" not in path or "/events" in path:
            return ScriptedResponse(hangs="/events" in path)
        loop.call_soon_threadsafe(advance_clock, 45)
        return ScriptedResponse(body=buckets)

    loop, now = asyncio.get_running_loop(), datetime.now(UTC)
    silent = {"type": "web.tab.current", "last_updated": (now - timedelta(hours=1)).isoformat()}
    window = {"type": "currentwindow", "last_updated": now.isoformat()}
    buckets = json.dumps({"aw-watcher-web-firefox": silent, "w": window}).encode()
    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, timeout_s=60) as tool_client:

            async def ask() -> str:
                if tool == "doctor":
                    return str((await diagnosis.watchers(ActivitySettings(aw_url=watch.url, timeout_s=60))).detail)
                return json.dumps(await tool_client.call(tool))

            asking = asyncio.create_task(ask())
            await watch.wait_until_hanging()
            advance_clock(15)
            message = await asking
    assert "did not answer within 60 s" in message or tool == "nowframe.build"
