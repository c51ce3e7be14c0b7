"""Everything a hub is built from, as one frozen value that can be compared with the next.

`hubbub.assembly` makes it of the settings; `Hub` is built from it and brought from one to
the next. Nothing here opens a connection or reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from hubbub import bounds
from hubbub.hub.names import Prefixing
from hubbub.settings.hub import HubSettings, ViewSettings
from hubbub.settings.servers import ToolSettings

if TYPE_CHECKING:
    from hubbub.client.config import ServerConfig
    from hubbub.server.server import Server

OWN: Final = "hub"
"""The id of the hub's own tools and resources among those of its servers."""
STATUS: Final = "hub.status"
SEARCH: Final = "hub.search"
CALL: Final = "hub.call"
READ_RESULT: Final = "hub.read_result"
STATUS_URI: Final = "hub://status"
OWN_TOOLS: Final = (STATUS, SEARCH, CALL, READ_RESULT)
"""Names that no server behind the hub gets."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server behind the hub: exactly one of `remote`, `pack`, `target` and `server` is given."""

    id: str
    remote: ServerConfig | None = None
    """How it is reached; its `timeout_s` is the deadline of one call."""
    pack: str | None = None
    """The name of an installed pack, for this process."""
    pack_settings: Any = None
    """What is set for that pack."""
    target: str | None = None
    """A program to load into this process."""
    profile: str | None = None
    """What a pack or a program is to show of itself, if it has that profile."""
    server: Server | None = None
    """A server that is already here."""
    timeout_s: float | None = None
    """The deadline of one call in this process; None: the usual one."""
    max_calls: int = bounds.UPSTREAM_CALLS
    sessions: Literal["shared", "own"] = "shared"
    max_sessions: int = bounds.UPSTREAM_SESSIONS
    prefix: Prefixing = "collision"
    prefix_text: str | None = None
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    read_only: bool = False
    tools: Mapping[str, ToolSettings] = _NOTHING
    """By the tool's own name on its server."""
    origin: str = ""
    """Where it is written down, for messages."""

    def is_reached_like(self, other: UpstreamConfig) -> bool:
        """Whether the two differ at most in where they are written down and how they are shown."""
        return _as_reached(self) == _as_reached(other)


class HubConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The servers in the order of the files, and how they are shown."""

    name: str = "hubbub"
    version: str = "0"
    upstreams: tuple[UpstreamConfig, ...] = ()
    hub: HubSettings = HubSettings()
    views: Mapping[str, ViewSettings] = _NOTHING
    lists_safe_names: bool = False
    """Whether names are listed in letters that every model provider takes."""


SHOWN_KEYS: Final = ("prefix", "prefix_text", "include", "exclude", "read_only", "tools")
"""What is set about a server that concerns only how it is shown."""


def _as_reached(config: UpstreamConfig) -> dict[str, Any]:
    skipped = (*SHOWN_KEYS, "origin")
    return {name: getattr(config, name) for name in config.__struct_fields__ if name not in skipped}
