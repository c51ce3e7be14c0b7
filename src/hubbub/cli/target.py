"""Resolves `TARGET` to the config of a server.

    https://example.com/mcp     a URL
    -- npx some-server          a command: everything after `--`
    file.py, module:server      a Python program, served by a child process
    NAME                        of `--mcp-json`, of `[servers.NAME]` in hubbub.toml, or of a pack

Does not connect. Used by every command with servers.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from hubbub import bounds
from hubbub.assembly.servers import reached_by
from hubbub.client.config import ServerConfig
from hubbub.client.mcp_json import read_mcp_json
from hubbub.errors import SettingsError
from hubbub.hub.config import alone
from hubbub.settings import Secret, Sources, gather, nearest, read_settings
from hubbub.settings.servers import ServerSettings
from hubbub.settings.sources import SERVERS

_ADDRESS: Final = re.compile(r"(https?|wss?)://", re.IGNORECASE)
_PROGRAM: Final = re.compile(r".+\.py(:[^\W\d]\w*)?|[^\W\d][\w.]*:[^\W\d]\w*")
_HOST_AND_PORT: Final = re.compile(r"[\w.-]+:\d+(/|$)|localhost(/|$)")
_UNNAMED: Final = "server"


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The options for a server, besides its target."""

    config: str | None = None
    mcp_json: str | None = None
    headers: Mapping[str, Secret] = {}
    variables: Mapping[str, Secret] = {}
    timeout_s: float | None = None
    protocol_version: str | None = None
    allow_private_network: bool = False


def config_of(target: str | Sequence[str], where: Where) -> ServerConfig:
    """Return the config of the server that a target names; a sequence is a command with its arguments.

    Raises:
        SettingsError: there is no such server, or the options do not fit it.
    """
    found = _find(target, where)
    changes: dict[str, Any] = {}
    if where.headers:
        kept = {name.lower() for name in where.headers}
        changes["headers"] = {k: v for k, v in found.headers.items() if k.lower() not in kept} | dict(where.headers)
    if where.variables:
        changes["env"] = {**found.env, **where.variables}
    if where.protocol_version is not None:
        changes["protocol_version"] = where.protocol_version
    if where.allow_private_network:
        changes["allow_private_network"] = True
    if where.timeout_s is not None:
        changes["timeout_s"] = where.timeout_s
    return replace(found, **changes)


def _find(target: str | Sequence[str], where: Where) -> ServerConfig:
    if not isinstance(target, str):
        return _of_command(target)
    if _ADDRESS.match(target):
        transport = "websocket" if target.lower().startswith("ws") else "streamable_http"
        return ServerConfig(id=_UNNAMED, transport=transport, url=target, timeout_s=bounds.COMMAND_S)
    if _PROGRAM.fullmatch(target):
        return _of_program(target, where)
    return _named(target, where)


def _of_command(command: Sequence[str]) -> ServerConfig:
    program, *arguments = command
    return ServerConfig(id=_UNNAMED, command=program, args=arguments, timeout_s=bounds.COMMAND_S)


def _of_program(target: str, where: Where) -> ServerConfig:
    place = target if target.endswith(".py") else target.rpartition(":")[0]
    if place.endswith(".py") and not Path(place).is_file():
        raise SettingsError(f"there is no file {place!r} here ({Path.cwd()})")
    return _served([target], where, id=re.sub(r"\W+", "_", Path(place).stem))


def _served(what: Sequence[str], where: Where, *, id: str) -> ServerConfig:
    """Serve it in a child process, with the whole environment, as if the user had typed `hubbub serve`."""
    if where.config is not None:
        what = [*what, "--config", where.config]
    # -P: `-m` alone would import files of this folder that are named like one of our libraries.
    arguments = ["-P", "-m", "hubbub", "serve", *what, "--alone", "--transport", "stdio"]
    return ServerConfig(id=id, command=sys.executable, args=arguments, env=os.environ, timeout_s=bounds.COMMAND_S)


def _named(name: str, where: Where) -> ServerConfig:
    known: list[str] = []
    if where.mcp_json is not None:
        listed = {config.id: config for config in read_mcp_json(where.mcp_json)}
        if name in listed:
            return replace(alone(listed[name]), timeout_s=bounds.COMMAND_S)
        known += listed
    sources = gather({} if where.config is None else {"--config": where.config}, drops_untrusted=True)
    sections = sources.file.table((SERVERS,)) if sources.file is not None else {}
    if name in sections:
        return _of_section(name, sources, where)
    if any(key[:2] == (SERVERS, name) for key in sources.refused):
        sources.require_trust()
    from hubbub.assembly.entries import find_packs

    packs = find_packs()
    if name in packs:
        packs[name].runnable()
        return _served(["--pack", name], where, id=name)
    raise _unknown(name, [*known, *sections, *packs])


def _of_section(name: str, sources: Sources, where: Where) -> ServerConfig:
    settings = read_settings(ServerSettings, sources, (SERVERS, name))
    if settings.pack is not None:
        return _served(["--pack", settings.pack], where, id=name)
    if settings.target is not None:
        return _served([settings.target], where, id=name)
    return reached_by(name, settings)


def _unknown(name: str, known: Sequence[str]) -> SettingsError:
    if _HOST_AND_PORT.match(name):
        return SettingsError(f"{name!r} is no server; an address begins with http:// or https://, as http://{name}")
    if Path(name).exists() or " " in name:
        return SettingsError(f"{name!r} is no server; to start a program, write it after `--`, as -- {name}")
    return SettingsError(
        f"there is no server {name!r} in hubbub.toml, --mcp-json or the packs{nearest(name, known)}; "
        "or give an address (https://…), file.py, or a command after `--`"
    )
