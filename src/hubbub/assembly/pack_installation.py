"""Installs packs on a server: registers their tools, and combines their profiles into one view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from hubbub.errors import DefinitionError, SettingsError
from hubbub.server.events import ToolChange
from hubbub.server.pack import Health, Pack
from hubbub.server.server import Server
from hubbub.server.views import View
from hubbub.settings.fields import list_settings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources
from hubbub.suggestions import format_suggestion


class InstalledPart(msgspec.Struct, frozen=True):
    """What one part, a pack or the user's program, added to a server."""

    name: str
    tools: tuple[str, ...]
    profiles: Mapping[str, View]
    pack: Pack | None = None
    state: Any = None

    async def health(self) -> Health:
        """Health of this part; parts without a health check count as healthy."""
        if self.pack is None or self.pack.health is None:
            return Health(True)
        return await self.pack.health(self.state)

    async def problem(self) -> str | None:
        """Why this part does not work; None if it does."""
        health = await self.health()
        return None if health.ok else f"{self.name}: {health.detail}"


def install_pack(server: Server, pack: Pack, settings: Any) -> InstalledPart:
    """Let a pack register its tools, and open its lifespan with the server's.

    Raises:
        DefinitionError: the server already has a tool of the same name.
    """
    before = set(server.tools.names())
    duplicates: list[str] = []

    def on_change(change: ToolChange) -> None:
        if change.tool_name in before:
            duplicates.append(change.tool_name)

    server.events.on("toolChange", on_change)
    try:
        state = pack.install(server, settings)
    finally:
        server.events.off("toolChange", on_change)
    if duplicates:
        raise DefinitionError(
            f"the pack {pack.name!r} defines the tool {duplicates[0]!r}, which this server already has; "
            f"serve the pack in a server of its own, with `hubbub serve --pack {pack.name}`"
        )
    if pack.lifespan is not None:
        open_pack = pack.lifespan
        server.add_lifespan(lambda _: open_pack(state))
    tools = tuple(name for name in server.tools.names() if name not in before)
    part = InstalledPart(pack.name, tools, pack.profiles, pack, state)
    server.health_checks.append(part.problem)
    return part


@contextmanager
def lenient_profile(sources: Sources, warn: Callable[[str], None]) -> Iterator[None]:
    """Turn the error about an unknown profile into a warning if the name is from the environment.

    A variable for one server is often set for others too.
    """
    try:
        yield
    except SettingsError as error:
        (setting,) = [each for each in list_settings(ServeSettings) if each.name == "tool_profile"]
        given = sources.find((), setting)
        if given is None or not given.is_variable:
            raise
        problem = error.message.removeprefix(f"{setting.flag}: ")
        warn(f"{given.origin}: {problem}; it is ignored, and all tools are shown")


def use_profile(server: Server, profile: str, parts: Sequence[InstalledPart]) -> None:
    """Limit each part that has this profile to the tools that the profile shows.

    Raises:
        SettingsError: no part has it.
    """
    profile_parts = [part for part in parts if profile in part.profiles]
    if not profile_parts:
        known = {name for part in parts for name in part.profiles}
        raise SettingsError(f"--tool-profile: unknown profile {profile!r}{format_suggestion(profile, known)}")
    if len(parts) == 1:
        server.profiles[profile] = parts[0].profiles[profile]
    else:
        server.profiles[profile] = View(exclude=tuple(_hidden_tools(server, profile, profile_parts)))
    server.use_profile(profile)


def _hidden_tools(server: Server, profile: str, parts: Sequence[InstalledPart]) -> list[str]:
    tools = [(part, server.tools.get(name)) for part in parts for name in part.tools]
    return [tool.name for part, tool in tools if tool is not None and not part.profiles[profile].shows(tool)]
