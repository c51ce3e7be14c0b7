"""`hubbub login HUB_URL --upstream NAME` and its logout: the user's own login at a server behind a hub."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub.cli.errors import FAILED
from hubbub.cli.exit_codes import UNREACHABLE
from hubbub.cli.output import write_json, write_lines
from hubbub.cli.terminal import ask, is_interactive, note
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.errors import InvalidResponse, RemoteError
from hubbub.hub.config import CONNECT
from hubbub.oauth import limits
from hubbub.oauth.client.browser_login import open_browser

_POLL_S: Final = 1.0
"""How often the hub is asked whether the login is complete."""


class _Server(msgspec.Struct):
    server: str
    connected: bool
    url: str | None = None
    problem: str | None = None
    ended: bool = False


class _Result(msgspec.Struct):
    servers: list[_Server]


async def log_in_upstream(config: ServerConfig, name: str, *, opens_browser: bool, as_json: bool) -> int:
    """Have the person log in at a server behind a hub; return the exit code."""
    async with Client(config) as client:
        found = await _connect(client, config, name, "connect")
        if found is None:
            return FAILED
        if not found.connected and found.url is not None:
            note(f"Open this page in a browser to log in at {name}:\n\n  {found.url}\n")
            if opens_browser and await _may_open(str(config.url), found.url):
                open_browser(found.url)
            found = await _wait(client, config, name, found.url)
            if found is None:
                return FAILED
            if not found.connected:
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
        found = await _connect(client, config, name, "disconnect")
    if found is None:
        return FAILED
    if not found.ended:
        note(f"not logged in at {name} through {config.target}")
        return FAILED
    write_lines([f"Logged out of {name} at {config.target}: its tokens are deleted."])
    return 0


async def _may_open(hub_url: str, url: str) -> bool:
    """Whether to open a page: of the hub itself, or one of another origin that the person agrees to."""
    if _origin(url) == _origin(hub_url):
        return True
    if urlsplit(url).scheme not in ("http", "https"):
        note("This is not the address of a web page, so it is not opened.")
        return False
    if not is_interactive():
        note("It is not a page of the hub itself, so it is not opened in the browser.")
        return False
    answer = await ask(f"It is not a page of {hub_url}. Open {urlsplit(url).netloc} in the browser? [y/N] ")
    return (answer or "").strip().lower() in ("y", "yes")


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        return scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(scheme)
    except ValueError:
        return "", url, None


async def _wait(client: Client, config: ServerConfig, name: str, url: str) -> _Server | None:
    """Wait until the login ends, but not too long; None if it failed, which is reported."""
    deadline = asyncio.get_running_loop().time() + limits.LOGIN_S
    while True:
        await asyncio.sleep(_POLL_S)
        found = await _connect(client, config, name, "list", url)
        if found is None or found.connected:
            return found
        if found.problem is not None:
            note(f"the login at {name} failed: {found.problem}; run the command again for a new page")
            return None
        if asyncio.get_running_loop().time() > deadline:
            return found


async def _connect(
    client: Client, config: ServerConfig, name: str, action: str, url: str | None = None
) -> _Server | None:
    """Ask the hub; None if it refuses, which is reported.

    Raises: InvalidResponse, RemoteError.
    """
    arguments = {"server": name, "action": action, **({} if url is None else {"url": url})}
    try:
        result = await client.call_tool(CONNECT, arguments)
    except RemoteError:
        if await _has_connect(client, config):
            raise
        return None
    if result.is_error:
        if await _has_connect(client, config):
            note(f"the hub refused: {_text(result.content)}")
        return None
    try:
        servers = msgspec.convert(result.structured_content, _Result).servers
    except msgspec.ValidationError:
        raise InvalidResponse(
            f"{config.target} answered {CONNECT} with an unknown result; install the version of Hubbub that the hub has"
        ) from None
    return next((each for each in servers if each.server == name), None)


async def _has_connect(client: Client, config: ServerConfig) -> bool:
    """Whether the server has the tool of hubs; if not, that is reported."""
    # With `tool_names = "safe"`, the hub lists another name.
    names = {CONNECT, re.sub(r"[^A-Za-z0-9_-]", "_", CONNECT)}
    if any(tool.name in names for tool in await client.tools()):
        return True
    note(
        f"{config.target} has no tool {CONNECT}: it is not a hub at whose servers this user can log in; "
        "check the URL, and that a server of the hub has per_user"
    )
    return False


def _text(content: Any) -> str:
    return " ".join(block.text for block in content if hasattr(block, "text"))
