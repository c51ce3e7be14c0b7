"""A server that stores a text of its caller: in the process, separately for each session if there are sessions."""

import os

from hubbub import Context, Server, run

server = Server("notebook", version="1")
pages: dict[str, str] = {}


@server.tool
async def write(text: str, context: Context) -> str:
    """Keep a text."""
    pages[context.scope or ""] = text
    server.resource_updated("page://mine")
    return "kept"


@server.tool
async def read(context: Context) -> str:
    """Give the text that was kept."""
    return pages.get(context.scope or "", "")


@server.tool
async def pid() -> str:
    """Name the process."""
    return str(os.getpid())


@server.tool
async def add_tool(name: str) -> str:
    """Have one more tool."""

    async def extra() -> str:
        return name

    server.tool(name=name)(extra)
    return "added"


@server.resource("page://mine")
async def mine(context: Context) -> str:
    """The text that was kept."""
    return pages.get(context.scope or "", "")


@server.prompt
def about(context: Context) -> str:
    """Quote the text that was kept."""
    return pages.get(context.scope or "", "nothing")


if __name__ == "__main__":
    run(server)
