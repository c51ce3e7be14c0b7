"""The server under fuzzing: a tool, resource or prompt of each kind, all of which terminate."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from hubbub import Ask, Context, Server, ToolError


@dataclass
class Name:
    name: str


def make_server() -> Server:
    server = Server("fuzzed")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def turns(context: Context, count: int = 3) -> int:
        for number in range(min(count, 5)):
            await context.progress(number)
            await asyncio.sleep(0)
        return count

    @server.tool
    async def fails(context: Context) -> str:
        await context.error("about to fail")
        raise ToolError("failed")

    @server.tool
    async def declared(who: Annotated[Name, Ask("Who?")]) -> str:
        return who.name

    @server.resource("file:///a")
    async def a() -> str:
        return "a"

    @server.resource("file:///{name}.txt")
    async def file(name: str) -> str | None:
        return name if len(name) > 1 else None

    @server.prompt
    async def poem(topic: str) -> str:
        return topic

    return server
