"""Many servers at once: connected in parallel, each on its own when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.errors import HubbubError
from hubbub.protocol.wire import ToolEntry


class Fleet:
    """The clients of many servers."""

    def __init__(
        self,
        configs: Iterable[ServerConfig | Mapping[str, Any]],
        *,
        deadline_s: float = bounds.FLEET_S,
        make: Callable[[ServerConfig], Client] = Client,
        restart: bool = True,
    ) -> None:
        self.configs = {config.id: config for config in map(ServerConfig.coerce, configs)}
        self.clients: dict[str, Client] = {}
        self.errors: dict[str, HubbubError] = {}

    async def start(self) -> Self:
        """Connect to all, as far as that is possible in time; `errors` tells of the others."""
        raise NotImplementedError

    async def tools(self) -> dict[str, list[ToolEntry]]:
        """The tools of each server; of one that does not answer, those it last had."""
        raise NotImplementedError

    async def close(self) -> None:
        """Part with all of them."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
