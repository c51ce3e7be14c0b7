"""The resource `activity://now` and its change notifications.

ActivityWatch sends no notifications, so it is polled every few seconds while a client subscribes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from hubbub import HubbubError
from hubbub.packs.activity.desk import Desk
from hubbub.packs.activity.now import Now

URI: Final = "activity://now"
logger = logging.getLogger("hubbub.activity")


def register(desk: Desk) -> None:
    """Register the resource."""

    @desk.server.resource(URI, name="now", title="What the person is doing", mime_type="application/json")
    async def now() -> str:
        """The window in front, whether somebody is there, the page and the file, each with its age."""
        found = await desk.now()
        _compare(desk, essence(found))
        return msgspec.json.encode(found).decode()


async def watch(desk: Desk, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
    """Poll forever and notify of each change while a client subscribes."""
    while True:
        if URI in desk.server.audience.watched():
            try:
                seen = essence(await desk.now(with_category=False))
            except HubbubError as error:
                seen = (error.message,)
            except Exception:  # Reading the resource reports the error; the loop must continue.
                logger.exception("what the person is doing could not be looked at")
                seen = ()
            _compare(desk, seen)
        else:
            desk.seen = None
        await sleep(desk.settings.poll_s)


def _compare(desk: Desk, seen: tuple[object, ...]) -> None:
    """Notify subscribers of a change since the last poll or read."""
    if desk.seen is not None and seen != desk.seen:
        desk.server.resource_updated(URI)
    desk.seen = seen


def essence(now: Now) -> tuple[object, ...]:
    """Return the parts that count as a change; the age does not."""
    return (
        now.window and (now.window.app, now.window.title, now.window.stale),
        now.afk and (now.afk.status, now.afk.stale),
        now.tab and (now.tab.url, now.tab.title),
        now.editor and (now.editor.file,),
        tuple(now.private),
    )
