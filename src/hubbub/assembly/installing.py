"""Packs put on a server: their tools beside each other, their profiles joined into one view."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from hubbub.errors import DefinitionError, SettingsError
from hubbub.server.events import ToolChange
from hubbub.server.pack import Health, Pack
from hubbub.server.server import Server
from hubbub.server.views import View
from hubbub.settings.nearest import nearest


class Installed(msgspec.Struct, frozen=True):
    """What one part brought to a server: a pack, or the user's own program."""

    name: str
    tools: tuple[str, ...]
    profiles: Mapping[str, View]
    pack: Pack | None = None
    state: Any = None

    async def health(self) -> Health:
        """How this part feels; one that does not say feels well."""
        if self.pack is None or self.pack.health is None:
            return Health(True)
        return await self.pack.health(self.state)

    async def problem(self) -> str | None:
        """What keeps this part from working; None when nothing does."""
        health = await self.health()
        return None if health.ok else f"{self.name}: {health.detail}"


def install_pack(server: Server, pack: Pack, settings: Any) -> Installed:
    """Let a pack register its tools, and open its lifespan with the server's.

    Raises:
        DefinitionError: it has a tool that is already there.
    """
    before = set(server.tools.names())
    taken: list[str] = []

    def watch(change: ToolChange) -> None:
        if change.tool_name in before:
            taken.append(change.tool_name)

    server.events.on("toolChange", watch)
    try:
        state = pack.install(server, settings)
    finally:
        server.events.off("toolChange", watch)
    if taken:
        raise DefinitionError(
            f"the pack {pack.name!r} has a tool {taken[0]!r}, and so has another part of this server; "
            "serve them apart, each with its own --pack"
        )
    if pack.lifespan is not None:
        server.lifespan(_lifespan_of(pack, state))
    tools = tuple(name for name in server.tools.names() if name not in before)
    part = Installed(pack.name, tools, pack.profiles, pack, state)
    server.health_checks.append(part.problem)
    return part


def _lifespan_of(pack: Pack, state: Any) -> Any:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[Any]:
        assert pack.lifespan is not None
        opened: AbstractAsyncContextManager[Any] = pack.lifespan(state)
        async with opened:
            yield server.state  # The server's own state stays; a pack keeps its own.

    return lifespan


def use_profile(server: Server, profile: str, parts: Sequence[Installed]) -> None:
    """Show of each part that has this profile only what the profile shows.

    Raises:
        SettingsError: no part has it.
    """
    concerned = [part for part in parts if profile in part.profiles]
    if not concerned:
        known = {name for part in parts for name in part.profiles}
        raise SettingsError(f"--tool-profile: there is no profile {profile!r}{nearest(profile, known)}")
    if len(parts) == 1:
        server.profiles[profile] = parts[0].profiles[profile]
    else:
        server.profiles[profile] = View(exclude=tuple(_hidden(server, profile, concerned)))
    server.use_profile(profile)


def _hidden(server: Server, profile: str, parts: Sequence[Installed]) -> list[str]:
    tools = [(part, server.tools.get(name)) for part in parts for name in part.tools]
    return [tool.name for part, tool in tools if tool is not None and not part.profiles[profile].shows(tool)]
