"""The smallest server: one tool. `hubbub serve examples/echo.py --transport stdio` serves it."""

from hubbub import Server, run

server = Server("echo")


@server.tool
async def echo(text: str) -> str:
    """Return the text as it came."""
    return text


if __name__ == "__main__":
    run(server)
