"""Helpers for a hub that watches its settings file, with workers as upstreams."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.server.raw_client import MODERN, RawClient, connect_raw_client

from hubbub.assembly.assemble import assemble
from hubbub.assembly.settings_checks import check_sources
from hubbub.hub.front import Front
from hubbub.settings import ServeSettings, collect_sources, read_settings

WORKER = Path(__file__).with_name("worker.py")
SOURCE = Path(__file__).parents[2] / "src"
WAIT_TIMEOUT_S = 60.0


def worker_section(name: str, *, program: str | None = None, **more: Any) -> str:
    """Return the section `[servers.NAME]` of a worker."""
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
    """Replace a file as many editors do: write a temporary file, then rename it."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


async def wait_until(condition: Callable[[], Any], timeout_s: float = WAIT_TIMEOUT_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def run_file_hub(
    path: Path, *, dialect: str = MODERN, capabilities: dict[str, Any] | None = None, **flags: str
) -> AsyncIterator[tuple[Front, RawClient]]:
    """Run the hub of a settings file; yield its front and a client."""
    environ = {**os.environ, "HUBBUB_HUB__LIST_S": str(WAIT_TIMEOUT_S)}  # servers start slowly on a busy machine
    given = {f"--{key.replace('_', '-')}": value for key, value in flags.items()}
    sources = collect_sources({"--config": str(path), **given}, environ)
    settings = read_settings(ServeSettings, sources)
    check_sources(sources)
    front = assemble(settings, sources)
    assert isinstance(front, Front)
    async with front.running(), connect_raw_client(front, dialect, capabilities or {}) as client:
        yield front, client


async def worker_tool_names(client: RawClient) -> set[str]:
    listed = await client.result("tools/list")
    names = {tool["name"] for tool in listed["tools"]}
    return {name for name in names if name.endswith(("_who", "_work"))}


async def call_text(client: RawClient, tool: str, **arguments: Any) -> str:
    result = await client.call(tool, arguments)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def reload_count(front: Front) -> int:
    assert front.hub.reload_state is not None
    return front.hub.reload_state.reloads


def reload_problem(front: Front) -> str | None:
    assert front.hub.reload_state is not None
    return front.hub.reload_state.problem
