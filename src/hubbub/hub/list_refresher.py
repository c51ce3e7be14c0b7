"""Keeps the snapshot of a remote upstream up to date.

Reads all lists after a connection, and single lists when the server reports a change. One listing runs at a time; a
request during it causes one more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.subscriptions import ChangeEvent
from hubbub.errors import DeadlineExceeded, HubbubError
from hubbub.hub.capable_tools import CapableTools
from hubbub.hub.list_fetcher import LIST_KINDS, fetch_list
from hubbub.hub.snapshot import EMPTY_SNAPSHOT, Entry, Snapshot
from hubbub.net.backoff import Backoff

logger = logging.getLogger("hubbub.hub")

_CHANGE_KINDS: dict[str, Literal["tools", "prompts", "resources"]] = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "templates": "resources",
}


class ListRefresher:
    """The lists of one upstream."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Awaitable[Client]],
        *,
        list_s: float,
        capable: CapableTools,
        on_change: Callable[[ChangeEvent], Any],
        on_outcome: Callable[[HubbubError | None], Any],
        kinds: Sequence[str] = LIST_KINDS,
    ) -> None:
        """`kinds`: the lists to read; the others stay empty."""
        self._name = name
        self._kinds = kinds
        self._connect = connect
        self._list_s = list_s
        self._capable = capable
        self._on_change = on_change
        self._on_outcome = on_outcome
        """Called after each listing, with its error or None."""
        self._outdated: set[str] = set()
        self._reporter: Client | None = None
        """The client that reported the last change: if sessions are processes, the others may not have it."""
        self._refreshed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.snapshot = EMPTY_SNAPSHOT
        self.is_stale = False

    async def refresh(self) -> None:
        """Read all lists and wait for them. Never raises for failures of the upstream."""
        await self.mark_outdated(*LIST_KINDS).wait()

    def mark_outdated(self, *lists: str) -> asyncio.Event:
        """Mark lists as outdated; the returned event is set once they were read again."""
        self._outdated.update(name for name in lists if name in self._kinds)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return self._refreshed

    def handle_change(self, change: ChangeEvent, reporter: Client | None) -> None:
        """Handle a change of a list; it is read from `reporter`, or else on the default session."""
        self._reporter = reporter
        self.mark_outdated(*(name for name, kind in _CHANGE_KINDS.items() if kind == change.kind))

    async def close(self) -> None:
        """Stop listing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._refreshed.set()

    async def _run(self) -> None:
        # Some servers report a change whenever one of their lists is read.
        pause = Backoff(bounds.UPSTREAM_LIST_PAUSES_S, jitter=0)
        while self._outdated:
            lists, self._outdated = self._outdated, set()
            refreshed, self._refreshed = self._refreshed, asyncio.Event()
            try:
                error = await self._read_lists(sorted(lists))
                self.is_stale = error is not None
                if error is not None:
                    logger.warning("lists_not_read", extra={"server": self._name, "reason": error.message})
                self._on_outcome(error)
            finally:
                refreshed.set()
            if self._outdated:
                await asyncio.sleep(pause.next_s())

    async def _read_lists(self, lists: list[str]) -> HubbubError | None:
        reporter, self._reporter = self._reporter, None
        try:
            async with asyncio.timeout(self._list_s):
                client = reporter if reporter is not None and reporter.is_open else await self._connect()
                found = await _fetch_lists(client, lists)
                if client is reporter and not reporter.is_open:
                    client = await self._connect()
                    found = await _fetch_lists(client, lists)
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
        self._replace_snapshot(client, fresh)
        if "tools" in fresh and not client.revision.stateless:
            await self._capable.refresh(fresh["tools"], client.server_info.version)
            self._replace_snapshot(client, {"tools": fresh["tools"]})
        return failure

    def _replace_snapshot(self, client: Client, fresh: dict[str, tuple[Entry, ...]]) -> None:
        before = self.snapshot
        info = client.server_info
        capable_names: frozenset[str] = before.capable_only
        if "tools" in fresh:
            known = {entry.name for entry in fresh["tools"]}
            added = tuple(entry for entry in self._capable.tools if entry.name not in known)
            fresh = fresh | {"tools": fresh["tools"] + added}
            capable_names = frozenset(entry.name for entry in self._capable.tools)
        self.snapshot = Snapshot(
            **{name: fresh.get(name, getattr(before, name)) for name in LIST_KINDS},
            capable_only=capable_names,
            uniform_version=self._capable.uniform_version,
            capabilities=client.server_capabilities,
            instructions=client.hide(client.instructions),
            revision=client.revision,
            name=client.hide(info.name),
            version=client.hide(info.version),
            title=None if info.title is UNSET else client.hide(info.title),
        )
        changed = {_CHANGE_KINDS[name]: None for name in fresh if _differ(getattr(before, name), fresh[name])}
        for kind in changed:
            self._on_change(ChangeEvent(kind))


async def _fetch_lists(client: Client, lists: list[str]) -> list[tuple[Entry, ...] | BaseException]:
    return await asyncio.gather(*(fetch_list(client, name) for name in lists), return_exceptions=True)


def _differ(before: tuple[Entry, ...], after: tuple[Entry, ...]) -> bool:
    return msgspec.json.encode([entry.members for entry in before]) != msgspec.json.encode(
        [entry.members for entry in after]
    )
