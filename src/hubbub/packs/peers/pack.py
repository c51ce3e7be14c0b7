"""The entry point of the peers pack. Imports little, because listing the packs imports it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from hubbub import Pack, Preset, Standalone
from hubbub.pack import Command
from hubbub.packs.peers import limits
from hubbub.packs.peers.owner import owner_from_context
from hubbub.packs.peers.profiles import PROFILES
from hubbub.packs.peers.settings import PeersSettings

if TYPE_CHECKING:
    from hubbub import Context, Server
    from hubbub.packs.peers.sessions import Sessions


def install(server: Server, settings: PeersSettings) -> Sessions:
    """Register the tools, and return the sessions that they share."""
    from hubbub.packs.peers.core_tools import register_core_tools
    from hubbub.packs.peers.file_tools import register_file_tools
    from hubbub.packs.peers.session_security import join_token_secrets
    from hubbub.packs.peers.sessions import Sessions
    from hubbub.packs.peers.state_tools import register_state_tools

    sessions = Sessions(settings, join_token_secrets(settings))
    register_core_tools(server, sessions)
    register_file_tools(server, sessions)
    register_state_tools(server, sessions)
    return sessions


async def shutdown(sessions: Sessions, context: Context) -> dict[str, Any]:
    """Answer the contract's `shutdown`: end all sessions of the caller."""
    for session in sessions.owned_by(owner_from_context(context)):
        await sessions.end(session)
    return {}


@asynccontextmanager
async def lifespan(sessions: Sessions) -> AsyncIterator[None]:
    """Close unused sessions while the server runs, and all sessions when it stops."""
    import asyncio

    cleanup = asyncio.create_task(sessions.run_cleanup())
    try:
        yield
    finally:
        cleanup.cancel()
        await asyncio.wait([cleanup])
        await sessions.close()


def _secure_preset(profile: str, summary: str) -> Preset:
    return Preset(
        summary=f"{summary}, only with peers that prove a shared secret",
        arguments=("--tool-profile", profile, "--enforce-join-token", "true", "--require-session-mac", "true"),
        secret="VDON_MCP_JOIN_TOKEN_SECRET",
        keyring="VDON_MCP_JOIN_TOKEN_KEYRING",
    )


PRESETS: Final = {
    "core": Preset(summary="messages", arguments=("--tool-profile", "core")),
    "file": Preset(summary="messages and files", arguments=("--tool-profile", "file")),
    "state": Preset(summary="messages and shared state", arguments=("--tool-profile", "state")),
    "full": Preset(summary="messages, files and shared state"),
    "secure-core": _secure_preset("core", "messages"),
    "secure-full": _secure_preset("full", "messages, files and shared state"),
}

pack = Pack(
    name="peers",
    summary="messages, files and shared state between agents, over WebRTC",
    install=install,
    settings=PeersSettings,
    lifespan=lifespan,
    profiles=PROFILES,
    presets=PRESETS,
    checks=tuple(f"hubbub.packs.peers.diagnosis:{name}" for name in ("engine", "addresses", "signalling")),
    commands={
        "signal": Command("hubbub.packs.peers.signal_command:main", "Run a signalling server, which connects peers")
    },
    standalone=Standalone(
        message_bytes=limits.PEERS_MESSAGE_BYTES,
        calls_fail_as_results=True,
        methods={"shutdown": shutdown},
        exit_notification="exit",
    ),
    variable_aliases={
        "VDON_MCP_TOOL_PROFILE": "HUBBUB_TOOL_PROFILE",
        "VDON_MCP_MAX_MESSAGE_BYTES": "HUBBUB_MAX_MESSAGE_BYTES",
    },
    extra="peers",
    requires=("wrtc|aiortc",),
)
