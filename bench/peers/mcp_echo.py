"""The `echo` tool with the official SDK's `MCPServer`, on stdio; `--text-only` leaves structured output out."""

import sys

from mcp.server import MCPServer

server = MCPServer("echo", log_level="WARNING")


@server.tool(structured_output=False if "--text-only" in sys.argv else None)
async def echo(text: str) -> str:
    """Return the text."""
    return text


server.run("stdio")
