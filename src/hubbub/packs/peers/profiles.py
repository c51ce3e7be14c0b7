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
    """The tools of this pack that a server shows."""

    name: str
    tools: tuple[str, ...]

    def has(self, prefix: str) -> bool:
        """Return whether any of its tools starts with this prefix."""
        return any(tool.startswith(prefix) for tool in self.tools)

    def to_result(self) -> dict[str, Any]:
        """Return the profile as `vdo_capabilities` shows it."""
        return {
            "name": self.name,
            "requested": self.name,
            "allowed_profiles": list(PROFILES),
            "tools": list(self.tools),
        }


def active_profile(server: Server) -> ActiveProfile:
    """Return the profile whose tools are exactly those that the server shows; `custom` if there is none."""
    tools = [tool for tool in server.tools if tool.name.startswith("vdo_")]
    names = tuple(tool.name for tool in tools if server.view.shows(tool))
    for name, view in PROFILES.items():
        if names == tuple(tool.name for tool in tools if view.shows(tool)):
            return ActiveProfile(name, names)
    return ActiveProfile("custom", names)
