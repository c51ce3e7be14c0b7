"""A server whose tools, prompt and resource send client requests, and the messages of a client to it."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from tests.server.raw_client import Message, RawClient

from hubbub import Ask, Context, Server


@dataclass
class Name:
    name: str


@dataclass
class Age:
    age: int


def accept(**content: object) -> Message:
    return {"action": "accept", "content": content}


class AskingServer:
    """A server whose tools send client requests; counts how often each tool started and ended."""

    def __init__(self, **options: Any) -> None:
        self.server = server = Server("asking", **options)
        self.started: list[str] = []
        self.ended: list[str] = []
        self.cancelled = asyncio.Event()

        @server.tool
        async def greet(ctx: Context, greeting: str = "Hello") -> str:
            self.started.append("greet")
            try:
                answer = await ctx.elicit("Your name?", Name, key="who")
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            self.ended.append("greet")
            return f"{greeting} {answer.content.name}" if answer.content else answer.action

        @server.tool
        async def both_at_once(ctx: Context) -> str:
            self.started.append("both")
            name, age = await asyncio.gather(ctx.elicit("Name?", Name, key="name"), ctx.elicit("Age?", Age, key="age"))
            self.ended.append("both")
            assert name.content is not None
            assert age.content is not None
            return f"{name.content.name} is {age.content.age}"

        @server.tool
        async def one_by_one(ctx: Context) -> str:
            self.started.append("one_by_one")
            parts = []
            for number in range(3):
                answer = await ctx.elicit(f"Part {number}?", Name)
                assert answer.content is not None
                parts.append(answer.content.name)
            self.ended.append("one_by_one")
            return " ".join(parts)

        @server.tool
        async def everything(ctx: Context) -> str:
            sampled = await ctx.sample("Write a word", max_tokens=5, key="model")
            roots = await ctx.roots(key="roots")
            return f"{sampled.text} {[root.uri for root in roots]}"

        @server.tool
        async def endless(ctx: Context) -> str:
            while True:
                await ctx.elicit("Again?", Name)

        @server.tool
        def in_a_thread(ctx: Context) -> str:
            self.started.append("in_a_thread")
            answer = ctx.wait(ctx.elicit("Name?", Name, key="who"))
            assert answer.content is not None
            return f"Hello {answer.content.name}"

        @server.tool
        async def book(flight: str, seat: Annotated[Name, Ask("Which seat?")]) -> str:
            self.started.append("book")
            return f"{flight}: {seat.name}"

        @server.tool
        async def declared_and_asked(ctx: Context, who: Annotated[Name, Ask("Who?")]) -> str:
            self.started.append("declared_and_asked")
            age = await ctx.elicit(f"How old is {who.name}?", Age, key="age")
            assert age.content is not None
            return f"{who.name} is {age.content.age}"

        @server.tool
        async def steps(ctx: Context) -> str:
            await ctx.progress(1, message="before")
            await ctx.elicit("Go on?", Name, key="who")
            await ctx.progress(2, message="after")
            return "done"

        @server.prompt
        async def poem(ctx: Context) -> str:
            answer = await ctx.elicit("About whom?", Name, key="who")
            assert answer.content is not None
            return f"A poem about {answer.content.name}"

        @server.resource("diary:today")
        async def diary(ctx: Context) -> str:
            answer = await ctx.elicit("Whose?", Name, key="who")
            assert answer.content is not None
            return f"Diary of {answer.content.name}"


def call(tool: str, **arguments: object) -> Message:
    return {"name": tool, "arguments": arguments}


async def retry_with_answers(
    client: RawClient, params: Message, first: Message, responses: object, **options: Any
) -> Message:
    """Repeat a request with input responses and the `requestState` of the first response."""
    more = {"inputResponses": responses}
    if "requestState" in first:
        more["requestState"] = first["requestState"]
    return await client.ask(options.pop("method", "tools/call"), params | more, **options)


def text(answer: Message) -> str:
    return str(answer["result"]["content"][0]["text"])
