"""The studio with FastMCP: `fast_mcp.py stdio`, or `fast_mcp.py http`, which prints its port."""

import asyncio
import socket
import sys
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from mcp_types import InputRequiredResult

server: FastMCP[Any] = FastMCP("studio", version="1.2.3", instructions="Ask for an echo.")
seen = {"started": 0, "cancelled": 0}
watched = {"version": 0}
PIXEL = "iVBORw0KGgo="


@dataclass
class Sum:
    total: int
    terms: list[int]


@dataclass
class Person:
    name: str
    age: int = 0


@server.tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool
async def add(a: int, b: int = 1) -> Sum:
    """Add two numbers."""
    return Sum(a + b, [a, b])


@server.tool
async def gallery() -> ToolResult:
    """One of each kind of content."""
    inside = types.TextResourceContents(uri="memo://inside", mime_type="text/plain", text="inside")
    return ToolResult(
        content=[
            types.TextContent(type="text", text="all kinds"),
            types.ImageContent(type="image", data=PIXEL, mime_type="image/png"),
            types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav"),
            types.EmbeddedResource(type="resource", resource=inside),
            types.ResourceLink(type="resource_link", uri="memo://static", name="static"),
        ]
    )


@server.tool
async def failing() -> str:
    """Always fails."""
    raise ToolError("the well is dry")


@server.tool
async def slow(steps: int, context: Context) -> str:
    """Report each step, then the end."""
    for step in range(1, steps + 1):
        await context.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool
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


@server.tool
async def counts(cancelled: int = 0) -> dict[str, int]:
    """What became of those that wait; answers once so many were cancelled."""
    async with asyncio.timeout(60):
        while seen["cancelled"] < cancelled:
            await asyncio.sleep(0.001)
    return seen


# -- tools that send client requests ------------------------------------------------------------


@server.tool
async def ask_name(context: Context) -> str | InputRequiredResult:
    """Ask the person who they are, as each era has it."""
    request = context.request_context
    assert request is not None
    if request.protocol_version != "2026-07-28":
        asked = await context.elicit("Who are you?", response_type=Person)
        assert asked.action == "accept"
        return f"{asked.data.name} is {asked.data.age}"
    answers = context.input_responses
    if answers is None:
        fields = {"name": {"type": "string"}, "age": {"type": "integer", "default": 0}}
        form = {"type": "object", "properties": fields, "required": ["name"]}
        params = types.ElicitRequestFormParams(message="Who are you?", requested_schema=form)
        return InputRequiredResult(input_requests={"who": types.ElicitRequest(params=params)}, request_state="asked")
    assert context.request_state == "asked"
    answer = answers["who"]
    assert isinstance(answer, types.ElicitResult)
    assert answer.content is not None
    content = answer.content
    return f"{content['name']} is {content['age']}"


# -- tools that change things --------------------------------------------------


@server.tool
async def register_tool(name: str, context: Context) -> str:
    """Add a tool that greets."""

    async def greet(who: str) -> str:
        return f"{name} greets {who}"

    greet.__name__ = name
    server.tool(greet)
    await context.send_notification(types.ToolListChangedNotification())
    return name


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


@server.completion
async def complete(reference: Any, argument: types.CompletionArgument, context: Any) -> types.Completion:
    known = {"style": ["formal", "friendly", "plain"], "name": ["ada", "alan", "grace"]}[argument.name]
    values = [value for value in known if value.startswith(argument.value)]
    return types.Completion(values=values, total=len(values), has_more=False)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio", show_banner=False, log_level="ERROR")
    else:
        port = free_port()
        print(port, flush=True)
        server.run("http", port=port, show_banner=False, log_level="ERROR")
