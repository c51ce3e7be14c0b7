"""The studio with the official Python SDK: `python_sdk.py stdio`, or `python_sdk.py http`, which prints its port.

A studio is what `tests.interop.studio_client` visits. Every server in this folder offers the same one,
as far as its SDK goes; everything that a client can observe is deterministic.
"""

import asyncio
import socket
import sys
from typing import Annotated

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ListRoots, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("studio", version="1.2.3", instructions="Ask for an echo.", log_level="ERROR")
seen = {"started": 0, "cancelled": 0}
watched = {"version": 0}
PIXEL = "iVBORw0KGgo="


class Sum(BaseModel):
    total: int
    terms: list[int]


class Person(BaseModel):
    name: str
    age: int = 0


class Counts(BaseModel):
    started: int
    cancelled: int


@server.tool()
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool()
async def add(a: int, b: int = 1) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b, terms=[a, b])


@server.tool(structured_output=False)
async def gallery() -> list[types.ContentBlock]:
    """One of each kind of content."""
    inside = types.TextResourceContents(uri="memo://inside", mime_type="text/plain", text="inside")
    return [
        types.TextContent(type="text", text="all kinds"),
        types.ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav"),
        types.EmbeddedResource(type="resource", resource=inside),
        types.ResourceLink(type="resource_link", uri="memo://static", name="static"),
    ]


@server.tool()
async def failing() -> str:
    """Always fails."""
    raise ToolError("the well is dry")


@server.tool()
async def slow(steps: int, context: Context) -> str:
    """Report each step, then the end."""
    for step in range(1, steps + 1):
        await context.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool()
async def wait_forever(context: Context) -> str:
    """Wait until cancelled."""
    seen["started"] += 1
    await context.report_progress(1, message="waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        seen["cancelled"] += 1
        raise
    return "never"


@server.tool()
async def counts(cancelled: int = 0) -> Counts:
    """What became of those that wait; answers once so many were cancelled."""
    async with asyncio.timeout(60):
        while seen["cancelled"] < cancelled:
            await asyncio.sleep(0.001)
    return Counts(**seen)


# -- tools that send client requests ------------------------------------------------------------


async def who() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


async def haiku(topic: str) -> Sample:
    text = types.TextContent(type="text", text=f"A haiku about {topic}")
    message = types.SamplingMessage(role="user", content=text)
    return Sample([message], max_tokens=64, system_prompt="You are a poet", temperature=0.5)


async def roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def ask_name(person: Annotated[Person, Resolve(who)]) -> str:
    """Ask the person who they are."""
    return f"{person.name} is {person.age}"


@server.tool()
async def sample_haiku(topic: str, answer: Annotated[types.CreateMessageResult, Resolve(haiku)]) -> str:
    """Let the client's model write."""
    assert isinstance(answer.content, types.TextContent)
    return f"{answer.model}: {answer.content.text}"


@server.tool()
async def list_roots(found: Annotated[types.ListRootsResult, Resolve(roots)]) -> str:
    """What the client lets us look at."""
    return " ".join(str(root.uri) for root in found.roots)


# -- tools that change things --------------------------------------------------


@server.tool()
async def register_tool(name: str, context: Context) -> str:
    """Add a tool that greets."""

    async def greet(who: str) -> str:
        return f"{name} greets {who}"

    server.add_tool(greet, name=name, description="Added at run time.")
    await context.session.send_tool_list_changed()
    await context.notify_tools_changed()
    return name


@server.tool()
async def touch_resource(context: Context) -> str:
    """Change `memo://watched` and say so."""
    watched["version"] += 1
    await context.session.send_resource_updated("memo://watched")
    await context.notify_resource_updated("memo://watched")
    return f"version {watched['version']}"


# -- resources, prompts, completion --------------------------------------------


@server.resource("memo://static", name="static", mime_type="text/plain", title="A memo")
def static() -> str:
    """Never changes."""
    return "static text"


@server.resource("memo://bytes", name="bytes", mime_type="image/png")
def picture() -> bytes:
    """Bytes."""
    return b"\x89PNG\r\n\x1a\n"


@server.resource("memo://watched", name="watched", mime_type="text/plain")
def watched_text() -> str:
    """Changes when touched."""
    return f"version {watched['version']}"


@server.resource("memo://people/{name}", name="person", mime_type="text/plain")
def person(name: str) -> str:
    """Somebody."""
    return f"about {name}"


@server.prompt(title="Greeting")
def greeting(name: str, style: str = "plain") -> str:
    """Greet someone."""
    return f"Greet {name} in a {style} style"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    reference: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion | None:
    known = {"style": ["formal", "friendly", "plain"], "name": ["ada", "alan", "grace"]}[argument.name]
    values = [value for value in known if value.startswith(argument.value)]
    return types.Completion(values=values, total=len(values), has_more=False)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        port = free_port()
        print(port, flush=True)
        server.run("streamable-http", port=port)
