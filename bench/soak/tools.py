"""The server of the soak run, for `hubbub serve`."""

from hubbub import Context, Server

server = Server("soak")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
async def count(steps: int, context: Context) -> str:
    """Report progress in steps, then return their number."""
    for step in range(1, steps + 1):
        await context.progress(step, steps)
    return str(steps)
