"""FastMCP's proxy with a persistent client. Arguments: port, era, then the URL or the command of the server."""

import asyncio
import sys
from typing import Any

import httpx2
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy


def http_client(headers: Any = None, **options: Any) -> httpx2.AsyncClient:
    """Create a client that ignores proxy settings of the environment."""
    return httpx2.AsyncClient(headers=headers, trust_env=False, **options)


async def main(port: int, era: str, place: list[str]) -> None:
    """Serve until the process is killed."""
    transport: Any = StdioTransport(place[0], place[1:])
    if len(place) == 1:
        factory: Any = http_client
        transport = StreamableHttpTransport(place[0], httpx_client_factory=factory)
    async with Client(transport, mode="auto" if era == "modern" else "legacy") as client:
        options: Any = {"show_banner": False, "log_level": "WARNING", "json_response": True}
        await create_proxy(client).run_http_async(port=port, **options)


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
