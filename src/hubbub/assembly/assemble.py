"""Builds one server from the settings: the target, the packs, the profile; or a hub of these and of other servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hubbub.assembly.settings_checks import read_oauth_section, refuse_foreign_flags
from hubbub.assembly.targets import load_target
from hubbub.assembly.tenants import apply_egress, apply_tenants, load_governance
from hubbub.errors import SettingsError
from hubbub.server.server import Server
from hubbub.settings.read import read_settings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import GOVERNANCE, PACKS, SERVERS, TENANTS, VIEWS, Sources

if TYPE_CHECKING:
    from hubbub.server.pack import Pack

NO_SOURCES = Sources()


def assemble(
    settings: ServeSettings, sources: Sources = NO_SOURCES, *, report: Callable[[str], None] = lambda line: None
) -> Server:
    """Build the server that the settings describe; `sources` hold the settings of packs.

    A hub calls `report` with one line for each reload that changed something.

    Raises:
        SettingsError: a name or value is wrong.
        PackUnavailable: a pack that was asked for cannot run.
        TargetFailed: the target raised while it was loaded.
    """
    server = _assemble(settings, sources, report)
    server.oauth = read_oauth_section(sources)
    return server


def _assemble(settings: ServeSettings, sources: Sources, report: Callable[[str], None]) -> Server:
    if needs_hub(settings, sources):
        from hubbub.assembly.hub import assemble_hub

        return assemble_hub(settings, sources, report)
    if settings.target is None or settings.packs or settings.tool_profile is not None:
        server = _assemble_server(settings, sources, report)
    else:
        refuse_foreign_flags(sources, ())
        server = load_target(settings.target)
    if settings.tool_names == "safe":
        server.tools.lists_safe_names = True
    governance = load_governance(sources)
    apply_egress(server, governance)
    apply_tenants(server, settings, governance, is_hub=False)
    return server


def needs_hub(settings: ServeSettings, sources: Sources) -> bool:
    """Whether the settings need a hub. Called at every start, so it must not import anything that stdio does not need.

    Raises: SettingsError, if `[oauth]` is wrong.
    """
    if settings.mcp_json is not None or settings.view is not None:
        return True
    if settings.alone:
        return False
    if settings.transport != "stdio" and _has_front_door(sources):
        return True  # Its grants are listed and ended by the administration of a hub.
    if sources.file is None:
        return False
    # A single server on stdio has one client, so tenants alone do not make it a hub.
    sections = [name for name in GOVERNANCE if name != TENANTS or settings.transport != "stdio"]
    if sources.file.table((VIEWS,)) or any(name in sources.file.tree for name in sections):
        return True
    return any(
        not isinstance(section, dict) or section.get("enabled", True) is not False
        for section in sources.file.table((SERVERS,)).values()
    )


def _has_front_door(sources: Sources) -> bool:
    """Whether the server is an OAuth authorization server."""
    oauth = read_oauth_section(sources)
    return oauth is not None and oauth.has_front_door


def _assemble_server(settings: ServeSettings, sources: Sources, report: Callable[[str], None]) -> Server:
    from hubbub import __version__
    from hubbub.assembly.pack_discovery import choose_packs, find_packs  # A program on its own needs none of these.
    from hubbub.assembly.pack_installation import InstalledPart, install_pack, lenient_profile, use_profile

    packs = choose_packs(settings.packs, find_packs()) if settings.packs or settings.target is None else []
    refuse_foreign_flags(sources, packs)
    parts: list[InstalledPart] = []
    if settings.target is None:
        server = Server("hubbub", version=__version__)
    else:
        server = load_target(settings.target)
        parts.append(InstalledPart("target", tuple(server.tools.names()), dict(server.profiles)))
    parts += [install_pack(server, pack, read_pack_settings(pack, sources)) for pack in packs]
    if settings.tool_profile is not None:
        with lenient_profile(sources, report):
            use_profile(server, settings.tool_profile, parts)
    if len(parts) == 1 and parts[0].pack is not None and parts[0].pack.standalone is not None:
        from hubbub.server.standalone import apply_standalone

        apply_standalone(server, parts[0].pack.standalone, parts[0].state)
    return server


def read_pack_settings(pack: Pack, sources: Sources) -> Any:
    """Read the settings of a pack; None if it has none.

    Raises: SettingsError.
    """
    section = (PACKS, pack.name)
    if pack.settings is not None:
        return read_settings(pack.settings, sources, section)
    file = sources.file
    for key in file.table(section) if file is not None else ():
        assert file is not None
        raise SettingsError(f"{file.locate((*section, key))} is not a setting; the pack {pack.name!r} has no settings")
    return None
