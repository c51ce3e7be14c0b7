"""One server from the settings: the target, the packs, the profile."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub import __version__
from hubbub.assembly.checking import refuse_foreign_flags
from hubbub.assembly.entries import choose_packs, find_packs
from hubbub.assembly.installing import Installed, install_pack, use_profile
from hubbub.assembly.targets import load_target
from hubbub.server.pack import Pack
from hubbub.server.server import Server
from hubbub.settings import ServeSettings, Sources, read_settings

NO_SOURCES = Sources()


class NoSettings(msgspec.Struct, frozen=True):
    """Of a pack that has nothing to set."""


def assemble(settings: ServeSettings, sources: Sources = NO_SOURCES) -> Server:
    """Build the server that the settings describe; `sources` hold the settings of packs.

    Raises:
        SettingsError: a name or value is wrong.
        PackUnavailable: a pack that was asked for cannot run.
        TargetFailed: the target raised while it was loaded.
    """
    parts: list[Installed] = []
    if settings.target is not None:
        server = load_target(settings.target)
        parts.append(Installed("target", tuple(server.tools.names()), dict(server.profiles)))
    else:
        server = Server("hubbub", version=__version__)
    packs = choose_packs(settings.packs, find_packs()) if settings.target is None or settings.packs else []
    refuse_foreign_flags(sources, packs)
    parts += [install_pack(server, pack, settings_for(pack, sources)) for pack in packs]
    if settings.tool_profile is not None:
        use_profile(server, settings.tool_profile, parts)
    return server


def settings_for(pack: Pack, sources: Sources) -> Any:
    """What is set for a pack; None for one that has no settings.

    Raises: SettingsError.
    """
    section = ("packs", pack.name)
    if pack.settings is None:
        read_settings(NoSettings, sources, section)
        return None
    return read_settings(pack.settings, sources, section)
