"""The resource `activity://now`, and who tells when it changes.

ActivityWatch tells nobody, so it is asked every few seconds, but only while somebody watches.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from hubbub.errors import HubbubError
from hubbub.packs.activity.desk import Desk
from hubbub.packs.activity.now import Now

URI: Final = "activity://now"
logger = logging.getLogger("hubbub.activity")


def register(desk: Desk) -> None:
    """Put the resource on the server."""

    @desk.server.resource(URI, name="now", title="What the person is doing", mime_type="application/json")
    async def now() -> str:
        """The window in front, whether somebody is there, the page and the file, each with its age."""
        return msgspec.json.encode(await desk.now()).decode()


async def watch(desk: Desk) -> None:
    """Tell of each change while somebody watches, for ever."""
    last: tuple[object, ...] | None = None
    while True:
        if URI in desk.server.audience.watched():
            try:
                seen: tuple[object, ...] = essence(await desk.now())
            except HubbubError as error:
                seen = (error.message,)
            except Exception:  # The resource itself will say what is wrong; the watch must go on.
                logger.exception("what the person is doing could not be looked at")
                seen = ()
            if last is not None and seen != last:
                desk.server.resource_updated(URI)
            last = seen
        else:
            last = None
        await asyncio.sleep(desk.settings.poll_s)


def essence(now: Now) -> tuple[object, ...]:
    """What makes it another: not that it is a second older."""
    return (
        now.window and (now.window.app, now.window.title, now.window.stale),
        now.afk and (now.afk.status, now.afk.stale),
        now.tab and (now.tab.url, now.tab.title),
        now.editor and (now.editor.file,),
        tuple(now.private),
    )
