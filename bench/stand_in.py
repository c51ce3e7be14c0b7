"""The `echo` server until the command line can serve `examples/echo.py`."""

from hubbub.app import run
from hubbub.server.server import Server

server = Server("echo")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


run(server)
