"""The hub's subscriptions to resources of its upstreams, each kept while any client watches the resource.

Legacy subscriptions and modern `subscriptions/listen` streams are counted together. Clients need not unsubscribe:
whenever one leaves, the watched resources are counted again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import NamedTuple

from hubbub.errors import HubbubError
from hubbub.hub.upstream import Upstream

logger = logging.getLogger("hubbub.hub")


class Watched(NamedTuple):
    """A resource of one upstream, by its own URI there."""

    server: str
    uri: str


class Subscriptions:
    """The resources that the hub watches."""

    def __init__(self, upstreams: Mapping[str, Upstream], watched: Callable[[], Iterable[str]]) -> None:
        self._upstreams = upstreams
        self._watched = watched
        """The URIs that sessions watch now, as clients know them."""
        self._held: Counter[Watched] = Counter()
        self._open: dict[Watched, dict[str | None, asyncio.Task[None]]] = {}
        """By principal, None for callers without an identity: each has a subscription of its own."""
        self._shown: dict[Watched, dict[str, None]] = {}
        """The URIs that clients use for each watched resource."""
        self._settling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def watch(self, watched: Watched, shown: str, principal: str | None = None) -> None:
        """Subscribe to a resource that clients know as `shown`.

        Raises: the errors of the upstream.
        """
        self._shown.setdefault(watched, {})[shown] = None
        tasks = self._open.setdefault(watched, {})
        task = tasks.get(principal)
        if task is None:
            subscribe = self._upstreams[watched.server].subscribe(watched.uri, principal)
            task = tasks[principal] = asyncio.get_running_loop().create_task(subscribe)
            task.add_done_callback(lambda done: self._subscribed(watched, principal, done))
        await asyncio.shield(task)

    def _subscribed(self, watched: Watched, principal: str | None, task: asyncio.Task[None]) -> None:
        """Drop a failed subscription, even if its caller no longer waits."""
        tasks = self._open.get(watched, {})
        if (task.cancelled() or task.exception() is not None) and tasks.get(principal) is task:
            del tasks[principal]
            if not tasks:
                self._forget(watched)

    def hold(self, watched: Watched) -> None:
        """Count a watcher that calls `release` at its end."""
        self._held[watched] += 1

    def release(self, watched: Watched) -> None:
        """End the watch that `hold` counted."""
        self._held[watched] -= 1
        self.settle()

    def shown_as(self, watched: Watched) -> list[str]:
        """The URIs to notify clients about when a resource changes."""
        return list(self._shown.get(watched, ())) or [watched.uri]

    def settle(self) -> None:
        """Unsubscribe from resources that no client watches any more; called after a client has left."""
        if self._open and self._settling is None:
            self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def renew(self, server: str) -> None:
        """Subscribe again at an upstream that replaced another one."""
        for watched in [known for known in self._open if known.server == server]:
            shown, principals = list(self._shown.get(watched, ())), list(self._open[watched])
            self._forget(watched)
            if server not in self._upstreams:
                continue
            for uri, principal in product(shown, principals):
                try:
                    await self.watch(watched, uri, principal)
                except HubbubError as error:
                    logger.info("resource_not_watched", extra={"server": server, "reason": error.message})

    async def close(self) -> None:
        """Cancel everything without unsubscribing, because the upstreams are closed too."""
        tasks = [task for tasks in self._open.values() for task in tasks.values()]
        if self._settling is not None:
            tasks.append(self._settling)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()

    def _forget(self, watched: Watched) -> None:
        self._open.pop(watched, None)
        self._shown.pop(watched, None)

    async def _settle(self) -> None:
        # A client that is about to watch something is registered before its first await.
        await asyncio.sleep(0)
        self._settling = None
        uris = set(self._watched())
        for watched in list(self._open):
            if self._held[watched] <= 0 and uris.isdisjoint(self._shown.get(watched, ())):
                self._forget(watched)
                upstream = self._upstreams.get(watched.server)
                if upstream is not None:
                    await self._unsubscribe(upstream, watched.uri)
        self._held += Counter()  # drops the entries that are at zero

    async def _unsubscribe(self, upstream: Upstream, uri: str) -> None:
        try:
            await upstream.unsubscribe(uri)
        except HubbubError as error:
            logger.debug("resource_still_watched", extra={"server": upstream.id, "reason": error.message})
