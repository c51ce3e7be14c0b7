"""The peers pack as `hubbub` finds it. Light: whoever lists packs imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub import Check, Pack
from hubbub.packs.peers.settings import PeersSettings

if TYPE_CHECKING:
    from hubbub import Server


def install(server: Server, settings: PeersSettings) -> None:
    """Register the tools."""


async def engine(settings: PeersSettings) -> Check:
    """For `hubbub doctor`: the WebRTC library."""
    from hubbub.packs.peers import diagnosis

    return await diagnosis.engine(settings)


async def addresses(settings: PeersSettings) -> Check:
    """For `hubbub doctor`: whether peers can reach this machine."""
    from hubbub.packs.peers import diagnosis

    return await diagnosis.addresses(settings)


async def signalling(settings: PeersSettings) -> Check:
    """For `hubbub doctor`: whether there is a place to meet."""
    from hubbub.packs.peers import diagnosis

    return await diagnosis.signalling(settings)


pack = Pack(
    name="peers",
    summary="messages, files and shared state between agents, over WebRTC",
    install=install,
    settings=PeersSettings,
    checks=(engine, addresses, signalling),
    commands={"signal": "hubbub.packs.peers.signal_command:main"},
    extra="peers",
    requires=("wrtc|aiortc",),
)
