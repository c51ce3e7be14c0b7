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
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.client.config import ServerConfig
from hubbub.errors import SettingsError
from hubbub.settings.secret import SecretTemplate
from hubbub.suggestions import format_suggestion

_VARIABLE: Final = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE_NAME: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_SECRET: Final = re.compile(r"secret:([A-Za-z0-9_-]+)")
_SECRET_KEYS: Final = ("headers.", "env.", "oauth.client_secret", "oauth.identity_provider.client_secret")
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


def read_mcp_json(
    path: str | Path, environ: Mapping[str, str] | None = None, secret_names: Collection[str] = ()
) -> list[ServerConfig]:
    """Read the servers of an `mcpServers` file, in its order, without disabled ones.

    Headers and variables may refer to secrets of these names; `ServerConfig.secrets` must then resolve them.

    Raises:
        SettingsError: it cannot be read; the message names the file, the server and the key.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return parse_mcp_json(text, environ, secret_names)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error.message}") from None


def parse_mcp_json(
    text: str | bytes, environ: Mapping[str, str] | None = None, secret_names: Collection[str] = ()
) -> list[ServerConfig]:
    """Parse the text of such a file; its headers and variables may refer to these secrets as `${secret:NAME}`.

    Raises: SettingsError.
    """
    try:
        tree = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{_line_prefix(error, text)}invalid JSON: {error}") from None
    servers = _find_servers(tree)
    substitution = _Substitution(os.environ if environ is None else environ, secret_names)
    return [
        _parse_entry(name, entry, substitution)
        for name, entry in servers.items()
        if not (isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False))
    ]


def expand_text(
    text: str, variables: Mapping[str, str], secret_names: Collection[str], *, server: str, key: str
) -> str | SecretTemplate:
    """Replace the variables in a value of a server, as in such a file.

    Raises: SettingsError.
    """
    found: str | SecretTemplate = _Substitution(variables, secret_names).apply(text, server, key)
    return found


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


def _parse_entry(name: str, entry: Any, substitution: _Substitution) -> ServerConfig:
    if not isinstance(entry, dict):
        raise SettingsError(f"server {name!r}: must be an object")
    url_key = next((key for key in _URL_KEYS if entry.get(key)), None)
    fields: dict[str, Any] = {"id": name, "transport": _parse_transport(name, entry, url_key)}
    if url_key is not None:
        fields["url"] = substitution.apply(entry[url_key], name, url_key)
        fields["headers"] = substitution.apply(entry.get("headers") or {}, name, "headers")
    else:
        command = entry.get("command")
        command, *rest = command if isinstance(command, list) and command else [command]
        fields["command"] = substitution.apply(command, name, "command")
        fields["args"] = substitution.apply([*rest, *(entry.get("args") or [])], name, "args")
        fields["env"] = substitution.apply(entry.get("env") or {}, name, "env")
        fields["chdir"] = substitution.apply(entry.get("cwd"), name, "cwd")
    fields["protocol_version"] = substitution.apply(entry.get("protocolVersion"), name, "protocolVersion")
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


class _Substitution:
    """Replaces variables in the values of entries; references to secrets stay, to be resolved when they are needed."""

    def __init__(self, variables: Mapping[str, str], secret_names: Collection[str]) -> None:
        self._variables = variables
        self._secret_names = secret_names

    def apply(self, value: Any, server: str, key: str) -> Any:
        """Replace the variables in a value, at any depth.

        Raises: SettingsError.
        """
        if isinstance(value, dict):
            return {member: self.apply(item, server, f"{key}.{member}") for member, item in value.items()}
        if isinstance(value, list):
            return [self.apply(item, server, key) for item in value]
        return self._apply_to_text(value, server, key) if isinstance(value, str) else value

    def _apply_to_text(self, text: str, server: str, key: str) -> str | SecretTemplate:
        literals, names, position = [""], [], 0
        for found in _VARIABLE.finditer(text):
            literals[-1] += text[position : found.start()]
            position = found.end()
            if (secret := _SECRET.fullmatch(found[1])) is not None:
                names.append(self._check_secret(secret[1], server, key))
                literals.append("")
            else:
                literals[-1] += self._find_variable(found, server, key)
        literals[-1] += text[position:]
        return SecretTemplate(literals, names) if names else literals[0]

    def _check_secret(self, secret: str, server: str, key: str) -> str:
        if not key.startswith(_SECRET_KEYS):
            raise SettingsError(
                f"server {server!r}: {key} refers to a secret; secrets can be used only in headers, env and "
                "the `client_secret` of oauth and oauth.identity_provider"
            )
        if secret not in self._secret_names:
            raise SettingsError(
                f"server {server!r}: {key} refers to the secret {secret!r}, which is not configured; "
                f"add [secrets.{secret}] to hubbub.toml{format_suggestion(secret, self._secret_names)}"
            )
        return secret

    def _find_variable(self, found: re.Match[str], server: str, key: str) -> str:
        variable = _VARIABLE_NAME.fullmatch(found[1])
        if variable is None:
            raise SettingsError(
                f"server {server!r}: {key} contains {found[0]}, which Hubbub cannot fill in; "
                "use ${NAME} for a variable, or ${secret:NAME} for a secret"
            )
        text = self._variables.get(variable[1]) or variable[2]
        if text is None and variable[1] not in self._variables:
            raise SettingsError(
                f"server {server!r}: {key} needs the variable {variable[1]}, which is not set;"
                f" set it, or write ${{{variable[1]}:-default}}"
            )
        return text or ""
