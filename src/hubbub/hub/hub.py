"""`Hub`, the public class for building a hub in Python; `Gateway` does the work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from msgspec.structs import replace

from hubbub.client.config import ServerConfig
from hubbub.errors import SettingsError
from hubbub.hub.config import (
    HUB_ID,
    HubConfig,
    UpstreamConfig,
    check_view_count,
    check_view_name,
    check_view_servers,
    without_nested_hub,
)
from hubbub.hub.gateway import Gateway
from hubbub.ports import ConnectionFactory
from hubbub.server.middleware import Middleware
from hubbub.server.server import Server
from hubbub.settings import Sources, format_suggestion, read_settings
from hubbub.settings.hub import HubSettings, ViewSettings

if TYPE_CHECKING:
    from hubbub.server.asgi import AsgiApp, AsgiOptions


class Hub:
    """Many servers behind one endpoint.

        hub = Hub([server, ServerConfig(id="files", command="mcp-files"), *read_mcp_json("mcp.json")])
        run(hub, "http")                              # serve it,
        app = hub.asgi()                              # mount it in FastAPI, or
        async with Client(hub) as client: ...         # call it from the same process

    `front` returns the server that clients of the hub see. Remote servers are connected when they are first needed.
    `async with hub:` keeps the connections open between clients, and closes them at the end.
    """

    def __init__(
        self,
        servers: Iterable[Server | Hub | ServerConfig | UpstreamConfig],
        *,
        name: str = "hubbub",
        version: str = "0",
        settings: HubSettings | None = None,
        views: Mapping[str, ViewSettings] | None = None,
    ) -> None:
        """Build the hub without connecting to any server.

        Args:
            servers: Servers and hubs in this process, and configs of other servers; an `UpstreamConfig` adds options,
                such as a prefix or the tools to show. Each needs an id of its own: a server's is its name.
            name: Shown to clients as the name of the server.
            version: Shown to clients as its version.
            settings: As in `[hub]` of a settings file.
            views: What the endpoint `/mcp/NAME` of each name shows, as in `[views.NAME]`.

        Raises:
            SettingsError: two servers have the same id, or one has that of the hub itself; a setting or view is wrong.
        """
        if isinstance(servers, Server | Hub | ServerConfig | UpstreamConfig):
            raise SettingsError("Hub takes a list of servers: write `Hub([server])`")
        upstreams = tuple(_make_upstream_config(server) for server in servers)
        ids = [upstream.id for upstream in upstreams]
        _check_ids(ids)
        if settings is not None:
            _check_settings(HubSettings, settings, "settings")
        _check_views(views or {}, ids)
        self._gateway = Gateway(
            HubConfig(
                name=name,
                version=version,
                upstreams=upstreams,
                hub=HubSettings() if settings is None else settings,
                views=views or {},
            )
        )
        self.info = self.front().info
        self.message_bytes = self.front().message_bytes
        self._open_runs: list[AbstractAsyncContextManager[None]] = []

    def __repr__(self) -> str:
        return f"<Hub {self._gateway.config.name!r}: {', '.join(self._gateway.upstreams)}>"

    def front(self, view: str = "") -> Server:
        """Return the server that clients of a view see; without a name, the one that shows everything.

        Raises:
            SettingsError: there is no such view.
        """
        found = self._gateway.fronts.get(view)
        if found is None:
            raise SettingsError(f"The hub has no view {view!r}{format_suggestion(view, self._gateway.views)}")
        return found

    def middleware(self, middleware: Middleware) -> Middleware:
        """Run an `async def middleware(call, call_next)` around every request to any view; as `Server.middleware`."""
        return self.front().middleware(middleware)

    def asgi(self, **options: Unpack[AsgiOptions]) -> AsgiApp:
        """Return the hub as an ASGI app, with its views under `/mcp/NAME`; the options are those of `Server.asgi`.

        Raises: SettingsError.
        """
        return self.front().asgi(**options)

    def in_memory(self) -> AbstractAsyncContextManager[ConnectionFactory]:
        """Run the hub for clients in this process; used by `Client(hub)`."""
        return self.front().in_memory()

    async def __aenter__(self) -> Self:
        running = self._gateway.running()
        await running.__aenter__()
        self._open_runs.append(running)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open_runs.pop().__aexit__(kind, error, trace)


def _make_upstream_config(server: Server | Hub | ServerConfig | UpstreamConfig) -> UpstreamConfig:
    if isinstance(server, Server | Hub):
        return UpstreamConfig(id=server.info.name, server=server.front() if isinstance(server, Hub) else server)
    config = UpstreamConfig(id=server.id, remote=server) if isinstance(server, ServerConfig) else server
    if not isinstance(config, UpstreamConfig):
        raise SettingsError(
            f"A hub is made of Server, Hub, ServerConfig and UpstreamConfig objects, not {type(server).__name__}; "
            "read_mcp_json returns the configs of an mcpServers file"
        )
    return config if config.remote is None else replace(config, remote=without_nested_hub(config.remote))


def _check_ids(ids: list[str]) -> None:
    for id in ids:
        if id == HUB_ID:
            raise SettingsError(f"A server of a hub cannot have the id {HUB_ID!r}, which is reserved; give it another")
        if ids.count(id) > 1:
            raise SettingsError(f"Two servers of the hub have the id {id!r}; pass an `UpstreamConfig` with another id")


def _check_views(views: Mapping[str, ViewSettings], servers: Collection[str]) -> None:
    for name, view in views.items():
        place = f"views[{name!r}]"
        check_view_name(name, place)
        _check_settings(ViewSettings, view, place)
        check_view_servers(view.servers or (), servers, f"{place}.servers")
    check_view_count(views)


def _check_settings(kind: type[HubSettings | ViewSettings], given: object, place: str) -> None:
    """Check values as those of a settings file are: msgspec does not check what is passed to a struct."""
    if not isinstance(given, kind):
        raise SettingsError(f"{place} must be a {kind.__name__}, not {type(given).__name__}")
    values = {name: value for name in kind.__struct_fields__ if (value := getattr(given, name)) is not None}
    try:
        read_settings(kind, Sources(arguments=values))
    except SettingsError as error:
        raise SettingsError(f"{place}: {error.message}") from None
