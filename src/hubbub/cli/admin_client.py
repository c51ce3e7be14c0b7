"""Calls one function of administration on a running hub: at its Unix socket, or at a URL with a key.

Used by every command that administers a hub.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import click
import msgspec

from hubbub import bounds
from hubbub.cli.client_runner import run
from hubbub.cli.errors import FAILED
from hubbub.cli.output import write_json
from hubbub.cli.target import use_stored_login
from hubbub.cli.terminal import note
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig, open_transport
from hubbub.errors import HttpError, HubbubError, RemoteError, SettingsError
from hubbub.hub.state_file import RunningHub, running_hubs
from hubbub.oauth.errors import LoginRequired
from hubbub.protocol.content import Text
from hubbub.protocol.error_codes import INVALID_PARAMS
from hubbub.protocol.results import ToolResult
from hubbub.settings import Secret

F = TypeVar("F", bound=Callable[..., Any])
ShowResult = Callable[[Any], None]
FindProblems = Callable[[Any], list[str]]
AdminWork = Callable[["AdminConnection"], Awaitable[int]]
_PATH: Final = "/mcp/admin"
_AUTO: Final = "auto"
_LOCAL_URL: Final = f"http://localhost{_PATH}"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_NO_TOOL: Final = "Tool not found"


class AdminOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which hub a command is about, and how the result is written."""

    hub: str | None = None
    """The process id or address of a hub on this machine."""
    url: str | None = None
    key: str | None = None
    as_json: bool = False

    @property
    def names_hub(self) -> bool:
        """Whether the user asked for a running hub."""
        return self.hub is not None or self.url is not None or self.key is not None


def hub_options(function: F) -> F:
    """Add the options that choose a hub; the function gets them as `options`."""

    @wraps(function)
    def wrapped(
        *arguments: Any, hub: str | None, url: str | None, key: str | None, as_json: bool = False, **more: Any
    ) -> Any:
        return function(*arguments, options=AdminOptions(hub=hub, url=url, key=key, as_json=as_json), **more)

    decorators = (
        click.option(
            "--hub",
            metavar="PID|ADDRESS|auto",
            help="A hub on this machine, by its process id or address; auto: the only one that runs.",
        ),
        click.option(
            "--url", metavar="URL", help="A hub elsewhere, such as https://hub.example.com; needs a login or --key."
        ),
        click.option("--key", metavar="KEY", help="A key with the scope hub:admin, or ${NAME} of a variable."),
    )
    for decorate in reversed(decorators):
        wrapped = decorate(wrapped)
    return wrapped  # type: ignore[return-value]


def admin_options(function: F) -> F:
    """Add the options that choose a hub, and `--json`; the function gets them as `options`."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON.")(hub_options(function))


def find_hub_with_settings(config: str | None) -> RunningHub | None:
    """Return the hub on this machine that was started with a settings file and can be administered, if there is one."""
    if config is None:
        return None
    path = str(Path(config).absolute())
    return next((hub for hub in running_hubs() if hub.config == path and hub.socket is not None), None)


class AdminConnection:
    """A connection with the administration of a running hub."""

    def __init__(self, client: Client, options: AdminOptions) -> None:
        self._client = client
        self._options = options

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a function, without the arguments that are None, and return its result.

        Raises:
            AdminCallFailed: the function refused the call.
            HubbubError
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            result = await self._client.call_tool(tool, given)
        except HubbubError as error:
            raise _explain(error, self._options, tool) from None
        if result.is_error:
            raise AdminCallFailed(_error_message(result))
        return result.structured_content


class AdminCallFailed(HubbubError):
    """A function of administration refused a call; the command ends with exit code 1."""


def run_admin(options: AdminOptions, work: AdminWork) -> int:
    """Connect to a hub and run a command's work; return the exit code.

    Raises: SettingsError, if there is no such hub.
    """
    return run(_run_admin(_make_client(options), options, work))


async def _run_admin(client: Client, options: AdminOptions, work: AdminWork) -> int:
    try:
        async with client:
            return await work(AdminConnection(client, options))
    except AdminCallFailed as failure:
        note(f"hubbub: {failure}")
        return FAILED
    except HubbubError as error:
        raise _explain(error, options, "") from None


def call_admin(
    options: AdminOptions,
    tool: str,
    arguments: dict[str, Any],
    show: ShowResult,
    find_problems: FindProblems = lambda found: [],
) -> int:
    """Call a tool and show its result, or write it as JSON; return the exit code.

    `find_problems` returns what was not done although the call succeeded, for stderr; the exit code is 1 then.

    Raises: SettingsError, if there is no such hub.
    """

    async def work(hub: AdminConnection) -> int:
        found = await hub.call(tool, arguments)
        if options.as_json:
            write_json(found)
        else:
            show(found)
        problems = find_problems(found)
        for problem in problems:
            note(f"hubbub: {problem}")
        return FAILED if problems else 0

    return run_admin(options, work)


def _explain(error: HubbubError, options: AdminOptions, tool: str) -> HubbubError:
    """Say what the usual causes of an error are."""
    if isinstance(error, RemoteError) and error.code == INVALID_PARAMS and _NO_TOOL in error.message:
        hint = "" if options.url is None else ", or only an operator's key can use it"
        return SettingsError(f"this hub has no {tool}: the part is not switched on in its settings{hint}")
    if options.url is None:
        return error
    if isinstance(error, LoginRequired):
        return SettingsError(
            f"{options.url} requires a login or a key with the scope hub:admin: run `hubbub login "
            f"{_admin_url(options.url)} --scope hub:admin`, or give --key '${{NAME}}', which reads the variable NAME"
        )
    if not isinstance(error, HttpError | RemoteError):
        return error
    if error.status == _UNAUTHORIZED:
        problem = "requires a key" if options.key is None else "does not accept this key"
        return SettingsError(
            f"{options.url} {problem}; give one with the scope hub:admin: --key '${{NAME}}' reads the variable NAME"
        )
    if error.status == _NOT_FOUND:
        return SettingsError(
            f"{options.url} does not serve administration to this key; check the URL, and that the key has the scope "
            "hub:admin"
        )
    return error


class _ErrorDetails(msgspec.Struct):
    message: str


class _Failure(msgspec.Struct):
    error: _ErrorDetails


def _error_message(result: ToolResult) -> str:
    """The message of an error, whose JSON is in the text if the tool has an output schema."""
    content = result.content if isinstance(result.content, list) else []
    text = "; ".join(part.text for part in content if isinstance(part, Text))
    try:
        if isinstance(result.structured_content, dict):
            return msgspec.convert(result.structured_content, _Failure).error.message
        return msgspec.json.decode(text, type=_Failure).error.message
    except msgspec.DecodeError:
        return text


def _make_client(options: AdminOptions) -> Client:
    if options.url is not None:
        if options.hub is not None:
            raise SettingsError("give either --hub or --url, not both")
        headers = {} if options.key is None else {"X-API-Key": _read_key(options.key)}
        config = ServerConfig(
            id="hub",
            transport="streamable_http",
            url=_admin_url(options.url),
            headers=headers,
            timeout_s=bounds.COMMAND_TIMEOUT_S,
        )
        return Client(config if options.key is not None else use_stored_login(config))
    if options.key is not None:
        raise SettingsError("--key is for --url: at the hub's own socket, the user is checked instead")
    path = _choose_socket(options.hub)
    config = ServerConfig(id="hub", transport="streamable_http", url=_LOCAL_URL, timeout_s=bounds.COMMAND_TIMEOUT_S)
    return Client(config, link=partial(open_transport, connect=partial(_connect, path)))


def _connect(path: str) -> socket.socket:
    """Connect to a Unix socket, which does not block.

    Raises: OSError.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.setblocking(False)
    try:
        connected.connect(path)
    except BaseException:
        connected.close()
        raise
    return connected


def _choose_socket(wanted: str | None) -> str:
    hubs = [hub for hub in running_hubs() if hub.address != "stdio"]
    if wanted not in (None, _AUTO):
        found = [hub for hub in hubs if wanted in (str(hub.pid), hub.address)]
        if not found:
            raise SettingsError(f"--hub: no hub {wanted!r} is running on this machine; running: {_format_hubs(hubs)}")
        hubs = found[:1]
    if not hubs:
        raise SettingsError("no hub is running on this machine; start one with `hubbub serve`, or give --url and --key")
    if len(hubs) > 1:
        raise SettingsError(f"several hubs are running on this machine; choose one with --hub: {_format_hubs(hubs)}")
    if hubs[0].socket is None:
        raise SettingsError(
            f"the hub at {hubs[0].address} has no socket for administration; its log says why. Give --url and --key"
        )
    return hubs[0].socket


def _format_hubs(hubs: list[RunningHub]) -> str:
    return ", ".join(f"{hub.pid} ({hub.address})" for hub in hubs) or "none"


def _read_key(text: str) -> Secret:
    variable = _VARIABLE.fullmatch(text)
    if variable is None:
        return Secret(text)
    value = os.environ.get(variable[1])
    if not value:
        raise SettingsError(f"--key: the variable {variable[1]} is not set")
    return Secret(value)


def _admin_url(url: str) -> str:
    """The URL of administration: `https://host`, `https://host/mcp` and the full URL are accepted."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not path.endswith(_PATH):
        path = path.removesuffix("/mcp") + _PATH
    return urlunsplit(parts._replace(path=path))
