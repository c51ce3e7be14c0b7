"""The configuration of a hub, as one frozen value that can be compared with another.

`hubbub.assembly` makes it from the settings. `Gateway` is built from it, and `Gateway.apply` replaces it in a running
hub. Nothing here opens a connection or reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sized
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.hub.names import PrefixMode
from hubbub.server.views import RESTRICTED_VIEWS
from hubbub.settings import format_suggestion
from hubbub.settings.governance import NO_GOVERNANCE, GovernanceSettings
from hubbub.settings.hub import HubSettings, ViewSettings
from hubbub.settings.secret import Secret
from hubbub.settings.servers import ToolSettings

if TYPE_CHECKING:
    from hubbub.client.config import ServerConfig
    from hubbub.server.server import Server

HUB_ID: Final = "hub"
"""The id of the hub's own tools and resources among those of its servers."""
STATUS: Final = "hub.status"
SEARCH: Final = "hub.search"
CALL: Final = "hub.call"
READ_RESULT: Final = "hub.read_result"
CONNECT: Final = "hub.connect"
STATUS_URI: Final = "hub://status"
BUILTIN_TOOLS: Final = (STATUS, SEARCH, CALL, READ_RESULT, CONNECT)
"""Reserved names, which no server behind the hub gets."""
_ALONE_VARIABLE: Final = "HUBBUB_ALONE"
_VIEW_NAME: Final = re.compile(r"[a-z0-9-]{1,64}")
_RESERVED_VIEWS: Final = ("health", *RESTRICTED_VIEWS)
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server behind the hub: exactly one of `remote`, `pack`, `target` and `server` is given."""

    id: str
    remote: ServerConfig | None = None
    """How it is reached; its `timeout_s` is the deadline of one call."""
    pack: str | None = None
    """The name of an installed pack, for this process."""
    pack_settings: Any = None
    """The settings of that pack."""
    target: str | None = None
    """A program to load into this process."""
    profile: str | None = None
    """The profile of the pack or program to show, if it has one of that name."""
    server: Server | None = None
    """A server in this process."""
    timeout_s: float | None = None
    """The time limit of one call to a server in this process; None: the default."""
    max_calls: int = bounds.UPSTREAM_CALLS
    sessions: Literal["shared", "own"] = "shared"
    max_sessions: int = bounds.UPSTREAM_SESSIONS
    per_user: bool = False
    """Whether each user logs in at this server, with the `auth` of `remote`."""
    prefix: PrefixMode = "collision"
    prefix_text: str | None = None
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    read_only: bool = False
    tools: Mapping[str, ToolSettings] = _EMPTY
    """By the tool's own name on its server."""
    origin: str = ""
    """Where it is configured, for messages."""

    def is_reached_like(self, other: UpstreamConfig) -> bool:
        """Whether the two differ at most in `origin` and in how their tools are shown."""
        return _connection_fields(self) == _connection_fields(other)


class HubConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The servers in the order of the files, and how they are shown."""

    name: str = "hubbub"
    version: str = "0"
    upstreams: tuple[UpstreamConfig, ...] = ()
    hub: HubSettings = HubSettings()
    views: Mapping[str, ViewSettings] = _EMPTY
    governance: GovernanceSettings = NO_GOVERNANCE
    """Tenants, policy, pins, approvals, quotas, secrets, egress and audit."""
    policy_digest: str = ""
    """The digest of the file of Cedar policies, so that a change of the file is a change of the config."""
    lists_safe_names: bool = False
    """Whether names are listed with only the characters that every model provider accepts."""


def check_view_name(name: str, place: str) -> None:
    """Raises: SettingsError, which begins with `place`, if a view cannot have this name."""
    if not _VIEW_NAME.fullmatch(name) or name in _RESERVED_VIEWS:
        reserved = " or ".join(map(repr, _RESERVED_VIEWS))
        raise SettingsError(
            f"{place}: {name!r} is not a valid view name; use 1 to 64 of a-z, 0-9 and -, and not {reserved}"
        )


def check_view_servers(named: Iterable[str], servers: Collection[str], place: str) -> None:
    """Raises: SettingsError, which begins with `place`, if a view names a server that the hub does not have."""
    for server in named:
        if server not in servers and server != HUB_ID:
            raise SettingsError(f"{place}: unknown server {server!r}{format_suggestion(server, servers)}")


def check_view_count(views: Sized) -> None:
    """Raises: SettingsError, if there are too many."""
    if len(views) > bounds.HUB_VIEWS:
        raise SettingsError(f"{len(views)} views are configured, but a hub has at most {bounds.HUB_VIEWS}; remove some")


def without_nested_hub(config: ServerConfig) -> ServerConfig:
    """The config with a variable that keeps `hubbub serve` from becoming a hub of the same file, recursively."""
    if config.transport != "stdio":
        return config
    return msgspec.structs.replace(config, env={_ALONE_VARIABLE: Secret("true"), **config.env})


DISPLAY_KEYS: Final = ("prefix", "prefix_text", "include", "exclude", "read_only", "tools")
"""Settings of a server that affect only how it is shown, so that changing them does not reconnect it."""


def _connection_fields(config: UpstreamConfig) -> dict[str, Any]:
    display_keys = (*DISPLAY_KEYS, "origin")
    return {name: getattr(config, name) for name in config.__struct_fields__ if name not in display_keys}
