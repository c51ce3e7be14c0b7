"""A server for tests over HTTP: tools that stream, send client requests, wait, and change the lists."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from hubbub import Context, Server


@dataclass
class Person:
    """The form of the tool `greet`."""

    name: str


def make_server() -> Server:
    """Make a new server, for tests that count."""
    server = Server("playground", version="9.9")
    log: list[str] = []
    events: dict[str, asyncio.Event] = {}

    def get_event(name: str) -> asyncio.Event:
        return events.setdefault(name, asyncio.Event())

    @server.tool
    async def echo(text: str) -> dict[str, str]:
        """Give the text back."""
        return {"echo": text}

    @server.tool
    async def big(size: int) -> str:
        """Return that many letters."""
        return "x" * size

    @server.tool
    async def count(context: Context, to: int) -> str:
        """Count with progress."""
        for number in range(1, to + 1):
            await context.progress(number, to)
        return f"counted to {to}"

    @server.tool
    async def pour(context: Context, pieces: int, size: int) -> str:
        """Send many progress notifications."""
        try:
            for number in range(1, pieces + 1):
                await context.progress(number, message="x" * size)
        finally:
            log.append("poured")
        return "all of it"

    @server.tool
    async def greet(context: Context) -> str:
        """Ask for a name, then greet."""
        answer = await context.elicit("Who are you?", Person)
        return f"Hello, {answer.content.name}!" if answer.content is not None else answer.action

    @server.tool
    async def write(context: Context) -> str:
        """Request a word from the client's model."""
        return (await context.sample("Write a word")).text

    @server.tool
    async def wait(name: str) -> str:
        """Wait until a door is opened, and record the outcome."""
        log.append(f"start {name}")
        try:
            async with asyncio.timeout(60):
                await get_event(name).wait()
        except asyncio.CancelledError:
            log.append(f"cancelled {name}")
            raise
        log.append(f"done {name}")
        return f"waited for {name}"

    @server.tool
    async def nap(context: Context, seconds: float) -> str:
        """Sleep."""
        log.append("start a")
        await context.progress(1)
        await asyncio.sleep(seconds)
        return "rested"

    @server.tool
    async def wait_streaming(context: Context, name: str) -> str:
        """Report progress, wait for a door, then report progress again."""
        await context.progress(1)
        await wait(name)
        await context.progress(2)
        return f"waited for {name}"

    @server.tool
    async def wait_polled(context: Context, name: str) -> str:
        """Close the stream, then wait for a door."""
        await context.close_stream()
        return await wait(name)

    @server.tool
    async def open_door(name: str) -> str:
        """Open a door, so that the calls that wait for it continue."""
        get_event(name).set()
        return "open"

    @server.tool
    async def listeners() -> int:
        """Return the number of listeners."""
        return len(server.broadcaster)

    @server.tool
    async def history() -> list[str]:
        """Return what the tools recorded."""
        return log

    @server.tool
    async def add_tool(name: str) -> str:
        """Register another tool."""

        async def added() -> str:
            return name

        server.tool(name=name)(added)
        return "added"

    @server.tool
    async def drop_tool(name: str) -> str:
        """Unregister a tool."""
        return str(server.tools.unregister(name))

    @server.tool
    async def touch(uri: str) -> str:
        """Notify that a resource changed."""
        server.resource_updated(uri)
        return "touched"

    @server.tool
    async def who(context: Context) -> dict[str, Any]:
        """Return the principal and scope of the caller."""
        caller = context.caller
        return {"principal": caller.principal.name, "scope": caller.scope, "revision": caller.revision.version}

    @server.tool
    async def weather(
        region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
        days: Annotated[int, msgspec.Meta(extra_json_schema={"x-mcp-header": "Days"})] = 1,
    ) -> str:
        """Take arguments that are mirrored in headers."""
        return f"{region}: {days}"

    @server.tool
    async def broken() -> str:
        """Fail."""
        raise RuntimeError("out of order")

    @server.resource("note://one", name="one")
    async def one() -> str:
        return "1"

    @server.resource("note://two", name="two")
    async def two() -> str:
        return "2"

    @server.resource("note://größe", name="größe")
    async def size() -> str:
        return "3"

    @server.prompt
    async def hello(name: str = "you") -> str:
        """Say hello."""
        return f"Hello, {name}!"

    return server


server = make_server()
