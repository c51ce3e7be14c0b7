"""Keeps the snapshot of a remote upstream up to date.

Reads all lists after a connection, and single lists when the server reports a change. One listing runs at a time; a
request during it causes one more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.watching import Change
from hubbub.errors import DeadlineExceeded, HubbubError
from hubbub.hub.capable_listing import CapableListing
from hubbub.hub.listing import LISTS, list_all
from hubbub.hub.snapshot import EMPTY_SNAPSHOT, Entry, Snapshot
from hubbub.net.backoff import Backoff

logger = logging.getLogger("hubbub.hub")

_KINDS: dict[str, Literal["tools", "prompts", "resources"]] = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "templates": "resources",
}


class Lists:
    """The lists of one upstream."""

    def __init__(
        self,
        name: str,
        reach: Callable[[], Awaitable[Client]],
        *,
        list_s: float,
        capable: CapableListing,
        on_change: Callable[[Change], Any],
        on_outcome: Callable[[HubbubError | None], Any],
    ) -> None:
        self._name = name
        self._reach = reach
        self._list_s = list_s
        self._capable = capable
        self._on_change = on_change
        self._on_outcome = on_outcome
        """Called after each listing, with its error or None."""
        self._outdated: set[str] = set()
        self._teller: Client | None = None
        """The client that reported the last change: if sessions are processes, the others may not have it."""
        self._listed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.snapshot = EMPTY_SNAPSHOT
        self.is_stale = False

    async def refresh(self) -> None:
        """Read all lists and wait for them. Never raises for failures of the upstream."""
        await self.outdate(*LISTS).wait()

    def outdate(self, *lists: str) -> asyncio.Event:
        """Mark lists as outdated; the returned event is set once they were read again."""
        self._outdated.update(lists)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return self._listed

    def take(self, change: Change, teller: Client | None) -> None:
        """Handle a change of a list; it is read from `teller`, or else from the first session."""
        self._teller = teller
        self.outdate(*(name for name, kind in _KINDS.items() if kind == change.kind))

    async def close(self) -> None:
        """Stop listing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._listed.set()

    async def _run(self) -> None:
        # Some servers report a change whenever one of their lists is read.
        pause = Backoff(bounds.UPSTREAM_LIST_PAUSES_S, jitter=0)
        while self._outdated:
            lists, self._outdated = self._outdated, set()
            listed, self._listed = self._listed, asyncio.Event()
            try:
                error = await self._list(sorted(lists))
                self.is_stale = error is not None
                if error is not None:
                    logger.warning("the lists of %s could not be read: %s", self._name, error.message)
                self._on_outcome(error)
            finally:
                listed.set()
            if self._outdated:
                await asyncio.sleep(pause.next_s())

    async def _list(self, lists: list[str]) -> HubbubError | None:
        teller, self._teller = self._teller, None
        try:
            async with asyncio.timeout(self._list_s):
                client = teller if teller is not None and teller.is_open else await self._reach()
                found = await _all(client, lists)
                if client is teller and not teller.is_open:
                    client = await self._reach()
                    found = await _all(client, lists)
        except TimeoutError:
            return DeadlineExceeded(f"The lists of {self._name}", self._list_s)
        except HubbubError as error:
            return error
        fresh: dict[str, tuple[Entry, ...]] = {}
        failure: HubbubError | None = None
        for name, outcome in zip(lists, found, strict=True):
            if isinstance(outcome, HubbubError):
                failure = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                fresh[name] = outcome
        self._replace(client, fresh)
        if "tools" in fresh and not client.revision.stateless:
            await self._capable.read(fresh["tools"], client.server_info.version)
            self._replace(client, {"tools": fresh["tools"]})
        return failure

    def _replace(self, client: Client, fresh: dict[str, tuple[Entry, ...]]) -> None:
        before = self.snapshot
        info = client.server_info
        more: frozenset[str] = before.capable_only
        if "tools" in fresh:
            known = {entry.name for entry in fresh["tools"]}
            added = tuple(entry for entry in self._capable.tools if entry.name not in known)
            fresh = fresh | {"tools": fresh["tools"] + added}
            more = frozenset(entry.name for entry in self._capable.tools)
        self.snapshot = Snapshot(
            **{name: fresh.get(name, getattr(before, name)) for name in LISTS},
            capable_only=more,
            plain_version=self._capable.plain_version,
            capabilities=client.server_capabilities,
            instructions=client.hide(client.instructions),
            revision=client.revision,
            name=client.hide(info.name),
            version=client.hide(info.version),
            title=None if info.title is UNSET else client.hide(info.title),
        )
        changed = {_KINDS[name]: None for name in fresh if _differ(getattr(before, name), fresh[name])}
        for kind in changed:
            self._on_change(Change(kind))


async def _all(client: Client, lists: list[str]) -> list[tuple[Entry, ...] | BaseException]:
    return await asyncio.gather(*(list_all(client, name) for name in lists), return_exceptions=True)


def _differ(before: tuple[Entry, ...], after: tuple[Entry, ...]) -> bool:
    return msgspec.json.encode([entry.members for entry in before]) != msgspec.json.encode(
        [entry.members for entry in after]
    )
