"""Workshops as processes: how one is started, directly or behind a hub, and where a client finds it."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.http.processes import HUBBUB, ServerProcess
from tests.interop.foreign import JUDGES, listening
from tests.interop.grid.visiting import LEGACY, MODERN, Stand

SERVERS = Path(__file__).parent / "servers"
PROGRAMS = {"python": "workshop.py", "v1": "workshop_v1.mjs", "v2": "workshop_v2.mjs"}
# It warns of everything that the modern era has given up.
QUIET = ["-W", "ignore"]


@dataclass(frozen=True)
class Workshop:
    """An unmodified server of an official SDK, in one era, by one transport."""

    sdk: str
    era: str
    transport: str

    @property
    def name(self) -> str:
        return f"{self.sdk}-{'modern' if self.era == MODERN else 'legacy'}-{self.transport}"

    def journal(self, folder: Path) -> Path:
        return folder / f"{self.name}.journal"

    def command(self, node: list[str], folder: Path) -> list[str]:
        program = PROGRAMS[self.sdk]
        runner = [sys.executable, *QUIET] if program.endswith(".py") else node
        return [*runner, str(SERVERS / program), self.transport, self.name, str(self.journal(folder))]

    @contextlib.contextmanager
    def entry(self, node: list[str], folder: Path) -> Iterator[dict[str, Any]]:
        """How an `mcpServers` file names it; over HTTP it runs meanwhile."""
        command = self.command(node, folder)
        if self.transport == "stdio":
            yield {"command": command[0], "args": command[1:], "env": {"JUDGES": str(JUDGES)}}
            return
        with listening(command) as port:
            yield {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}

    @contextlib.contextmanager
    def stand(self, node: list[str], folder: Path) -> Iterator[Stand]:
        """Where a client finds it without a hub."""
        with self.entry(node, folder) as entry:
            place = entry["url"] if "url" in entry else [entry["command"], *entry["args"]]
            yield Stand(place, self.name, self.journal(folder))


# Only the first serves both eras and has to be told which; the others are asked as any server is.
WORKSHOPS = [
    Workshop(sdk, era, transport)
    for sdk, era in (("python", LEGACY), ("python", MODERN), ("v1", LEGACY), ("v2", MODERN))
    for transport in ("stdio", "http")
]

# A legacy server on stdio is started for each client anew, which takes the one in Python more than a second.
QUICK = [workshop for workshop in WORKSHOPS if workshop != Workshop("python", LEGACY, "stdio")]


def write_config(folder: Path, entries: dict[Workshop, dict[str, Any]]) -> list[str]:
    """The files of a hub with these workshops; the flags that name them."""
    lines: list[str] = []
    for workshop, entry in entries.items():
        if workshop.sdk == "python":
            fields = {key: value for key, value in entry.items() if key != "type"}
            lines.append(f"[servers.{workshop.name}]")
            lines += [f"{key} = {toml(value)}" for key, value in fields.items()]
            lines.append(f'protocol_version = "{workshop.era}"')
    asked = {workshop.name: entry for workshop, entry in entries.items() if workshop.sdk != "python"}
    (folder / "hubbub.toml").write_text("\n".join(lines))
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": asked}))
    return ["--config", str(folder / "hubbub.toml"), *(["--mcp-json", str(folder / "mcp.json")] if asked else [])]


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


@contextlib.contextmanager
def hub_with(node: list[str], folder: Path, workshops: list[Workshop]) -> Iterator[tuple[ServerProcess, list[str]]]:
    """A hub over HTTP with all of them behind it, and the flags it was started with."""
    with contextlib.ExitStack() as stack:
        entries = {workshop: stack.enter_context(workshop.entry(node, folder)) for workshop in workshops}
        flags = write_config(folder, entries)
        yield stack.enter_context(ServerProcess(*flags)), flags


@contextlib.contextmanager
def hub_on_stdio(node: list[str], folder: Path, workshop: Workshop) -> Iterator[Stand]:
    """The command of a hub with one workshop behind it, whose names therefore stay as they are."""
    with workshop.entry(node, folder) as entry:
        flags = write_config(folder, {workshop: entry})
        command = [str(HUBBUB), "serve", "--transport", "stdio", *flags]
        yield Stand(command, workshop.name, workshop.journal(folder))


@contextlib.contextmanager
def hub_before(entry: dict[str, Any], folder: Path, era: str) -> Iterator[str]:
    """The URL of a hub whose only server is another hub, which it speaks to in one era."""
    lines = ["[servers.inner]", *(f"{key} = {toml(value)}" for key, value in entry.items())]
    path = folder / "outer.toml"
    path.write_text("\n".join([*lines, f'protocol_version = "{era}"']))
    with ServerProcess("--config", str(path)) as process:
        yield f"{process.url}/mcp"


def inner_on_stdio(stand: Stand) -> dict[str, Any]:
    """How a hub on stdio is named in another hub's file."""
    command, *arguments = stand.place
    found = {key: os.environ[key] for key in ("PYTHONPATH", "XDG_DATA_HOME") if key in os.environ}
    return {"command": command, "args": arguments, "env": found}
