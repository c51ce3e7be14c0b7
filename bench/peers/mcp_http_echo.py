"""The `echo` tool with the official SDK's `MCPServer`, over HTTP: the port, then `--sse` for streamed answers."""

import sys

from mcp.server import MCPServer

server = MCPServer("echo", log_level="WARNING")


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Return the text."""
    return text


server.run("streamable-http", port=int(sys.argv[1]), json_response="--sse" not in sys.argv)
