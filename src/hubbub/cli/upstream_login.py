"""`hubbub login HUB_URL --upstream NAME` and its logout: the user's own login at a server behind a hub."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from hubbub.cli.errors import FAILED
from hubbub.cli.exit_codes import UNREACHABLE
from hubbub.cli.output import write_json, write_lines
from hubbub.cli.terminal import note
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.hub.config import CONNECT
from hubbub.oauth import limits
from hubbub.oauth.client.browser_login import open_browser

_POLL_S: Final = 1.0
"""How often the hub is asked whether the login is complete."""


class _Server(msgspec.Struct):
    server: str
    connected: bool
    url: str | None = None


class _Result(msgspec.Struct):
    servers: list[_Server]


async def log_in_upstream(config: ServerConfig, name: str, *, opens_browser: bool, as_json: bool) -> int:
    """Have the person log in at a server behind a hub; return the exit code."""
    async with Client(config) as client:
        found = await _connect(client, name, "connect")
        if found is None:
            return FAILED
        if not found.connected and found.url is not None:
            note(f"Open this page in a browser to log in at {name}:\n\n  {found.url}\n")
            if opens_browser:
                open_browser(found.url)
            found = await _wait(client, name)
            if found is None:
                note(f"the login at {name} was not completed; run the command again for a new page")
                return UNREACHABLE
    if as_json:
        write_json({"server": found.server, "connected": found.connected})
    else:
        write_lines([f"Logged in at {name} through {config.target}."])
    return 0


async def log_out_upstream(config: ServerConfig, name: str) -> int:
    """End the person's login at a server behind a hub; return the exit code."""
    async with Client(config) as client:
        if await _connect(client, name, "disconnect") is None:
            return FAILED
    write_lines([f"Logged out of {name} at {config.target}: its tokens are deleted."])
    return 0


async def _wait(client: Client, name: str) -> _Server | None:
    """Wait until the person has logged in; None if that takes too long."""
    deadline = asyncio.get_running_loop().time() + limits.LOGIN_S
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_POLL_S)
        found = await _connect(client, name, "list")
        if found is None or found.connected:
            return found
    return None


async def _connect(client: Client, name: str, action: str) -> _Server | None:
    """Ask the hub; None if it refuses, which is reported."""
    result = await client.call_tool(CONNECT, {"server": name, "action": action})
    if result.is_error:
        note(f"the hub refused: {_text(result.content)}")
        return None
    found = msgspec.convert(result.structured_content, _Result)
    return next((each for each in found.servers if each.server == name), None)


def _text(content: Any) -> str:
    return " ".join(block.text for block in content if hasattr(block, "text"))
