"""The part of `hubbub doctor` about MCP clients: what is registered there, whether it starts, and what to do."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.cli.exit_codes import replace_controls
from hubbub.client.client import Client as McpClient
from hubbub.client.config import ServerConfig
from hubbub.errors import HubbubError, SettingsError
from hubbub.install.clients import Client, detect_clients, split_installations
from hubbub.install.documents import find_entry, parse
from hubbub.install.entries import ServerEntry, read_entries, read_entry
from hubbub.install.files import read_file
from hubbub.install.hubbub_entry import DEFAULT_NAME
from hubbub.install.machine import Machine
from hubbub.install.records import Records
from hubbub.security.redact import redact
from hubbub.server.pack import Check

_OWN_NAMES: Final = (DEFAULT_NAME, "vdo-ninja-mcp")
_SHOWN_NAMES: Final = 5
_REFERENCE: Final = re.compile(r"\$\{(\w+)\}")


async def check_clients(machine: Machine) -> list[Check]:
    """Check every client that is found. Entries of Hubbub in the user's own files are started, all at the same time.

    Those in files of the working folder are not: they may have come with a repository that was cloned.
    """
    clients = split_installations(detect_clients(machine), machine)
    checks = [(client, check) for client in clients for check in _check_client(client, machine)]
    return list(await asyncio.gather(*(_complete_check(client, check) for client, check in checks)))


async def _complete_check(client: Client, check: Check | tuple[Client, ServerEntry]) -> Check:
    completed = check if isinstance(check, Check) else await _check_entry(*check)
    if client.installation is None:
        return completed
    return msgspec.structs.replace(completed, detail=f"{completed.detail} [{client.installation}]")


def _check_client(client: Client, machine: Machine) -> list[Check | tuple[Client, ServerEntry]]:
    try:
        own, others = _read_user_file(client, machine)
        in_project = [each for each in _read_project(client, machine) if _is_own(each)]
    except SettingsError as error:
        return [Check(client.name, False, error.message, "correct the file, then run `hubbub install` again")]
    found: list[Check | tuple[Client, ServerEntry]] = [(client, each) for each in own]
    for each in in_project:
        detail = f"{each.name}: registered in the project file of this folder, not started"
        found.append(Check(client.name, True, detail))
    if not found:
        detail = f"hubbub is not registered{f' ({_list_names(others)})' if others else ''}"
        return [Check(client.name, False, detail, f"hubbub install --client {client.name}", optional=True)]
    if others:
        found.append(Check(client.name, True, f"{_list_names(others)}, not started"))
    return found


def _list_names(servers: Sequence[ServerEntry]) -> str:
    names = [replace_controls(each.name[:40]) for each in servers[:_SHOWN_NAMES]]
    more = f" and {len(servers) - _SHOWN_NAMES} more" if len(servers) > _SHOWN_NAMES else ""
    return f"{len(servers)} other server{'s' if len(servers) != 1 else ''}: {', '.join(names)}{more}"


def _read_user_file(client: Client, machine: Machine) -> tuple[list[ServerEntry], list[ServerEntry]]:
    """Return the entries of Hubbub in the user's own file, and those of others."""
    path = client.path(machine)
    values = _parse_file(client, path)
    servers = list(read_entries(client, values))
    if client.name == "claude-code":  # The scope `local`, where `vdon-mcp-install` registers by default.
        local = find_entry(values, ("projects", str(machine.folder), *client.key))
        entries = local.items() if isinstance(local, dict) else ()
        servers += [found for name, entry in entries if (found := read_entry(str(name), entry)) is not None]
    records = Records(read_file(path).target)
    own = [each for each in servers if _is_own(each) or records.find(each.name) is not None]
    return own, [each for each in servers if each not in own]


def _read_project(client: Client, machine: Machine) -> list[ServerEntry]:
    if not client.project or client.path(machine, "project").resolve() == client.path(machine).resolve():
        return []  # In the home folder, both scopes of some clients use the same file.
    return list(read_entries(client, _parse_file(client, client.path(machine, "project"))))


def _parse_file(client: Client, path: Path) -> dict[str, Any]:
    file = read_file(path)
    try:
        return parse(file.text, client.format)
    except SettingsError as error:
        raise SettingsError(f"{file.path}: {error.message}") from None


def _is_own(server: ServerEntry) -> bool:
    return server.name in _OWN_NAMES or server.is_hubbub()


async def _check_entry(client: Client, server: ServerEntry) -> Check:
    name = "" if server.name == DEFAULT_NAME else f" --name {server.name}"
    again = (
        "register it again with `hubbub install` and the same options, or remove it with "
        f"`hubbub install --uninstall --client {client.name}{name}`"
    )
    if not server.is_enabled:
        return Check(client.name, False, f"{server.name}: registered, but disabled", f"enable it in {client.title}")
    try:
        config = _make_config(server)
        async with asyncio.timeout(bounds.CLIENT_START_TIMEOUT_S), McpClient(config) as connection:
            tools = await connection.tools()
    except _MissingVariable as error:
        advice = f"set it in the environment of {client.title}"
        return Check(client.name, False, f"{server.name}: the variable {error.message} is not set", advice)
    except TimeoutError:
        detail = f"{server.name}: did not start within {bounds.CLIENT_START_TIMEOUT_S:g} s"
        return Check(client.name, False, detail, again)
    except HubbubError as error:
        advice = "check that the hub runs at this URL" if server.is_remote else again
        return Check(client.name, False, f"{server.name}: {redact(error.message)}", advice)
    verb = "answers" if server.is_remote else "starts"
    return Check(
        client.name, True, f"{server.name}: registered and {verb} ({len(tools)} tool{'s' if len(tools) != 1 else ''})"
    )


class _MissingVariable(HubbubError):
    """A variable that an entry refers to is not set; the message is its name."""


def _make_config(server: ServerEntry) -> ServerConfig:
    timeout_s = bounds.CLIENT_START_TIMEOUT_S
    if server.url is not None:
        headers = {name: _fill(value) for name, value in server.headers.items()}
        if server.key_variable is not None:
            headers["Authorization"] = f"Bearer {_variable(server.key_variable)}"
        return ServerConfig(
            id=server.name, transport="streamable_http", url=server.url, headers=headers, timeout_s=timeout_s
        )
    env = {name: _fill(value) for name, value in server.env.items()}
    env |= {name: _variable(name) for name in server.variables}
    command, *arguments = server.command
    return ServerConfig(id=server.name, command=command, args=arguments, env=env, timeout_s=timeout_s)


def _fill(text: str) -> str:
    return _REFERENCE.sub(lambda found: _variable(found[1]), text)


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise _MissingVariable(name)
    return value
