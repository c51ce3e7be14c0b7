"""The tools of many servers at one moment, with the clients that call them.

    async with await ToolRegistryBuilder(configs).build() as snapshot: ...

A `Snapshot` does not change: when a server's tools do, `renewed` makes another one over the same connections. If a
server cannot be reached, only its own tools are missing; `errors` says why. `hubbub.client.fleet` connects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self

import msgspec
from msgspec.structs import force_setattr

from hubbub import bounds
from hubbub.agent.definition import Definition, ToolOrigin
from hubbub.agent.tool_adapter import adapt_tools, check_name_limit
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.fleet import Fleet
from hubbub.errors import HubbubError, SettingsError
from hubbub.protocol.results import ToolEntry

logger = logging.getLogger("hubbub.agent")


class ToolClient(Protocol):
    """The part of a client that is needed to call tools."""

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """Call a tool once, without retries."""

    async def close(self) -> None:
        """Disconnect from the server."""


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """Definitions for the model, the origin of each tool, and the clients that call them.

    An async context manager; leaving it closes all clients.
    """

    definitions: Sequence[Definition] = ()
    """Sorted by local name."""
    mapping: Mapping[str, ToolOrigin] = {}
    """Maps local names to servers and the names there."""
    clients: Mapping[str, ToolClient] = {}
    """By server id. A server that was restarted has a new client here."""
    errors: Mapping[str, HubbubError] = {}
    """By server id: why a server's tools are missing."""
    skipped: Mapping[str, tuple[str, ...]] = {}
    """By server id: tools that could not be adapted, and why."""
    fleet: Fleet | None = None
    """Owner of the clients; None: the snapshot owns them."""
    name_limit: int = bounds.TOOL_KEY_CHARACTERS

    def __post_init__(self) -> None:
        force_setattr(self, "definitions", tuple(self.definitions))
        for name in ("mapping", "errors", "skipped"):
            force_setattr(self, name, MappingProxyType(dict(getattr(self, name))))
        # A live view: the fleet replaces its clients.
        force_setattr(self, "clients", MappingProxyType(self.fleet.clients if self.fleet else dict(self.clients)))

    def __repr__(self) -> str:
        return f"Snapshot({len(self.definitions)} tools of {len(self.clients)} servers, {len(self.errors)} errors)"

    async def renewed(self) -> Snapshot:
        """List the tools again over the same connections; closing either snapshot closes both.

        Raises:
            DefinitionError: two different tools would have the same local name.
            SettingsError: this snapshot was not made by `ToolRegistryBuilder`.
        """
        if self.fleet is None:
            raise SettingsError("Only a snapshot made by ToolRegistryBuilder can be renewed")
        return _make_snapshot(self.fleet, await self.fleet.tools(), self.name_limit)

    async def close(self) -> None:
        """Close all clients, even if closing some of them fails. Idempotent."""
        closing = [self.fleet.close()] if self.fleet is not None else [item.close() for item in self.clients.values()]
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.warning("a client could not be closed: %s", type(outcome).__name__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class ToolRegistryBuilder:
    """Connects to servers and adapts their tools."""

    def __init__(
        self,
        configs: Iterable[ServerConfig | Mapping[str, Any]],
        *,
        name_limit: int = bounds.TOOL_KEY_CHARACTERS,
        requires_all: bool = False,
        deadline_s: float = bounds.FLEET_CONNECT_TIMEOUT_S,
        make: Callable[[ServerConfig], Client] = Client,
    ) -> None:
        """`requires_all` makes one unreachable server fail the build; `make` can give the clients handlers.

        Raises:
            SettingsError: a config is invalid, two have the same id, or the limit for names is out of range.
        """
        self._configs = [ServerConfig.coerce(config) for config in configs]
        self._name_limit = check_name_limit(name_limit)
        self._requires_all = requires_all
        self._deadline_s = deadline_s
        self._make = make
        seen: set[str] = set()
        for config in self._configs:
            if config.id in seen:
                raise SettingsError(f"Two servers have the id {config.id!r}; give each its own id")
            seen.add(config.id)

    async def build(self) -> Snapshot:
        """Connect to all servers concurrently and list their tools, within `deadline_s`.

        Raises:
            DefinitionError: two different tools would have the same local name.
            HubbubError: a server cannot be reached, if all are required.
        """
        fleet = Fleet(self._configs, deadline_s=self._deadline_s, make=self._make)
        try:
            await fleet.start(lists_tools=True)
            snapshot = _make_snapshot(fleet, fleet.last_tools, self._name_limit)
            if self._requires_all and snapshot.errors:
                raise next(iter(snapshot.errors.values()))
        except BaseException:
            await Snapshot(fleet=fleet).close()
            raise
        return snapshot


def _make_snapshot(fleet: Fleet, tools: Mapping[str, list[ToolEntry]], name_limit: int) -> Snapshot:
    adapted = adapt_tools(tools, name_limit)
    for server_id, problems in adapted.skipped.items():
        logger.warning("tools of %s were left out: %s", server_id, "; ".join(problems[: bounds.PROBLEMS]))
    return Snapshot(
        adapted.definitions,
        adapted.mapping,
        errors=fleet.errors,
        skipped=adapted.skipped,
        fleet=fleet,
        name_limit=name_limit,
    )
