"""`activity://now`: read it, watch it in both eras, and hear of changes only."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.packs.activity.desks import make_server
from tests.packs.activity.odd_server import Odd, odd_server
from tests.packs.activity.watching import Watch, event
from tests.server.conversation import MODERN, Conversation, conversing

URI = "activity://now"
UPDATED = "notifications/resources/updated"


def show(watch: Watch, title: str) -> None:
    watch.insert("w", [event(datetime.now(UTC) - timedelta(seconds=1), 1, app="Code", title=title)])


async def heard_of_change(client: Conversation) -> None:
    async with asyncio.timeout(10):
        while not client.notes(UPDATED):
            client._take(await client.next())


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
        await asyncio.sleep(0.6)  # long enough to have been looked at twice
        assert client.notes(UPDATED) == []
        show(watch, "second")
        await heard_of_change(client)
        (contents,) = (await client.result("resources/read", {"uri": URI}))["contents"]
        assert json.loads(contents["text"])["window"]["title"] == "second"
    assert client.notes(UPDATED)[0]["uri"] == URI


async def test_nobody_is_asked_while_nobody_watches() -> None:
    with odd_server(Odd(body=b"{}")) as watch:
        server = make_server(watch.url, poll_s=0.1)
        async with server.running(), conversing(server, "2025-11-25") as client:
            await asyncio.sleep(0.5)
            assert watch.asked == []
            await client.result("resources/subscribe", {"uri": URI})
            async with asyncio.timeout(10):
                while not watch.asked:
                    await asyncio.sleep(0.05)
            await client.result("resources/unsubscribe", {"uri": URI})


async def test_an_activitywatch_that_goes_away_is_a_change_and_no_end() -> None:
    is_well = True

    def answer(method: str, path: str) -> Odd:
        return Odd(body=b"{}") if is_well else Odd(500)

    with odd_server(answer) as watch:
        server = make_server(watch.url, poll_s=0.1)
        async with server.running(), conversing(server, "2025-11-25") as client:
            await client.result("resources/subscribe", {"uri": URI})
            async with asyncio.timeout(10):
                while not watch.asked:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.3)
            is_well = False
            await heard_of_change(client)
            client.heard.clear()
            is_well = True
            await heard_of_change(client)
