"""The hub's command line and the files that it reads."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def hub_command(servers: Mapping[str, list[str]], port: int, settings: str = "") -> Iterator[list[str]]:
    """Return the command of a hub in front of these servers (a command or a URL each), with settings in TOML."""
    with tempfile.TemporaryDirectory() as folder:
        listed, config = Path(folder, "mcp.json"), Path(folder, "hubbub.toml")
        listed.write_text(json.dumps({"mcpServers": {name: _entry(place) for name, place in servers.items()}}))
        config.write_text(settings)
        yield [
            *(".venv/bin/hubbub", "serve", "--config", str(config), "--mcp-json", str(listed)),
            *("--limit", "mcp=100000/second", "--port", str(port)),
        ]


def _entry(place: list[str]) -> dict[str, object]:
    return {"url": place[0]} if len(place) == 1 else {"command": place[0], "args": place[1:]}
