"""Which tools each profile has, and which profile is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hubbub import View

if TYPE_CHECKING:
    from hubbub import Server

CORE: Final = (
    "vdo_connect",
    "vdo_send",
    "vdo_receive",
    "vdo_status",
    "vdo_disconnect",
    "vdo_list_sessions",
    "vdo_capabilities",
    "vdo_sync_peers",
    "vdo_sync_announce",
)
PROFILES: Final = {
    "core": View(include=CORE),
    "file": View(include=(*CORE, "vdo_file_*")),
    "state": View(include=(*CORE, "vdo_state_*")),
    "full": View(include=("vdo_*",)),
}


class ActiveProfile(msgspec.Struct, frozen=True):
    """What a server shows of this pack."""

    name: str
    tools: tuple[str, ...]

    def has(self, prefix: str) -> bool:
        """Whether tools whose names begin so are among them."""
        return any(tool.startswith(prefix) for tool in self.tools)

    def shown(self) -> dict[str, Any]:
        """As `vdo_capabilities` tells it."""
        return {
            "name": self.name,
            "requested": self.name,
            "allowed_profiles": list(PROFILES),
            "tools": list(self.tools),
        }


def active_profile(server: Server) -> ActiveProfile:
    """The profile that a server uses: the one whose tools are those that are to be seen."""
    tools = [tool for tool in server.tools if tool.name.startswith("vdo_")]
    shown = tuple(tool.name for tool in tools if server.view.shows(tool))
    for name, view in PROFILES.items():
        if shown == tuple(tool.name for tool in tools if view.shows(tool)):
            return ActiveProfile(name, shown)
    return ActiveProfile("custom", shown)
