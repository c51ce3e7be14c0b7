"""A hub that follows a settings file, with workers behind it: the file, the hub, a client, and what they tell."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.server.conversation import MODERN, Conversation, conversing

from hubbub.assembly.assemble import assemble
from hubbub.assembly.checking import check_sources
from hubbub.hub.front import Front
from hubbub.settings import ServeSettings, gather, read_settings

WORKER = Path(__file__).with_name("worker.py")
SOURCE = Path(__file__).parents[2] / "src"
SOON_S = 60.0


def section(name: str, *, program: str | None = None, **more: Any) -> str:
    """`[servers.NAME]`, a worker."""
    env = {"PYTHONPATH": str(SOURCE), **more.pop("env", {})}
    lines = [
        f"[servers.{name}]",
        f"command = {json.dumps(sys.executable)}",
        f"args = {json.dumps([str(WORKER), program or name])}",
        f"env = {{{', '.join(f'{key} = {json.dumps(value)}' for key, value in env.items())}}}",
        *(f"{key} = {json.dumps(value)}" for key, value in more.items()),
    ]
    return "\n".join(lines) + "\n"


def replace_file(path: Path, text: str) -> None:
    """As careful editors save: written beside, then renamed."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


async def until(what: Callable[[], Any], patience_s: float = SOON_S) -> None:
    async with asyncio.timeout(patience_s):
        while not what():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def hub_of(
    path: Path, *, dialect: str = MODERN, capabilities: dict[str, Any] | None = None, **flags: str
) -> AsyncIterator[tuple[Front, Conversation]]:
    """The hub of a settings file, running, and a client of it."""
    environ = {**os.environ, "HUBBUB_HUB__LIST_S": str(SOON_S)}  # on a busy machine, servers take their time
    given = {f"--{key.replace('_', '-')}": value for key, value in flags.items()}
    sources = gather({"--config": str(path), **given}, environ)
    settings = read_settings(ServeSettings, sources)
    check_sources(sources)
    front = assemble(settings, sources)
    assert isinstance(front, Front)
    async with front.running(), conversing(front, dialect, capabilities or {}) as client:
        yield front, client


async def names_in(client: Conversation) -> set[str]:
    listed = await client.result("tools/list")
    names = {tool["name"] for tool in listed["tools"]}
    return {name for name in names if name.endswith(("_who", "_work"))}


async def text_of(client: Conversation, tool: str, **arguments: Any) -> str:
    result = await client.call(tool, arguments)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def reloads(front: Front) -> int:
    assert front.hub.reloading is not None
    return front.hub.reloading.reloads


def problem_of(front: Front) -> str | None:
    assert front.hub.reloading is not None
    return front.hub.reloading.problem
