"""Reads server configurations of other clients: `mcpServers` of most, `servers` of VS Code.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "server-files"], "env": {"KEY": "${KEY}"}},
                    "remote": {"type": "http", "url": "https://example.com/mcp"}}}

`${NAME}`, `${NAME:-default}` and `${env:NAME}` are replaced from the environment. `"protocolVersion"` pins
the version to use, which old servers may need. Other keys of other clients (approvals, icons)
are ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.client.config import ServerConfig
from hubbub.errors import SettingsError

_VARIABLE: Final = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE_NAME: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_TYPES: Final = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable_http",
    "streamable-http": "streamable_http",
    "streamable_http": "streamable_http",
    "streamableHttp": "streamable_http",
    "remote": "streamable_http",
    "sse": "sse",
    "ws": "websocket",
    "websocket": "websocket",
}
_URL_KEYS: Final = ("url", "serverUrl", "httpUrl")


def read_mcp_json(path: str | Path, environ: Mapping[str, str] | None = None) -> list[ServerConfig]:
    """Read the servers of an `mcpServers` file, in its order, without disabled ones.

    Raises:
        SettingsError: it cannot be read; the message names the file, the server and the key.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return parse_mcp_json(text, environ)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error.message}") from None


def parse_mcp_json(text: str | bytes, environ: Mapping[str, str] | None = None) -> list[ServerConfig]:
    """Parse the text of such a file.

    Raises: SettingsError.
    """
    try:
        tree = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{_line_prefix(error, text)}invalid JSON: {error}") from None
    servers = _find_servers(tree)
    variables = os.environ if environ is None else environ
    return [
        _parse_entry(name, entry, variables)
        for name, entry in servers.items()
        if not (isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False))
    ]


def _line_prefix(error: Exception, text: str | bytes) -> str:
    """Return `line 3: `, from the byte offset in the error."""
    byte = re.search(r"\(byte (\d+)\)", str(error))
    data = text.encode(errors="replace") if isinstance(text, str) else text
    return "" if byte is None else f"line {data.count(10, 0, int(byte[1])) + 1}: "


def _find_servers(tree: Any) -> dict[str, Any]:
    if isinstance(tree, dict):
        nested = tree.get("mcp")
        in_settings = nested.get("servers") if isinstance(nested, dict) else None
        for found in (tree.get("mcpServers"), tree.get("servers"), in_settings):
            if isinstance(found, dict):
                return found
    raise SettingsError('the object "mcpServers" (or "servers") is missing; it maps names to servers')


def _parse_entry(name: str, entry: Any, variables: Mapping[str, str]) -> ServerConfig:
    if not isinstance(entry, dict):
        raise SettingsError(f"server {name!r}: must be an object")
    url_key = next((key for key in _URL_KEYS if entry.get(key)), None)
    fields: dict[str, Any] = {"id": name, "transport": _parse_transport(name, entry, url_key)}
    if url_key is not None:
        fields["url"] = _substitute_variables(entry[url_key], name, url_key, variables)
        fields["headers"] = _substitute_variables(entry.get("headers") or {}, name, "headers", variables)
    else:
        command = entry.get("command")
        command, *rest = command if isinstance(command, list) and command else [command]
        fields["command"] = _substitute_variables(command, name, "command", variables)
        fields["args"] = _substitute_variables([*rest, *(entry.get("args") or [])], name, "args", variables)
        fields["env"] = _substitute_variables(entry.get("env") or {}, name, "env", variables)
        fields["chdir"] = _substitute_variables(entry.get("cwd"), name, "cwd", variables)
    fields["protocol_version"] = _substitute_variables(entry.get("protocolVersion"), name, "protocolVersion", variables)
    try:
        return ServerConfig.coerce(fields)
    except SettingsError as error:
        raise SettingsError(f"server {name!r}: {error.message}") from None


def _parse_transport(name: str, entry: dict[str, Any], url_key: str | None) -> str:
    type_name = entry.get("type", entry.get("transport"))
    if type_name is None:
        if url_key is None:
            return "stdio"
        return "websocket" if str(entry[url_key]).startswith(("ws:", "wss:")) else "streamable_http"
    transport = _TYPES.get(str(type_name))
    if transport is None:
        raise SettingsError(f"server {name!r}: unknown type {type_name!r}; known: {', '.join(_TYPES)}")
    return transport


def _substitute_variables(value: Any, name: str, key: str, variables: Mapping[str, str]) -> Any:
    """Replace the variables in a value, at any depth."""
    if isinstance(value, dict):
        return {
            member: _substitute_variables(item, name, f"{key}.{member}", variables) for member, item in value.items()
        }
    if isinstance(value, list):
        return [_substitute_variables(item, name, key, variables) for item in value]
    if not isinstance(value, str):
        return value

    def substitute(found: re.Match[str]) -> str:
        variable = _VARIABLE_NAME.fullmatch(found[1])
        if variable is None:
            raise SettingsError(
                f"server {name!r}: {key} contains {found[0]}, which Hubbub cannot fill in; use ${{NAME}} for a variable"
            )
        text = variables.get(variable[1]) or variable[2]
        if text is None and variable[1] not in variables:
            raise SettingsError(
                f"server {name!r}: {key} needs the variable {variable[1]}, which is not set;"
                f" set it, or write ${{{variable[1]}:-default}}"
            )
        return text or ""

    return _VARIABLE.sub(substitute, value)
