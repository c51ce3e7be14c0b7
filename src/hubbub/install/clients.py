"""The table of MCP clients: where their configuration files are, and what an entry looks like there.

Checked against the clients' documentation and source in November 2026. If a client does not document how entries refer
to environment variables, `reference` is None, so that no reference is written that the client would not expand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.install.documents import Format
from hubbub.install.machine import Machine, path_exists
from hubbub.suggestions import format_suggestion

Shape = Mapping[str, Any]
"""An entry with placeholders, see `hubbub.install.entries`."""

_STDIO: Final[Shape] = {"command": "{command}", "args": ["{args}"], "env": "{env}"}
_TYPED_STDIO: Final[Shape] = {"type": "stdio", **_STDIO}
_REMOTE: Final[Shape] = {"url": "{url}", "headers": "{headers}"}
_TYPED_REMOTE: Final[Shape] = {"type": "http", **_REMOTE}
_CLINE_FOLDER: Final = "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
_CLINE: Final = ("{CLINE_MCP_SETTINGS_PATH}",)
_CLINE_CLI: Final = "{home}/.cline/data/settings/cline_mcp_settings.json"


class OwnCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to register with the client's own program.

    Placeholders as in a shape, and `{scope}`, `{json}` for the entry, `{options}` for variables and headers.
    """

    add: tuple[str, ...]
    add_remote: tuple[str, ...]
    remove: tuple[str, ...] | None = None
    get: tuple[str, ...] | None = None
    """Succeeds if there is an entry, which is then removed before it is added again."""
    env_option: str | None = None
    header_option: str | None = None
    key_option: str | None = None


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """One client."""

    name: str
    title: str
    user: Mapping[str, tuple[str, ...]]
    """Templates of paths for each operating system, `""` for all: the first that exists is used, else the first whose
    folder exists, else the first. One that begins with `?` counts only if its folder exists, and
    one that begins with a variable is the only one if that is set."""
    project: tuple[str, ...] = ()
    """The same below a project's folder; empty if it has no such file."""
    markers: tuple[str, ...] = ()
    """Folders besides that of the file that exist where the client is installed."""
    format: Format = "json"
    key: tuple[str, ...] = ("mcpServers",)
    nested_key: tuple[str, ...] | None = None
    """Where the servers are instead, if the file already has an object there."""
    stdio: Shape = msgspec.field(default_factory=lambda: _STDIO)
    remote: Shape | None = msgspec.field(default_factory=lambda: _REMOTE)
    """None if its file has no remote servers."""
    reference: str | None = None
    """How a value refers to an environment variable, with `NAME` for its name; None if it cannot."""
    names_variables: bool = False
    """Whether entries list the names of variables that the client passes to the server."""
    own_command: OwnCommand | None = None
    has_installations: bool = False
    """Whether the paths in `user` belong to separate installations, so that all of them are used that exist."""
    installation: Path | None = None
    """The user's file of this installation, if there are several."""

    def paths(self, machine: Machine, scope: str = "user") -> list[Path]:
        """Return the paths where its file may be.

        Raises: SettingsError, if it has no file of this scope.
        """
        if self.installation is not None and scope == "user":
            return [self.installation]
        templates = self.project if scope == "project" else self.user.get(machine.system) or self.user.get("", ())
        if not templates:
            raise SettingsError(f"{self.title} has no configuration file for projects; use --scope user")
        found = {template: machine.resolve(template.removeprefix("?")) for template in templates}
        moved = [path for template, path in found.items() if path is not None and template[1:2].isupper()]
        return moved or [
            path
            for template, path in found.items()
            if path is not None and (path_exists(path.parent) or not template.startswith("?"))
        ]

    def path(self, machine: Machine, scope: str = "user") -> Path:
        """Return the path of its file, whether it exists or not.

        Raises: SettingsError, if it has no file of this scope.
        """
        paths = self.paths(machine, scope)
        found = [path for path in paths if path_exists(path)] or [path for path in paths if path_exists(path.parent)]
        return (found or paths)[0]

    def split(self, machine: Machine) -> list[Client]:
        """Return one client for each installation that is found; itself, if there is only one file."""
        found: dict[str, Path] = {}
        for path in self.paths(machine) if self.has_installations else ():
            if path_exists(path) or path_exists(path.parent):
                found.setdefault(os.path.realpath(path), path)  # One may be a link to the other.
        if len(found) < 2:
            return [self]
        first, *others = (msgspec.structs.replace(self, installation=path) for path in found.values())
        return [first, *(msgspec.structs.replace(each, project=()) for each in others)]  # They share it.

    def is_found(self, machine: Machine) -> bool:
        """Whether it seems to be installed: its file, the folder of its file, or a marker exists."""
        places = [place for path in self.paths(machine) for place in (path, path.parent) if place != machine.home]
        places += [place for marker in self.markers if (place := machine.resolve(marker)) is not None]
        return any(map(path_exists, places))


CLIENTS: Final = (
    Client(
        name="claude-code",
        title="Claude Code",
        user={"": ("{CLAUDE_CONFIG_DIR}/.claude.json", "{home}/.claude.json")},
        project=(".mcp.json",),
        markers=("{home}/.claude",),
        stdio=_TYPED_STDIO,
        remote=_TYPED_REMOTE,
        reference="${NAME}",
        own_command=OwnCommand(
            add=("claude", "mcp", "add-json", "--scope", "{scope}", "{name}", "{json}"),
            add_remote=("claude", "mcp", "add-json", "--scope", "{scope}", "{name}", "{json}"),
            remove=("claude", "mcp", "remove", "--scope", "{scope}", "{name}"),
            get=("claude", "mcp", "get", "{name}"),
        ),
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        user={
            "linux": ("{config}/Claude/claude_desktop_config.json", "{config}/claude/claude_desktop_config.json"),
            "macos": ("{support}/Claude/claude_desktop_config.json",),
            "windows": (
                # Installations from the Store read a copy of the roaming folder.
                "?{local}/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json",
                "{roaming}/Claude/claude_desktop_config.json",
            ),
        },
        remote=None,
    ),
    Client(
        name="codex",
        title="Codex",
        user={"": ("{CODEX_HOME}/config.toml", "{home}/.codex/config.toml")},
        project=(".codex/config.toml",),
        format="toml",
        key=("mcp_servers",),
        # Codex waits 10 seconds by default, which a cold start on a busy machine may exceed.
        stdio={**_STDIO, "env_vars": "{variables}", "startup_timeout_sec": 30},
        remote={"url": "{url}", "bearer_token_env_var": "{key_variable}"},
        names_variables=True,
        own_command=OwnCommand(
            add=("codex", "mcp", "add", "{name}", "{options}", "--", "{command}", "{args}"),
            add_remote=("codex", "mcp", "add", "{name}", "--url", "{url}", "{options}"),
            remove=("codex", "mcp", "remove", "{name}"),
            get=("codex", "mcp", "get", "{name}"),
            env_option="--env",
            key_option="--bearer-token-env-var",
        ),
    ),
    Client(
        name="cursor",
        title="Cursor",
        user={"": ("{home}/.cursor/mcp.json",)},
        project=(".cursor/mcp.json",),
        reference="${env:NAME}",
    ),
    Client(
        name="vscode",
        title="VS Code",
        user={
            "linux": ("{config}/Code/User/mcp.json", "{config}/Code - Insiders/User/mcp.json"),
            "macos": ("{support}/Code/User/mcp.json", "{support}/Code - Insiders/User/mcp.json"),
            "windows": ("{roaming}/Code/User/mcp.json", "{roaming}/Code - Insiders/User/mcp.json"),
        },
        project=(".vscode/mcp.json",),
        key=("servers",),
        stdio=_TYPED_STDIO,
        remote=_TYPED_REMOTE,
        reference="${env:NAME}",
        has_installations=True,
        own_command=OwnCommand(add=("code", "--add-mcp", "{json}"), add_remote=("code", "--add-mcp", "{json}")),
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        user={"": ("{home}/.codeium/windsurf/mcp_config.json",)},
        remote={"serverUrl": "{url}", "headers": "{headers}"},
        reference="${env:NAME}",
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        user={"": ("{home}/.gemini/settings.json",)},
        project=(".gemini/settings.json",),
        remote={"httpUrl": "{url}", "headers": "{headers}"},
        reference="${NAME}",
        own_command=OwnCommand(
            add=("gemini", "mcp", "add", "-s", "{scope}", "{options}", "{name}", "{command}", "--", "{args}"),
            add_remote=("gemini", "mcp", "add", "-s", "{scope}", "-t", "http", "{options}", "{name}", "{url}"),
            remove=("gemini", "mcp", "remove", "-s", "{scope}", "{name}"),
            env_option="-e",
            header_option="-H",
        ),
    ),
    Client(
        name="opencode",
        title="opencode",
        user={"": ("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc")},
        project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        key=("mcp",),
        nested_key=("mcp", "servers"),
        stdio={"type": "local", "command": ["{command}", "{args}"], "environment": "{env}"},
        remote={"type": "remote", **_REMOTE},
        reference="{env:NAME}",
    ),
    Client(
        name="zed",
        title="Zed",
        user={
            "linux": ("{config}/zed/settings.json",),
            "macos": ("{home}/.config/zed/settings.json",),
            "windows": ("{roaming}/Zed/settings.json",),
        },
        project=(".zed/settings.json",),
        key=("context_servers",),
    ),
    Client(
        name="goose",
        title="Goose",
        user={
            "linux": ("{config}/goose/config.yaml",),
            "macos": ("{home}/.config/goose/config.yaml",),
            "windows": ("{roaming}/Block/goose/config/config.yaml",),
        },
        format="yaml",
        key=("extensions",),
        stdio={
            "enabled": True,
            "type": "stdio",
            "name": "{name}",
            "description": "{description}",
            "cmd": "{command}",
            "args": ["{args}"],
            "envs": "{env}",
            "env_keys": "{variables}",
            "timeout": 300,
        },
        remote={
            "enabled": True,
            "type": "streamable_http",
            "name": "{name}",
            "description": "{description}",
            "uri": "{url}",
            "headers": "{headers}",
            "env_keys": "{variables}",
            "timeout": 300,
        },
        reference="${NAME}",
        names_variables=True,
    ),
    Client(
        name="cline",
        title="Cline",
        user={
            "linux": (*_CLINE, f"{{config}}/Code/{_CLINE_FOLDER}", f"{{config}}/Cursor/{_CLINE_FOLDER}", _CLINE_CLI),
            "macos": (*_CLINE, f"{{support}}/Code/{_CLINE_FOLDER}", f"{{support}}/Cursor/{_CLINE_FOLDER}", _CLINE_CLI),
            "windows": (
                *_CLINE,
                f"{{roaming}}/Code/{_CLINE_FOLDER}",
                f"{{roaming}}/Cursor/{_CLINE_FOLDER}",
                _CLINE_CLI,
            ),
        },
        has_installations=True,
        # Without a type, Cline uses HTTP+SSE for a URL.
        remote={"type": "streamableHttp", **_REMOTE},
        reference="${env:NAME}",
    ),
    Client(
        name="lmstudio",
        title="LM Studio",
        user={"": ("{home}/.lmstudio/mcp.json", "{home}/.cache/lm-studio/mcp.json")},
    ),
)


def find_client(name: str) -> Client:
    """Return the client of this name.

    Raises: SettingsError.
    """
    for client in CLIENTS:
        if client.name == name:
            return client
    raise SettingsError(f"unknown client {name!r}{format_suggestion(name, (client.name for client in CLIENTS))}")


def detect_clients(machine: Machine) -> list[Client]:
    """Return the clients that seem to be installed, in the order of the table."""
    return [client for client in CLIENTS if client.is_found(machine)]


def split_installations(clients: Iterable[Client], machine: Machine) -> list[Client]:
    """Replace each client of which several installations are found by one client for each of them."""
    return [each for client in clients for each in client.split(machine)]
