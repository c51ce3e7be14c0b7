"""A server as published ones are that still pin an old Python SDK; run by the interpreter of .judges/old-sdk."""

from pathlib import Path

from mcp.server.fastmcp import FastMCP  # type: ignore[attr-defined]  # not the SDK of our own environment

server = FastMCP("old")


@server.tool()  # type: ignore[untyped-decorator]
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.resource("file:///readme")  # type: ignore[untyped-decorator]
def readme() -> str:
    """A resource."""
    return Path(__file__).name


if __name__ == "__main__":
    server.run()
