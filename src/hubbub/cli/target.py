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
from hubbub.assembly.server_config import make_server_config
from hubbub.assembly.settings_checks import read_server_rules
from hubbub.client.config import ServerConfig
from hubbub.client.mcp_json import read_mcp_json
from hubbub.errors import SettingsError
from hubbub.hub.config import without_nested_hub
from hubbub.settings import Secret, Sources, collect_sources, format_suggestion, read_settings
from hubbub.settings.servers import ServerSettings
from hubbub.settings.sources import SERVERS

_ADDRESS: Final = re.compile(r"(https?|wss?)://", re.IGNORECASE)
_PROGRAM: Final = re.compile(r".+\.py(:[^\W\d]\w*)?|[^\W\d][\w.]*:[^\W\d]\w*")
_HOST_AND_PORT: Final = re.compile(r"[\w.-]+:\d+(/|$)|localhost(/|$)")
_DEFAULT_ID: Final = "server"


class UnknownServer(SettingsError):
    """No server has this name."""

    def __init__(self, message: str, sections: Sequence[str]) -> None:
        super().__init__(message)
        self.sections = sections
        """The names of [servers.NAME]."""


class TargetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options for a server, besides its target."""

    config: str | None = None
    mcp_json: str | None = None
    headers: Mapping[str, Secret] = {}
    variables: Mapping[str, Secret] = {}
    timeout_s: float | None = None
    protocol_version: str | None = None
    allow_private_network: bool = False


def resolve_target(target: str | Sequence[str], options: TargetOptions) -> ServerConfig:
    """Return the config of the server that a target names; a sequence is a command with its arguments.

    Raises:
        SettingsError: there is no such server, or the options do not fit it.
    """
    config = _resolve(target, options)
    changes: dict[str, Any] = {}
    if options.headers:
        replaced = {name.lower() for name in options.headers}
        changes["headers"] = {k: v for k, v in config.headers.items() if k.lower() not in replaced} | dict(
            options.headers
        )
    if options.variables:
        changes["env"] = {**config.env, **options.variables}
    if options.protocol_version is not None:
        changes["protocol_version"] = options.protocol_version
    if options.allow_private_network:
        changes["allow_private_network"] = True
    if options.timeout_s is not None:
        changes["timeout_s"] = options.timeout_s
    return use_stored_login(replace(config, **changes))


def use_stored_login(config: ServerConfig) -> ServerConfig:
    """Let a command use the login of this user at a server, unless other credentials are configured."""
    has_credentials = config.auth is not None or any(name.lower() == "authorization" for name in config.headers)
    if not config.is_remote or has_credentials or config.headers_provider is not None:
        return config
    from hubbub.oauth.client.credential_store import FileCredentialStore
    from hubbub.oauth.client.settings import OAuth
    from hubbub.oauth.metadata import show_url

    command = f"hubbub login {show_url(str(config.url))}"
    return replace(config, auth=OAuth(store=FileCredentialStore(), login_command=command))


def _resolve(target: str | Sequence[str], options: TargetOptions) -> ServerConfig:
    if not isinstance(target, str):
        return _command_config(target)
    if _ADDRESS.match(target):
        transport = "websocket" if target.lower().startswith("ws") else "streamable_http"
        return ServerConfig(id=_DEFAULT_ID, transport=transport, url=target, timeout_s=bounds.COMMAND_TIMEOUT_S)
    if _PROGRAM.fullmatch(target):
        return _program_config(target, options)
    return _named_config(target, options)


def _command_config(command: Sequence[str]) -> ServerConfig:
    program, *arguments = command
    return ServerConfig(id=_DEFAULT_ID, command=program, args=arguments, timeout_s=bounds.COMMAND_TIMEOUT_S)


def _program_config(target: str, options: TargetOptions) -> ServerConfig:
    path = target if target.endswith(".py") else target.rpartition(":")[0]
    if path.endswith(".py") and not Path(path).is_file():
        raise SettingsError(f"file {path!r} not found in {Path.cwd()}")
    return _serve_config([target], options, id=re.sub(r"\W+", "_", Path(path).stem))


def _serve_config(serve_arguments: Sequence[str], options: TargetOptions, *, id: str) -> ServerConfig:
    """Serve it in a child process, with the whole environment, as if the user had typed `hubbub serve`."""
    if options.config is not None:
        serve_arguments = [*serve_arguments, "--config", options.config]
    # -P: `-m` alone would import files of this folder that are named like one of our libraries.
    arguments = ["-P", "-m", "hubbub", "serve", *serve_arguments, "--alone", "--transport", "stdio"]
    return ServerConfig(
        id=id, command=sys.executable, args=arguments, env=os.environ, timeout_s=bounds.COMMAND_TIMEOUT_S
    )


def _named_config(name: str, options: TargetOptions) -> ServerConfig:
    known: list[str] = []
    if options.mcp_json is not None:
        by_id = {config.id: config for config in read_mcp_json(options.mcp_json)}
        if name in by_id:
            return replace(without_nested_hub(by_id[name]), timeout_s=bounds.COMMAND_TIMEOUT_S)
        known += by_id
    sources = collect_sources({} if options.config is None else {"--config": options.config}, ignore_untrusted=True)
    sections = sources.file.table((SERVERS,)) if sources.file is not None else {}
    if name in sections:
        return _section_config(name, sources, options)
    if any(key[:2] == (SERVERS, name) for key in sources.refused):
        sources.require_trust()
    from hubbub.assembly.pack_discovery import find_packs

    packs = find_packs()
    if name in packs:
        packs[name].require_runnable()
        return _serve_config(["--pack", name], options, id=name)
    raise _unknown_server(name, [*known, *sections, *packs], list(sections))


def _section_config(name: str, sources: Sources, options: TargetOptions) -> ServerConfig:
    settings = read_settings(ServerSettings, sources, (SERVERS, name))
    if settings.pack is not None:
        return _serve_config(["--pack", settings.pack], options, id=name)
    if settings.target is not None:
        return _serve_config([settings.target], options, id=name)
    return make_server_config(name, settings, rules=read_server_rules(sources))


def _unknown_server(name: str, known: Sequence[str], sections: Sequence[str]) -> SettingsError:
    if _HOST_AND_PORT.match(name):
        return SettingsError(f"unknown server {name!r}; a URL starts with http:// or https://, as in http://{name}")
    if Path(name).exists() or " " in name:
        message = f"unknown server {name!r}; to start a program, write it after `--`, as in -- {name}"
        return UnknownServer(message, sections)
    return UnknownServer(
        f"unknown server {name!r} (give a name from hubbub.toml or --mcp-json, a pack, a URL, file.py, or a command "
        f"after `--`){format_suggestion(name, known)}",
        sections,
    )
