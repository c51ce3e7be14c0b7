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


class ResourceLocation(NamedTuple):
    """A resource of one upstream, by its own URI there."""

    server: str
    uri: str


class Subscriptions:
    """The resources that the hub watches."""

    def __init__(self, upstreams: Mapping[str, Upstream], watched: Callable[[], Iterable[str]]) -> None:
        self._upstreams = upstreams
        self._list_watched = watched
        """The URIs that sessions watch now, as clients know them."""
        self._hold_counts: Counter[ResourceLocation] = Counter()
        self._tasks: dict[ResourceLocation, dict[str | None, asyncio.Task[None]]] = {}
        """By principal, None for callers without an identity: each has a subscription of its own."""
        self._client_uris: dict[ResourceLocation, dict[str, None]] = {}
        """The URIs that clients use for each watched resource."""
        self._prune_task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    async def watch(self, watched: ResourceLocation, client_uri: str, principal: str | None = None) -> None:
        """Subscribe to a resource that clients know as `client_uri`.

        Raises: the errors of the upstream.
        """
        self._client_uris.setdefault(watched, {})[client_uri] = None
        tasks = self._tasks.setdefault(watched, {})
        task = tasks.get(principal)
        if task is None:
            subscribe = self._upstreams[watched.server].subscribe(watched.uri, principal)
            task = tasks[principal] = asyncio.get_running_loop().create_task(subscribe)
            task.add_done_callback(lambda done: self._on_subscribed(watched, principal, done))
        await asyncio.shield(task)

    def _on_subscribed(self, watched: ResourceLocation, principal: str | None, task: asyncio.Task[None]) -> None:
        """Drop a failed subscription, even if its caller no longer waits."""
        tasks = self._tasks.get(watched, {})
        if (task.cancelled() or task.exception() is not None) and tasks.get(principal) is task:
            del tasks[principal]
            if not tasks:
                self._remove(watched)

    def hold(self, watched: ResourceLocation) -> None:
        """Count a watcher that calls `release` at its end."""
        self._hold_counts[watched] += 1

    def release(self, watched: ResourceLocation) -> None:
        """End the watch that `hold` counted."""
        self._hold_counts[watched] -= 1
        self.prune()

    def client_uris(self, watched: ResourceLocation) -> list[str]:
        """The URIs to notify clients about when a resource changes."""
        return list(self._client_uris.get(watched, ())) or [watched.uri]

    def prune(self) -> None:
        """Unsubscribe from resources that no client watches any more; called after a client has left."""
        if self._tasks and self._prune_task is None:
            self._prune_task = asyncio.get_running_loop().create_task(self._prune())

    async def resubscribe(self, server: str) -> None:
        """Subscribe again at an upstream that replaced another one."""
        for watched in [known for known in self._tasks if known.server == server]:
            client_uris, principals = list(self._client_uris.get(watched, ())), list(self._tasks[watched])
            self._remove(watched)
            if server not in self._upstreams:
                continue
            for uri, principal in product(client_uris, principals):
                try:
                    await self.watch(watched, uri, principal)
                except HubbubError as error:
                    logger.info("resource_not_watched", extra={"server": server, "reason": error.message})

    async def close(self) -> None:
        """Cancel everything without unsubscribing, because the upstreams are closed too."""
        tasks = [task for tasks in self._tasks.values() for task in tasks.values()]
        if self._prune_task is not None:
            tasks.append(self._prune_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def _remove(self, watched: ResourceLocation) -> None:
        self._tasks.pop(watched, None)
        self._client_uris.pop(watched, None)

    async def _prune(self) -> None:
        # A client that is about to watch something is registered before its first await.
        await asyncio.sleep(0)
        self._prune_task = None
        uris = set(self._list_watched())
        for watched in list(self._tasks):
            if self._hold_counts[watched] <= 0 and uris.isdisjoint(self._client_uris.get(watched, ())):
                self._remove(watched)
                upstream = self._upstreams.get(watched.server)
                if upstream is not None:
                    await self._unsubscribe(upstream, watched.uri)
        self._hold_counts += Counter()  # drops the entries that are at zero

    async def _unsubscribe(self, upstream: Upstream, uri: str) -> None:
        try:
            await upstream.unsubscribe(uri)
        except HubbubError as error:
            logger.debug("resource_still_watched", extra={"server": upstream.id, "reason": error.message})
