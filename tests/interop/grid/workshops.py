"""Workshops as processes: starting one, directly or behind a hub, and its address for clients."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.http.server_process import HUBBUB, ServerProcess
from tests.interop.external_servers import JUDGES, run_http_server
from tests.interop.grid.feature_checks import LEGACY, MODERN, ServerTarget

SERVERS = Path(__file__).parent / "servers"
PROGRAMS = {"python": "workshop.py", "v1": "workshop_v1.mjs", "v2": "workshop_v2.mjs"}
# It warns of everything that the modern era has given up.
NO_WARNINGS = ["-W", "ignore"]


@dataclass(frozen=True)
class Workshop:
    """An unmodified server of an official SDK, in one era, over one transport."""

    sdk: str
    era: str
    transport: str

    @property
    def name(self) -> str:
        return f"{self.sdk}-{'modern' if self.era == MODERN else 'legacy'}-{self.transport}"


# Only the first serves both eras, so its era is configured; for the others it is negotiated.
WORKSHOPS = [
    Workshop(sdk, era, transport)
    for sdk, era in (("python", LEGACY), ("python", MODERN), ("v1", LEGACY), ("v2", MODERN))
    for transport in ("stdio", "http")
]

# A legacy server on stdio is started for each client anew, which takes the one in Python more than a second.
QUICK = [workshop for workshop in WORKSHOPS if workshop != Workshop("python", LEGACY, "stdio")]


class WorkshopPool:
    """The workshops of one run of the tests. Those over HTTP run from when they are first needed to the end."""

    def __init__(self, node: list[str], folder: Path) -> None:
        self._node = node
        self._folder = folder
        self._running = contextlib.ExitStack()
        self._entries: dict[Workshop, dict[str, Any]] = {}

    def close(self) -> None:
        self._running.close()

    def journal_path(self, workshop: Workshop) -> Path:
        return self._folder / f"{workshop.name}.journal"

    def entry(self, workshop: Workshop) -> dict[str, Any]:
        """Return its entry for an `mcpServers` file."""
        if workshop not in self._entries:
            self._entries[workshop] = self._start(workshop)
        return self._entries[workshop]

    def direct_target(self, workshop: Workshop) -> ServerTarget:
        """Return its target without a hub."""
        entry = self.entry(workshop)
        place = entry["url"] if "url" in entry else [entry["command"], *entry["args"]]
        return ServerTarget(place, workshop.name, self.journal_path(workshop))

    def stdio_hub_target(self, workshop: Workshop, folder: Path) -> ServerTarget:
        """Return its target behind a hub on stdio with no other server, so that names are not prefixed."""
        flags = write_config(folder, {workshop: self.entry(workshop)})
        command = [str(HUBBUB), "serve", "--transport", "stdio", *flags]
        return ServerTarget(command, workshop.name, self.journal_path(workshop))

    def _start(self, workshop: Workshop) -> dict[str, Any]:
        program = PROGRAMS[workshop.sdk]
        runner = [sys.executable, *NO_WARNINGS] if program.endswith(".py") else self._node
        journal = str(self.journal_path(workshop))
        command = [*runner, str(SERVERS / program), workshop.transport, workshop.name, journal]
        if workshop.transport == "stdio":
            return {"command": command[0], "args": command[1:], "env": {"JUDGES": str(JUDGES)}}
        port = self._running.enter_context(run_http_server(command))
        return {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}


def write_config(folder: Path, entries: dict[Workshop, dict[str, Any]]) -> list[str]:
    """Write the files of a hub with these workshops; return the flags that name the files."""
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
def run_outer_hub(entry: dict[str, Any], folder: Path, era: str) -> Iterator[str]:
    """Run a hub whose only server is another hub, in one era; yield its URL."""
    lines = ["[servers.inner]", *(f"{key} = {toml(value)}" for key, value in entry.items())]
    path = folder / "outer.toml"
    path.write_text("\n".join([*lines, f'protocol_version = "{era}"']))
    with ServerProcess("--config", str(path)) as process:
        yield f"{process.url}/mcp"


def make_inner_entry(target: ServerTarget) -> dict[str, Any]:
    """Return the configuration of a hub on stdio as an upstream of another hub."""
    assert isinstance(target.address, list)
    command, *arguments = target.address
    found = {key: os.environ[key] for key in ("PYTHONPATH", "XDG_DATA_HOME") if key in os.environ}
    # A hub sets this variable for its servers, so that none of them is a hub by accident; this one must be.
    return {"command": command, "args": arguments, "env": found | {"HUBBUB_ALONE": "false"}}
