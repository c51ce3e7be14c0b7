"""The peers pack as `hubbub` finds it. Light: whoever lists packs imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub import Pack
from hubbub.packs.peers.settings import PeersSettings

if TYPE_CHECKING:
    from hubbub import Server


def install(server: Server, settings: PeersSettings) -> None:
    """Register the tools."""


pack = Pack(
    name="peers",
    summary="messages, files and shared state between agents, over WebRTC",
    install=install,
    settings=PeersSettings,
    commands={"signal": "hubbub.packs.peers.signal_command:main"},
    extra="peers",
    requires=("wrtc|aiortc",),
)
