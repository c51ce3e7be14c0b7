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
from hubbub.packs.activity.now import Now
from hubbub.packs.activity.service import ActivityService

URI: Final = "activity://now"
logger = logging.getLogger("hubbub.activity")


def register(service: ActivityService) -> None:
    """Register the resource."""

    @service.server.resource(URI, name="now", title="What the user is doing", mime_type="application/json")
    async def now() -> str:
        """The window in front, presence, the page and the file, each with its age."""
        found = await service.now()
        _notify_if_changed(service, change_key(found))
        return msgspec.json.encode(found).decode()


async def poll_changes(service: ActivityService, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
    """Poll forever and notify of each change while a client subscribes."""
    while True:
        if URI in service.server.broadcaster.watched_uris():
            try:
                seen = change_key(await service.now(with_category=False))
            except HubbubError as error:
                seen = (error.message,)
            except Exception:  # Reading the resource reports the error; the loop must continue.
                logger.exception("cannot poll activity://now for changes")
                seen = ()
            _notify_if_changed(service, seen)
        else:
            service.last_state = None
        await sleep(service.settings.poll_s)


def _notify_if_changed(service: ActivityService, state: tuple[object, ...]) -> None:
    """Notify subscribers of a change since the last poll or read."""
    if service.last_state is not None and state != service.last_state:
        service.server.resource_updated(URI)
    service.last_state = state


def change_key(now: Now) -> tuple[object, ...]:
    """Return the parts that count as a change; the age does not."""
    return (
        now.window and (now.window.app, now.window.title, now.window.stale),
        now.afk and (now.afk.status, now.afk.stale),
        now.tab and (now.tab.url, now.tab.title),
        now.editor and (now.editor.file,),
        tuple(now.private),
    )
