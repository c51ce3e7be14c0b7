"""Entries of servers in the form of each client: written from shapes with placeholders, and read back.

A text that is one placeholder is replaced by its value, and `"{args}"` in a list by its items. A member whose value
is empty is left out, for example `env` without variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.install.clients import Client
from hubbub.install.documents import find_entry

_REFERENCE: Final = re.compile(
    r"(?:\$\{\s*(?:env:)?|\{env:)(?P<name>[A-Za-z_]\w*)(?::-[^{}]*)?\s*\}|(?:^|(?<=\s))\$(?P<bare>[A-Za-z_]\w*)$"
)
_URL_KEYS: Final = ("url", "serverUrl", "httpUrl", "uri")
_COMMAND_KEYS: Final = ("command", "cmd")
_EMPTY: Final[tuple[Any, ...]] = ({}, [], None, "")


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server as clients start or reach it, without the form of a client."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty for a remote server."""
    env: Mapping[str, str] = {}
    """Variables with values that are not secret, such as paths."""
    variables: tuple[str, ...] = ()
    """Variables that the client takes from its own environment."""
    url: str | None = None
    headers: Mapping[str, str] = {}
    """Headers; references to variables are written `${NAME}`."""
    key_variable: str | None = None
    """The variable that holds the bearer token of a remote server."""
    is_enabled: bool = True

    @property
    def is_remote(self) -> bool:
        return self.url is not None

    def is_hubbub(self) -> bool:
        """Whether the command runs Hubbub."""
        programs = {part.replace("\\", "/").rpartition("/")[2].removesuffix(".exe") for part in self.command[:1]}
        return bool(programs & {"hubbub", "vdo-mcp-server"}) or ("-m", "hubbub") in pairwise(self.command)


def format_entry(client: Client, server: ServerEntry) -> dict[str, Any]:
    """Return the entry of a server in the form of a client.

    Raises: SettingsError, if the client has no form for it.
    """
    shape = client.remote if server.is_remote else client.stdio
    if shape is None:
        raise SettingsError(
            f"{client.title} does not support remote servers in its file; register a command, without --url"
        )
    entry: dict[str, Any] = _fill(shape, placeholder_values(client, server))
    return entry


def keep_user_keys(client: Client, existing: Any, entry: dict[str, Any]) -> dict[str, Any]:
    """Add to a new entry what the user set in the old one: unknown keys, numbers and switches."""
    written = {**client.stdio, **(client.remote or {}), **dict.fromkeys((*_URL_KEYS, *_COMMAND_KEYS, "args"), "")}
    items = existing.items() if isinstance(existing, dict) else ()
    return entry | {key: value for key, value in items if isinstance(written.get(key, 0), int)}


def missing_variables(client: Client, server: ServerEntry) -> tuple[str, ...]:
    """Return the variables that an entry of this client cannot refer to."""
    return () if client.reference or client.names_variables else server.variables


def placeholder_values(client: Client, server: ServerEntry) -> dict[str, Any]:
    """Return the values of the placeholders in shapes.

    Raises: SettingsError, if the client cannot refer to the variable that holds the key.
    """
    env = dict(server.env)
    if client.reference is not None and not client.names_variables:
        env |= {name: client.reference.replace("NAME", name) for name in server.variables}
    headers = dict(server.headers)
    if server.key_variable is not None and "{key_variable}" not in str(client.remote):
        if client.reference is None:
            raise SettingsError(
                f"{client.title} cannot refer to the variable {server.key_variable}, and secrets are never written; "
                "leave out --key-env, or register the stdio server there"
            )
        headers["Authorization"] = f"Bearer {client.reference.replace('NAME', server.key_variable)}"
    return {
        "{name}": server.name,
        "{description}": "Tools of Hubbub",
        "{command}": server.command[0] if server.command else "",
        "{args}": list(server.command[1:]),
        "{env}": env,
        "{variables}": [*server.variables, *([server.key_variable] if server.key_variable else [])],
        "{url}": server.url,
        "{headers}": headers,
        "{key_variable}": server.key_variable,
    }


def _fill(shape: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(shape, str):
        return values.get(shape, shape)
    if isinstance(shape, Mapping):
        filled = {key: _fill(item, values) for key, item in shape.items()}
        return {key: item for key, item in filled.items() if key in ("args", "description") or item not in _EMPTY}
    if isinstance(shape, list):
        return [item for each in shape for item in (values["{args}"] if each == "{args}" else [_fill(each, values)])]
    return shape


def container_path(client: Client, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where the servers are in a parsed file of this client."""
    nested = find_entry(values, client.nested_key) if client.nested_key is not None else None
    # A server may have the name of the nested key; then its members are not all objects.
    is_nested = isinstance(nested, dict) and all(isinstance(each, dict) for each in nested.values())
    return client.nested_key if client.nested_key is not None and is_nested else client.key


def read_entries(client: Client, values: Mapping[str, Any]) -> Iterator[ServerEntry]:
    """Yield the servers in a parsed file of this client; what is not a server is left out."""
    servers = find_entry(values, container_path(client, values))
    for name, entry in (servers if isinstance(servers, dict) else {}).items():
        found = read_entry(str(name), entry)
        if found is not None:
            yield found


def read_entry(name: str, entry: Any) -> ServerEntry | None:
    """Read an entry of any client; None if it has neither a command nor a URL."""
    if not isinstance(entry, dict):
        return None
    url = _first(entry, *_URL_KEYS)
    command = _first(entry, *_COMMAND_KEYS)
    if not isinstance(url, str):
        url = None
        command = list(command) if isinstance(command, list) else [command] if isinstance(command, str) else []
        if not command:
            return None
    named = [*_texts(entry.get("env_vars")), *_texts(entry.get("env_keys"))]
    key = entry.get("bearer_token_env_var")
    headers = _first(entry, "headers", "http_headers")
    return ServerEntry(
        name=name,
        command=() if url else tuple(map(str, [*command, *_texts(entry.get("args"))])),
        env=_normalize(_first(entry, "env", "environment", "envs")),
        variables=tuple(named),
        url=url,
        headers=_normalize(headers) | _header_references(entry.get("env_http_headers")),
        key_variable=key if isinstance(key, str) else None,
        is_enabled=entry.get("enabled") is not False and entry.get("disabled") is not True,
    )


def _first(entry: dict[str, Any], *keys: str) -> Any:
    return next((entry[key] for key in keys if entry.get(key)), None)


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _normalize(values: Any) -> dict[str, str]:
    """Write references to variables as `${NAME}`, whatever the client calls them."""
    texts = {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else {}
    return {
        key: _REFERENCE.sub(lambda found: f"${{{found['name'] or found['bare']}}}", text) for key, text in texts.items()
    }


def _header_references(names: Any) -> dict[str, str]:
    return {str(key): f"${{{name}}}" for key, name in names.items()} if isinstance(names, dict) else {}
