"""Read the settings of a server, for `hubbub serve` and for scripts."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from hubbub.assembly.assemble import needs_hub
from hubbub.assembly.settings_checks import check_sources
from hubbub.assembly.value_checks import check_limits
from hubbub.errors import HubbubError
from hubbub.settings import ServeSettings, Sources, read_settings


def add_pack_aliases(sources: Sources) -> Sources:
    """Add the variable aliases of the served packs (`Pack.variable_aliases`) to the sources.

    Raises: SettingsError.
    """
    settings = read_settings(ServeSettings, sources)
    if not settings.packs and (settings.target is not None or needs_hub(settings, sources)):
        return sources
    from hubbub.assembly.pack_discovery import find_packs

    aliases: dict[str, str] = {}
    for name, entry in find_packs().items():
        if not settings.packs or name in settings.packs:
            try:
                aliases |= entry.pack.variable_aliases
            except HubbubError:
                continue  # Reported when the pack is chosen.
    return replace(sources, aliases=aliases) if aliases else sources


def read_serve_settings(sources: Sources, warn: Callable[[str], None]) -> ServeSettings:
    """Read the settings, refuse unknown keys of files and name unknown variables with `warn`.

    On stdio, where the user is the only client, settings that an untrusted file must not set
    are ignored and named with `warn`. Over HTTP they are an error: without its key file or
    its limits the server would be open.

    Raises: SettingsError.
    """
    settings = read_settings(ServeSettings, sources)
    if warning := check_sources(sources):
        warn(warning)
    check_limits(settings, sources)
    if settings.transport != "stdio":
        sources.require_trust()
        return settings
    if sources.refused:
        warn(sources.refusal)
    for setting_name in settings.ignored_on_stdio:
        warn(f"{setting_name} has no effect with --transport stdio, whose only client is the program that started it")
    return settings
