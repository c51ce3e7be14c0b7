"""Many servers at once: connected in parallel; a failure affects only its own server.

    async with Fleet(configs) as fleet:
        tools = await fleet.tools()
        await fleet.client("files").call_tool("read", {...})

`errors` has the reason why a server is not connected. It is tried again, each time after
a longer wait.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig, check_seconds
from hubbub.client.reconnecting_client import ReconnectingClient
from hubbub.errors import ConnectionClosed, DeadlineExceeded, HubbubError, SettingsError
from hubbub.net.backoff import Backoff
from hubbub.protocol.results import ToolEntry

logger = logging.getLogger("hubbub.client")


class Fleet:
    """Clients of many servers, by server id."""

    def __init__(
        self,
        configs: Iterable[ServerConfig | Mapping[str, Any]],
        *,
        deadline_s: float = bounds.FLEET_CONNECT_TIMEOUT_S,
        make: Callable[[ServerConfig], Client] = Client,
        restart: bool = True,
    ) -> None:
        self.configs: dict[str, ServerConfig] = {}
        for config in map(ServerConfig.coerce, configs):
            if config.id in self.configs:
                raise SettingsError(f"Two servers have the id {config.id!r}; give each its own id")
            self.configs[config.id] = config
        self.clients: dict[str, Client] = {}
        """The connected clients."""
        self.errors: dict[str, HubbubError] = {}
        """Why the others are not connected, or why a request to one failed last time."""
        self._deadline_s = check_seconds("deadline_s", deadline_s)
        self._make = make
        self._restart = restart
        self.last_tools: dict[str, list[ToolEntry]] = {}
        """The tools of each server as it last listed them."""
        self._connections: dict[str, ReconnectingClient] = {}
        self._is_closed = False

    async def start(self, *, lists_tools: bool = False) -> Self:
        """Connect to all servers within the fleet's time limit; `errors` has the reasons for the others.

        With `lists_tools`, each server lists its tools as soon as it is connected, within the same time;
        they are then in `last_tools`.

        Raises:
            ConnectionClosed: the fleet was closed before.
        """
        if self._is_closed:
            raise ConnectionClosed("The fleet is closed")
        if self._connections:
            return self
        for name, config in self.configs.items():
            self._connections[name] = self._connect(config)
        tasks = {
            asyncio.create_task(self._wait_connected(name, connection, lists_tools=lists_tools)): name
            for name, connection in self._connections.items()
        }
        try:
            unfinished: set[asyncio.Task[None]] = set()
            if tasks:
                _, unfinished = await asyncio.wait(tasks, timeout=_seconds_or_none(self._deadline_s))
        except asyncio.CancelledError:
            await self.close()
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._record_timeouts(sorted(tasks[task] for task in unfinished))
        return self

    async def _wait_connected(self, name: str, connection: ReconnectingClient, *, lists_tools: bool) -> None:
        await connection.wait_for_attempt()
        if lists_tools and (client := self.clients.get(name)) is not None:
            await self._refresh(name, client, self._deadline_s)

    def client(self, name: str) -> Client:
        """Return the client of a server.

        Raises:
            SettingsError: there is no such server.
            HubbubError: it is not connected; the error is the reason.
        """
        if name not in self.configs:
            raise SettingsError(f"Unknown server {name!r}; known: {', '.join(sorted(self.configs)) or 'none'}")
        client = self.clients.get(name)
        if client is None:
            raise self.errors.get(name) or ConnectionClosed(f"The server {name!r} is not connected")
        return client

    async def tools(self, *, timeout_s: float | None = None) -> dict[str, list[ToolEntry]]:
        """Return the tools of each server; for one that does not respond in time, its last list.

        `timeout_s` is for all pages of all servers; unset, it is the fleet's `deadline_s`.
        """
        seconds = self._deadline_s if timeout_s is None else timeout_s
        clients = dict(self.clients)
        async with asyncio.TaskGroup() as group:
            for name, client in clients.items():
                group.create_task(self._refresh(name, client, seconds))
        return {name: self.last_tools[name] for name in self.configs if name in self.last_tools}

    async def close(self) -> None:
        """Disconnect from all servers, in parallel."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.cancel()
        for connection in self._connections.values():
            await connection.close()
        self.clients.clear()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _refresh(self, name: str, client: Client, timeout_s: float) -> None:
        try:
            self.last_tools[name] = await client.tools(timeout_s=timeout_s)
        except HubbubError as error:
            self.errors[name] = error
            logger.warning("the tools of %s could not be listed: %s", name, error.message)
        else:
            self.errors.pop(name, None)

    def _record_timeouts(self, names: Iterable[str]) -> None:
        for name in names:
            what = "list of tools of" if name in self.clients else "connection to"
            self.errors[name] = DeadlineExceeded(f"The {what} {name}", self._deadline_s)
            if not self._restart and name not in self.clients:
                self._connections[name].cancel()

    def _connect(self, config: ServerConfig) -> ReconnectingClient:
        """Keep one server connected for as long as the fleet is open."""

        def update_client() -> None:
            if connection.client is not None:
                self.clients[config.id] = connection.client
                self.errors.pop(config.id, None)
                return
            self.clients.pop(config.id, None)
            if connection.error is not None:
                self.errors[config.id] = connection.error

        connection = ReconnectingClient(
            config.id,
            lambda: self._make(config),
            restart=self._restart,
            backoff=Backoff(),
            on_change=update_client,
        )
        connection.start()
        return connection


def _seconds_or_none(seconds: float) -> float | None:
    return None if seconds == math.inf else seconds
