"""Converts entries of clients to sections `[servers.NAME]` of `hubbub.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hubbub import bounds
from hubbub.assembly.server_config import make_server_config
from hubbub.errors import SettingsError
from hubbub.install.clients import Client
from hubbub.install.secret_values import StoredSecrets, make_variable_name
from hubbub.protocol.http_headers import RESERVED_HEADERS
from hubbub.settings import Sources, read_settings
from hubbub.settings.file import SettingsFile
from hubbub.settings.servers import ServerSettings
from hubbub.settings.sources import SERVERS

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE: Final = re.compile(
    rf"\$\{{(?P<env>env:)?(?P<name>{_NAME})(?P<default>:-[^{{}}]*)?\}}|\{{env:(?P<brace>{_NAME})\}}"
    r"|\$\{input:(?P<input>[^{}]+)\}"
)
_HOME: Final = "userHome"
_BARE_REFERENCE: Final = re.compile(rf"\$(?P<name>{_NAME})")
_CLIENT_VARIABLE: Final = re.compile(r"\$\{[^{}]*\}?|\{file:[^{}]*\}")
_TRANSPORTS: Final = {
    "http": None,
    "local": None,
    "remote": None,
    "sse": "sse",
    "stdio": None,
    "streamable-http": None,
    "streamable_http": None,
    "streamableHttp": None,
    "websocket": "websocket",
    "ws": "websocket",
}
"""The transport for each type of an entry; None: the default for a URL or a command."""
_BUILT_IN: Final = ("builtin", "frontend", "inline_python", "platform")
_SSE_BY_DEFAULT: Final = ("cline", "gemini")
"""Clients that use HTTP+SSE for a `url` without a type."""


class EntryReader:
    """Reads the entries of one client."""

    def __init__(self, client: Client, secrets: StoredSecrets, home: Path) -> None:
        self._client = client
        self._secrets = secrets
        self._home = home
        self.missing: list[str] = []
        """Variables that entries refer to and that are not set."""

    def convert(self, name: str, entry: Any) -> dict[str, Any]:
        """Return the section for an entry, with references instead of secrets.

        Raises: SettingsError, with the reason why a hub could not serve it.
        """
        if not isinstance(entry, dict):
            raise SettingsError("is not an object")
        if isinstance(command := entry.get("command"), dict):  # The form of older versions of Zed.
            entry = {**entry, **command, "command": command.get("path")}
        self._check_size(entry)
        kind = entry.get("type", entry.get("transport"))
        if kind in _BUILT_IN:
            raise SettingsError(f"is built into {self._client.title}")
        if kind is not None and (not isinstance(kind, str) or kind not in _TRANSPORTS):
            raise SettingsError(f"has the unknown type {str(kind)[:40]!r}")
        url = _first(entry, "httpUrl", "serverUrl", "url", "uri")
        section = self._remote_section(name, entry, url) if url is not None else self._stdio_section(name, entry)
        if isinstance(timeout := entry.get("tool_timeout_sec"), int | float) and timeout > 0:
            section["timeout_s"] = timeout
        if entry.get("enabled") is False or entry.get("disabled") is True:
            section["enabled"] = False
        self._check(name, section)
        return section

    def _check_size(self, entry: dict[str, Any]) -> None:
        """Fail if it has too many values. Secrets are named one after the other, which takes quadratic time."""
        lists = [value for value in entry.values() if isinstance(value, dict | list)]
        if sum(map(len, lists)) > bounds.IMPORTED_VALUES:
            raise SettingsError(f"has more than {bounds.IMPORTED_VALUES} arguments, variables and headers")

    def _remote_section(self, name: str, entry: dict[str, Any], url: Any) -> dict[str, Any]:
        secrets = self._secrets
        section: dict[str, Any] = {"url": secrets.protect_url(name, self._translate(_require_text("url", url)))}
        transport = _TRANSPORTS[entry.get("type", entry.get("transport")) or "http"]
        if "type" not in entry and "httpUrl" not in entry and self._client.name in _SSE_BY_DEFAULT:
            transport = "sse"
        if transport is not None:
            section["transport"] = transport
        headers = self._read_texts(entry, "headers", "http_headers")
        headers |= {key: self._refer(value) for key, value in self._read_texts(entry, "env_http_headers").items()}
        if isinstance(variable := entry.get("bearer_token_env_var"), str):
            headers["Authorization"] = f"Bearer {self._refer(variable)}"
        # Some users write `Accept` into their entry; the transport sets it anyway, and refuses another.
        headers = {key: text for key, text in headers.items() if key.lower() not in RESERVED_HEADERS}
        if headers:
            section["headers"] = {key: secrets.protect_header(name, key, text) for key, text in headers.items()}
        return section

    def _stdio_section(self, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        command = _first(entry, "command", "cmd")
        if not command:
            raise SettingsError("has neither a command nor a URL")
        program, *rest = command if isinstance(command, list) else [command]
        arguments = entry.get("args") or []
        if not isinstance(arguments, list):
            raise SettingsError("has args that are not a list")
        texts = [self._translate(_require_text("args", each)) for each in (*rest, *arguments)]
        section: dict[str, Any] = {"command": self._translate(_require_text("command", program))}
        if texts:
            section["args"] = self._secrets.protect_arguments(name, texts)
        variables = self._read_texts(entry, "env", "environment", "envs")
        section_env = {key: self._secrets.protect_variable(name, key, text) for key, text in variables.items()}
        for key in (*_list_names(entry.get("env_vars")), *_list_names(entry.get("env_keys"))):
            section_env.setdefault(key, self._refer(key))
        if section_env:
            section["env"] = section_env
        if entry.get("cwd") is not None:
            section["cwd"] = self._translate(_require_text("cwd", entry["cwd"]))
        return section

    def _read_texts(self, entry: dict[str, Any], *keys: str) -> dict[str, str]:
        found = _first(entry, *keys) or {}
        if not isinstance(found, dict):
            raise SettingsError(f"has {keys[0]}, but not as an object")
        return {str(key): self._translate(_require_text(f"{keys[0]}.{key}", value)) for key, value in found.items()}

    def _translate(self, text: str) -> str:
        """Write references to variables as Hubbub does: `${NAME}`."""
        parts: list[str] = []
        at = 0
        for found in _REFERENCE.finditer(text):
            parts += [self._translate_plain(text[at : found.start()]), self._translate_reference(found)]
            at = found.end()
        return "".join([*parts, self._translate_plain(text[at:])])

    def _translate_reference(self, found: re.Match[str]) -> str:
        if found["name"] and not found["env"] and self._client.reference == "${env:NAME}":
            if found["name"] == _HOME:
                return str(self._home)
            raise self._foreign_error(found[0])  # A name that only the client defines: `${workspaceFolder}`.
        name = found["name"] or found["brace"] or make_variable_name(found["input"])
        if not found["default"]:
            return self._refer(name)
        stored = self._secrets.store_default(name, found["default"].removeprefix(":-"))
        return stored or f"${{{name}{found['default']}}}"

    def _translate_plain(self, text: str) -> str:
        foreign = _CLIENT_VARIABLE.search(text)
        if foreign is not None:
            raise self._foreign_error(foreign[0])
        if self._client.name != "gemini":
            return text
        return _BARE_REFERENCE.sub(lambda found: self._refer(found["name"]), text)

    def _refer(self, name: str) -> str:
        """Refer to a variable of the user. If it is not set, the server gets an empty value; the hub still starts."""
        if self._secrets.find(name) is None and name not in self.missing:
            self.missing.append(name)
        return f"${{{name}:-}}"

    def _foreign_error(self, reference: str) -> SettingsError:
        return SettingsError(f"uses {reference}, which only {self._client.title} can expand")

    def _check(self, name: str, section: Mapping[str, Any]) -> None:
        """Raise the error that `hubbub serve` would raise for this section."""
        tree = {SERVERS: {name: dict(section)}}
        sources = Sources(file=SettingsFile("", "", tree))
        try:
            settings = read_settings(ServerSettings, sources, (SERVERS, name))
            make_server_config(name, settings, self._secrets.all())
        except SettingsError as error:
            problem = error.message.removeprefix(f"server {name!r}: ").removeprefix(f": {SERVERS}.{name}.")
            raise SettingsError(f"is invalid: {problem}") from None
        except UnicodeEncodeError:
            raise SettingsError("is invalid: it contains a lone surrogate") from None


def _first(entry: dict[str, Any], *keys: str) -> Any:
    return next((entry[key] for key in keys if entry.get(key)), None)


def _list_names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _require_text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise SettingsError(f"has a value of `{key}` that is not text")
    if "\0" in value:
        raise SettingsError(f"has a value of `{key}` with a NUL character")
    return value
