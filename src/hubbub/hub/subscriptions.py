"""Which resources of which upstreams are watched: each once, for as long as anybody does.

Sessions of the legacy era and listens of the modern one are counted together. Nobody has
to sign off: whenever a client leaves, what is still watched is counted anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from hubbub.errors import HubbubError
from hubbub.hub.upstream import Upstream

logger = logging.getLogger("hubbub.hub")


class Watched(NamedTuple):
    """A resource of one upstream, by its own URI there."""

    server: str
    uri: str


class Subscriptions:
    """What the hub watches."""

    def __init__(self, upstreams: Mapping[str, Upstream], watched: Callable[[], Iterable[str]]) -> None:
        self._upstreams = upstreams
        self._watched = watched
        """The URIs that sessions watch now, as clients know them."""
        self._held: Counter[Watched] = Counter()
        self._open: dict[Watched, asyncio.Task[None]] = {}
        self._shown: dict[Watched, dict[str, None]] = {}
        """As which URIs clients know what is watched."""
        self._settling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def watch(self, watched: Watched, shown: str) -> None:
        """Have a resource watched that clients know as `shown`.

        Raises: what the upstream says.
        """
        self._shown.setdefault(watched, {})[shown] = None
        task = self._open.get(watched)
        if task is None:
            subscribe = self._upstreams[watched.server].subscribe(watched.uri)
            task = self._open[watched] = asyncio.get_running_loop().create_task(subscribe)
            task.add_done_callback(lambda done: self._subscribed(watched, done))
        await asyncio.shield(task)

    def _subscribed(self, watched: Watched, task: asyncio.Task[None]) -> None:
        """Forget what could not be subscribed to, also if nobody waits any more to hear why."""
        if (task.cancelled() or task.exception() is not None) and self._open.get(watched) is task:
            self._forget(watched)

    def hold(self, watched: Watched) -> None:
        """Count somebody who says when it is over."""
        self._held[watched] += 1

    def release(self, watched: Watched) -> None:
        """It is over."""
        self._held[watched] -= 1
        self.settle()

    def shown_as(self, watched: Watched) -> list[str]:
        """The URIs under which clients hear of a change."""
        return list(self._shown.get(watched, ())) or [watched.uri]

    def settle(self) -> None:
        """Somebody has left: watch no longer what nobody watches any more."""
        if self._open and self._settling is None:
            self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def renew(self, server: str) -> None:
        """Another upstream has taken the place of one: watch there what was watched here."""
        for watched in [known for known in self._open if known.server == server]:
            shown = list(self._shown.get(watched, ()))
            self._forget(watched)
            for uri in shown if server in self._upstreams else ():
                try:
                    await self.watch(watched, uri)
                except HubbubError as error:
                    logger.info("resource_not_watched", extra={"server": server, "reason": error.message})

    async def close(self) -> None:
        """Forget everything; the upstreams end by themselves."""
        tasks = [*self._open.values(), *([] if self._settling is None else [self._settling])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()

    def _forget(self, watched: Watched) -> None:
        self._open.pop(watched, None)
        self._shown.pop(watched, None)

    async def _settle(self) -> None:
        # Whoever is about to watch something has said so before it first waits.
        await asyncio.sleep(0)
        self._settling = None
        uris = set(self._watched())
        for watched in list(self._open):
            if self._held[watched] <= 0 and uris.isdisjoint(self._shown.get(watched, ())):
                self._forget(watched)
                upstream = self._upstreams.get(watched.server)
                if upstream is not None:
                    await self._unsubscribe(upstream, watched.uri)
        self._held += Counter()  # without those that are at zero

    async def _unsubscribe(self, upstream: Upstream, uri: str) -> None:
        try:
            await upstream.unsubscribe(uri)
        except HubbubError as error:
            logger.debug("resource_still_watched", extra={"server": upstream.id, "reason": error.message})
