"""Many servers at once: connected in parallel, each on its own when it fails.

    async with Fleet(configs) as fleet:
        tools = await fleet.tools()
        await fleet.client("files").call_tool("read", {...})

A server that cannot be reached costs the others nothing: `errors` says why it is not
there, and it is tried again, each time after a longer wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig, positive_seconds
from hubbub.client.keeping import Keeper
from hubbub.errors import ConnectionClosed, DeadlineExceeded, HubbubError, SettingsError
from hubbub.net.backoff import Backoff
from hubbub.protocol.wire import ToolEntry

logger = logging.getLogger("hubbub.client")


class Fleet:
    """The clients of many servers."""

    def __init__(
        self,
        configs: Iterable[ServerConfig | Mapping[str, Any]],
        *,
        deadline_s: float = bounds.FLEET_S,
        make: Callable[[ServerConfig], Client] = Client,
        restart: bool = True,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        self.configs: dict[str, ServerConfig] = {}
        for config in map(ServerConfig.coerce, configs):
            if config.id in self.configs:
                raise SettingsError(f"Two servers have the id {config.id!r}")
            self.configs[config.id] = config
        self.clients: dict[str, Client] = {}
        """Those that can be asked now."""
        self.errors: dict[str, HubbubError] = {}
        """Why the others cannot, or why one did not answer last time."""
        self._deadline_s = positive_seconds("deadline_s", deadline_s)
        self._make = make
        self._restart = restart
        self._backoff = backoff
        self._last_tools: dict[str, list[ToolEntry]] = {}
        self._keepers: dict[str, Keeper] = {}
        self._is_closed = False

    async def start(self) -> Self:
        """Connect to all, as far as that is possible in time; `errors` tells of the others.

        Raises:
            ConnectionClosed: the fleet was closed before.
        """
        if self._is_closed:
            raise ConnectionClosed("The fleet is closed")
        if self._keepers:
            return self
        for name, config in self.configs.items():
            self._keepers[name] = self._keep(config)
        waiting = dict(self._keepers)
        try:
            async with asyncio.timeout(self._deadline_s):
                for name, keeper in self._keepers.items():
                    await keeper.tried()
                    del waiting[name]
        except TimeoutError:
            self._leave_behind([name for name in waiting if name not in self.clients and name not in self.errors])
        except asyncio.CancelledError:
            await self.close()
            raise
        return self

    def client(self, name: str) -> Client:
        """The client of a server.

        Raises:
            SettingsError: there is no such server.
            HubbubError: what keeps it from being asked.
        """
        if name not in self.configs:
            raise SettingsError(f"There is no server {name!r}; there are: {', '.join(sorted(self.configs)) or 'none'}")
        client = self.clients.get(name)
        if client is None:
            raise self.errors.get(name) or ConnectionClosed(f"The server {name!r} is not connected")
        return client

    async def tools(self, *, timeout_s: float | None = None) -> dict[str, list[ToolEntry]]:
        """The tools of each server; of one that does not answer, those it last had."""
        clients = dict(self.clients)
        async with asyncio.TaskGroup() as group:
            for name, client in clients.items():
                group.create_task(self._refresh(name, client, timeout_s))
        return {name: self._last_tools[name] for name in self.configs if name in self._last_tools}

    async def close(self) -> None:
        """Part with all of them, at the same time."""
        self._is_closed = True
        for keeper in self._keepers.values():
            keeper.cancel()
        for keeper in self._keepers.values():
            await keeper.close()
        self.clients.clear()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _refresh(self, name: str, client: Client, timeout_s: float | None) -> None:
        try:
            self._last_tools[name] = await client.tools(timeout_s=timeout_s)
        except HubbubError as error:
            self.errors[name] = error
            logger.warning("the tools of %s could not be listed: %s", name, error.message)
        else:
            self.errors.pop(name, None)

    def _leave_behind(self, names: Iterable[str]) -> None:
        for name in names:
            self.errors[name] = DeadlineExceeded(f"The connection to {name}", self._deadline_s)
            if not self._restart:
                self._keepers[name].cancel()

    def _keep(self, config: ServerConfig) -> Keeper:
        """Keep one server connected for as long as the fleet is open."""

        def changed() -> None:
            if keeper.client is not None:
                self.clients[config.id] = keeper.client
                self.errors.pop(config.id, None)
                return
            self.clients.pop(config.id, None)
            if keeper.error is not None:
                self.errors[config.id] = keeper.error

        keeper = Keeper(
            config.id,
            lambda: self._make(config),
            restart=self._restart,
            backoff=self._backoff(),
            on_change=changed,
        )
        keeper.start()
        return keeper
