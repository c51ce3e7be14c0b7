"""The server that third-party clients are tested with, written with the public API only.

It is a script: `python tests/interop/server.py` serves one client on stdio, and `hubbub serve`
serves many over HTTP. Everything that a client can observe is deterministic, so that tests
compare whole payloads.
"""

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass

from hubbub import (
    Audio,
    Context,
    EmbeddedResource,
    Image,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    Server,
    Text,
    Tool,
    ToolAnnotations,
    ToolError,
    run,
)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
)
SILENCE = b"RIFF" + bytes.fromhex("2400000057415645666d74201000000001000100401f0000401f0000010008006461746100000000")

server = Server("interop", version="1.2.3", title="Interop fixture", instructions="Ask for an echo.")
seen = {"started": 0, "cancelled": 0, "finished": 0}
watched = {"version": 0}
pace = asyncio.Semaphore(0)


@dataclass
class Sum:
    """What `add` returns."""

    total: int
    terms: list[int]


@dataclass
class Person:
    """The form of `ask_name`."""

    name: str
    age: int = 0


# -- tools that return at once -------------------------------------------------


@server.tool(annotations=ToolAnnotations(title="Echo", read_only_hint=True, idempotent_hint=True))
async def echo(text: str) -> str:
    """Give the text back.

    Args:
        text: What to say.
    """
    return text


@server.tool
async def add(a: int, b: int = 1) -> Sum:
    """Add two numbers."""
    return Sum(a + b, [a, b])


@server.tool
def count() -> int:
    """A result that is no object."""
    return 42


@server.tool
async def gift(size: int) -> str:
    """Much for little."""
    return "x" * size


@server.tool
async def failing() -> str:
    """Always fails."""
    raise ToolError("the well is dry", code="dry_well", data={"depth": 7})


@server.tool
async def failing_sum(a: int) -> Sum:
    """Has an output schema and fails all the same."""
    raise ValueError(f"cannot add {a}")


@server.tool
async def gallery() -> list[Text | Image | Audio | EmbeddedResource | ResourceLink]:
    """One of each kind of content."""
    return [
        Text("all kinds"),
        Image(PIXEL),
        Audio(SILENCE),
        EmbeddedResource(ResourceContents("memo://inside", "text/plain", text="inside")),
        ResourceLink("memo://static", "static", mime_type="text/plain"),
    ]


# -- tools that take a while ---------------------------------------------------


@server.tool
async def slow(context: Context, steps: int = 3) -> str:
    """Report each step, then the end."""
    for step in range(1, steps + 1):
        await context.progress(step, steps, f"step {step}")
        await context.info(f"did step {step}")
        await asyncio.sleep(0)
    return f"{steps} steps"


@server.tool
async def paced(context: Context, steps: int) -> str:
    """Report a step and wait for `go_on` before the next, so that no client can hear them late."""
    for step in range(1, steps + 1):
        await context.progress(step, steps, f"step {step}")
        await pace.acquire()
    return f"{steps} steps"


@server.tool
async def go_on() -> str:
    """Let `paced` take its next step."""
    pace.release()
    return "gone on"


@server.tool
async def polled(context: Context) -> str:
    """Close the stream half way, so that a client over HTTP has to come back for the rest."""
    await context.progress(1, 2, "before")
    await context.close_stream()
    await context.progress(2, 2, "after")
    return "fetched"


@server.tool
async def wait_forever(context: Context) -> str:
    """Wait until cancelled; `memo://seen` tells what became of it."""
    seen["started"] += 1
    await context.progress(1, message="waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        seen["cancelled"] += 1
        raise
    return "never"


@server.tool
async def nap(seconds: float) -> str:
    """Sleep on the event loop."""
    seen["started"] += 1
    await asyncio.sleep(seconds)
    seen["finished"] += 1
    return f"slept {seconds:g}"


@server.tool
def block(seconds: float) -> str:
    """Sleep in a thread, where nothing can interrupt it."""
    seen["started"] += 1
    time.sleep(seconds)
    seen["finished"] += 1
    return f"blocked {seconds:g}"


@server.tool
async def stubborn(seconds: float) -> str:
    """Ignore being cancelled."""
    ends = time.monotonic() + seconds
    seen["started"] += 1
    while (left := ends - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            seen["cancelled"] += 1
    return f"stayed {seconds:g}"


@server.tool
async def flood(context: Context, messages: int, size: int) -> str:
    """Send much progress."""
    for number in range(1, messages + 1):
        await context.progress(number, messages, "x" * size)
    return f"{messages} messages"


@server.tool
async def counts(cancelled: int = 0) -> dict[str, int]:
    """How many waiting tools started, were cancelled, finished; waits until so many were cancelled."""
    async with asyncio.timeout(60):
        while seen["cancelled"] < cancelled:
            await asyncio.sleep(0.001)
    return seen


# -- tools that send client requests ------------------------------------------------------------


@server.tool
async def ask_name(context: Context) -> str:
    """Ask the person who they are."""
    answer = await context.elicit("Who are you?", Person)
    if not answer.accepted or answer.content is None:
        return f"nobody ({answer.action})"
    return f"{answer.content.name} is {answer.content.age}"


@server.tool
async def sample_haiku(context: Context, topic: str) -> str:
    """Let the client's model write."""
    answer = await context.sample(f"A haiku about {topic}", max_tokens=64, system="You are a poet", temperature=0.5)
    return f"{answer.model}: {answer.text}"


@server.tool
async def list_roots(context: Context) -> list[str]:
    """What the client lets us look at."""
    return [root.uri for root in await context.roots()]


@server.tool
async def interview(context: Context) -> str:
    """Ask twice, report in between: the handler runs once and keeps its place."""
    seen["started"] += 1
    first = await context.elicit("Who are you?", Person)
    await context.progress(1, 2, "one answer")
    second = await context.elicit("And your friend?", Person)
    assert first.content is not None
    assert second.content is not None
    return f"{first.content.name} and {second.content.name}"


# -- tools that change things --------------------------------------------------


@server.tool
async def register_tool(name: str) -> str:
    """Add a tool that greets."""

    async def greet(who: str) -> str:
        return f"{name} greets {who}"

    server.tools.register(Tool(greet, name=name, description="Added at run time."), reason="asked for")
    return name


@server.tool
async def unregister_tool(name: str) -> bool:
    """Remove a tool again."""
    return server.tools.unregister(name)


@server.tool
async def add_resource(name: str) -> str:
    """Add a resource."""

    def added() -> str:
        return f"I am {name}"

    server.resource(f"memo://added/{name}", name=name)(added)
    return f"memo://added/{name}"


@server.tool
async def touch_resource() -> int:
    """Change `memo://watched` and say so."""
    watched["version"] += 1
    server.resource_updated("memo://watched")
    server.resource_updated("memo://unwatched")
    return watched["version"]


# -- tools that write to stdout ---------------------------------------


@server.tool
async def noisy() -> str:
    """Print, write to file descriptor 1, and run a program that prints and reads stdin."""
    print("printed by a tool")
    sys.stdout.write("written by a tool\n")
    sys.stdout.flush()
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", "import sys; print('printed by a child', len(sys.stdin.read()))"],
        check=True,
        timeout=60,
    )
    return "quiet"


# -- resources, prompts, completion --------------------------------------------


@server.resource("memo://static", mime_type="text/plain", title="A memo")
def static() -> str:
    """Never changes."""
    return "static text"


@server.resource("memo://bytes", mime_type="image/png")
async def picture() -> bytes:
    """Bytes."""
    return PIXEL


@server.resource("memo://watched")
def watched_text() -> str:
    """Changes when touched."""
    return f"version {watched['version']}"


@server.resource("memo://seen", mime_type="application/json")
def seen_counts() -> dict[str, int]:
    """What became of the tools that wait."""
    return seen


@server.resource("memo://people/{name}", mime_type="text/plain")
def person(name: str) -> str | None:
    """One of three people."""
    return f"about {name}" if name in ("ada", "alan", "grace") else None


@server.prompt(title="Greeting")
def greeting(name: str, style: str = "plain") -> list[PromptMessage]:
    """Greet someone.

    Args:
        name: Who.
        style: How.
    """
    return [PromptMessage("user", Text(f"Greet {name}")), PromptMessage("assistant", Text(f"In a {style} style"))]


@server.completion("greeting", "style")
def complete_style(value: str) -> list[str]:
    """Styles that begin with what was typed."""
    return [style for style in ("formal", "friendly", "plain") if style.startswith(value)]


@server.completion("memo://people/{name}", "name")
def complete_name(value: str, others: dict[str, str]) -> list[str]:
    """People that begin with what was typed."""
    return [name for name in ("ada", "alan", "grace") if name.startswith(value)]


if __name__ == "__main__":
    run(server)
