"""Hubs of servers in this process, and clients of them in any dialect."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.server.raw_client import Message, RawClient, connect_raw_client

from hubbub import HubSettings, Server, ToolAnnotations, UpstreamConfig, ViewSettings
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.settings.governance import NO_GOVERNANCE, GovernanceSettings


def library(name: str = "library") -> Server:
    """A server with tools, a resource, a template and a prompt."""
    server = Server(name, instructions=f"Ask {name} for books.")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def find_book(title: str) -> dict[str, str]:
        """Look a book up."""
        return {"found": title, "in": name}

    @server.tool
    async def lend_book(title: str, reader: str) -> str:
        """Give a book to a reader."""
        return f"{name} lends {title} to {reader}"

    @server.resource(f"book://{name}/moby", mime_type="text/plain")
    def moby() -> str:
        """A book about a whale."""
        return f"Call me {name}."

    @server.resource(f"page://{name}/{{number}}")
    def page(number: str) -> str:
        """One page."""
        return f"page {number} of {name}"

    @server.prompt
    def review(title: str) -> str:
        """Ask for a review."""
        return f"Review {title} for {name}"

    @server.completion("review", "title")
    def titles(value: str) -> list[str]:
        return [title for title in ("Moby-Dick", "Middlemarch") if title.startswith(value)]

    return server


def toolbox(name: str, *tools: str) -> Server:
    """A server whose tools return their own names."""
    server = Server(name)
    for tool in tools:

        def make(tool: str = tool) -> Any:
            async def run(text: str = "") -> str:
                return f"{name}/{tool} {text}".strip()

            return run

        server.tool(name=tool, description=f"The tool {tool} of {name}.")(make())
    return server


def make_hub(
    *servers: Server | UpstreamConfig,
    views: Mapping[str, ViewSettings] | None = None,
    lists_safe_names: bool = False,
    governance: GovernanceSettings = NO_GOVERNANCE,
    **settings: Any,
) -> Gateway:
    """Make a hub of these servers, each with its name as id."""
    upstreams = tuple(
        given if isinstance(given, UpstreamConfig) else UpstreamConfig(id=given.info.name, server=given)
        for given in servers
    )
    return Gateway(
        HubConfig(
            upstreams=upstreams,
            hub=HubSettings(**settings),
            views=views or {},
            lists_safe_names=lists_safe_names,
            governance=governance,
        )
    )


@asynccontextmanager
async def open_client(
    hub: Gateway, dialect: str = "2025-11-25", *, view: str = "", capabilities: Message | None = None
) -> AsyncIterator[RawClient]:
    """Run a hub with one client until the block ends."""
    async with hub.running(), connect_raw_client(hub.fronts[view], dialect, capabilities) as client:
        yield client


async def list_names(client: RawClient, kind: str = "tools") -> list[str]:
    """Return the listed names, without the built-in ones."""
    found = (await client.result(f"{kind}/list"))[kind]
    return [entry["name"] for entry in found if not entry["name"].startswith(("hub.", "hub_"))]
