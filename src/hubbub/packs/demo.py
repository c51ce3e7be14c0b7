"""The demo pack: three small tools and a welcome resource, to check an installation."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from hubbub import Pack, Server, __version__

WELCOME = """\
Welcome to Hubbub!

This server gives you a few small tools to try:

- hello-world: greets you; it takes no arguments.
- echo: sends your text back; give it "text".
- health: returns the status, version and uptime of the server.

Call `tools/list` to see their arguments, and `tools/call` to use one.
"""


class ServerHealth(msgspec.Struct):
    """Status of the server."""

    status: str
    name: str
    version: str
    uptime_s: float
    timestamp: str


def install(server: Server, settings: None) -> None:
    """Register the tools and the welcome resource."""
    started = time.monotonic()

    @server.tool(name="hello-world", description="Returns a simple greeting message")
    async def hello_world() -> dict[str, str]:
        return {"message": "Hello, World!"}

    @server.tool(description="Echoes back the provided text")
    async def echo(text: str) -> dict[str, str]:
        """Echo.

        Args:
            text: Text to echo back
        """
        return {"echo": text}

    @server.tool(description="Returns the server's status, version and uptime")
    async def health() -> ServerHealth:
        return ServerHealth(
            status="healthy",
            name=server.info.name,
            version=__version__,
            uptime_s=round(time.monotonic() - started, 3),
            timestamp=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )

    @server.resource(
        "prompt://welcome",
        name="Welcome Prompt",
        description="Welcome message and usage instructions",
        mime_type="text/plain",
    )
    async def welcome() -> str:
        return WELCOME


pack = Pack(name="demo", summary="hello-world, echo and health, to check an installation", install=install)
