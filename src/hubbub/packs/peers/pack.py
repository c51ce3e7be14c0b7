"""The peers pack as `hubbub` finds it. Light: whoever lists packs imports it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hubbub import Check, Pack
from hubbub.packs.peers.profiles import PROFILES
from hubbub.packs.peers.settings import PeersSettings

if TYPE_CHECKING:
    from hubbub import Server
    from hubbub.packs.peers.sessions import Sessions


def install(server: Server, settings: PeersSettings) -> Sessions:
    """Register the tools."""
    from hubbub.packs.peers.core_tools import register_core_tools
    from hubbub.packs.peers.file_tools import register_file_tools
    from hubbub.packs.peers.keychain import join_token_secrets
    from hubbub.packs.peers.sessions import Sessions
    from hubbub.packs.peers.state_tools import register_state_tools

    sessions = Sessions(settings, join_token_secrets(settings))
    register_core_tools(server, sessions)
    register_file_tools(server, sessions)
    register_state_tools(server, sessions)
    return sessions


@asynccontextmanager
async def lifespan(sessions: Sessions) -> AsyncIterator[None]:
    """Leave all rooms when the server stops, and those that nobody uses before."""
    import asyncio

    tidying = asyncio.create_task(sessions.keep_tidy())
    try:
        yield
    finally:
        tidying.cancel()
        await asyncio.wait([tidying])
        await sessions.close()


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
    lifespan=lifespan,
    profiles=PROFILES,
    checks=(engine, addresses, signalling),
    commands={"signal": "hubbub.packs.peers.signal_command:main"},
    extra="peers",
    requires=("wrtc|aiortc",),
)
