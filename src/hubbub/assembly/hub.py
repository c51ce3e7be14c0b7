"""Builds a hub from the settings, and loads the upstreams of this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from hubbub.assembly.hub_reload import build_loaded_config, reload_on_change
from hubbub.assembly.pack_installation import InstalledPart, install_pack, lenient_profile, use_profile
from hubbub.assembly.targets import load_target
from hubbub.assembly.tenants import apply_egress, apply_tenants
from hubbub.client.known_eras import DEFAULT_KNOWN_ERAS, KnownEras
from hubbub.errors import SettingsError
from hubbub.hub.config import UpstreamConfig
from hubbub.hub.gateway import Gateway
from hubbub.hub.known_names import KnownNames
from hubbub.hub.local import LocalUpstream
from hubbub.hub.upstream import Upstream
from hubbub.hub.upstream_factory import make_upstream
from hubbub.ports import Sealer
from hubbub.server.server import Server
from hubbub.settings import format_suggestion
from hubbub.settings.folders import state_folder
from hubbub.settings.governance import NO_GOVERNANCE
from hubbub.settings.hub import HubSettings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources

_PINS: Final = "pins"


def assemble_hub(settings: ServeSettings, sources: Sources, report: Callable[[str], None]) -> Server:
    """Build the hub that the settings describe, which reloads its files while it runs; return the front of its view.

    Raises: as `assemble`.
    """
    loaded = build_loaded_config(settings, sources)
    for warning in loaded.warnings:
        report(f"warning: {warning}")
    make = partial(load_upstream, known_eras=KnownEras(state_folder))
    hub = Gateway(loaded.config, make=make, known_names=KnownNames())
    front = hub.fronts[settings.view or ""]
    setup = None
    if loaded.config.governance != NO_GOVERNANCE:
        from hubbub.assembly.governance import add_governor

        setup = add_governor(hub)
        apply_egress(front, loaded.config.governance)
    tenants = apply_tenants(front, settings, loaded.config.governance, is_hub=True, is_governed=True)
    pins = None
    if sources.file is not None and sources.file.table((_PINS,)):
        from hubbub.assembly.pins import add_pins  # Most hubs have none.

        pins = add_pins(hub, sources)
    reload = partial(reload_on_change, hub, loaded, sources, report, tenants)
    if settings.transport != "stdio":
        from hubbub.assembly.administration import add_administration

        reload = partial(reload, find_socket=add_administration(hub, settings, sources, setup, pins))
    hub.lifespans.append(reload)
    with lenient_profile(sources, report):
        _check_profile(settings.tool_profile, hub)
    return front


def load_upstream(
    config: UpstreamConfig, settings: HubSettings, sealer: Sealer, *, known_eras: KnownEras = DEFAULT_KNOWN_ERAS
) -> Upstream:
    """Make the upstream of a config; a pack or a program is loaded into this process.

    Raises:
        SettingsError: there is no such pack or program.
        PackUnavailable: the pack cannot run.
        TargetFailed: the program raised while it was loaded.
    """
    if config.pack is not None or config.target is not None:
        try:
            config = replace(config, server=_load_server(config))
        except SettingsError as error:  # a reload reports it in the log, so it must name its origin
            raise SettingsError(f"{config.origin}: {error.message}") from error
    return make_upstream(config, settings, sealer, known_eras=known_eras)


def _load_server(config: UpstreamConfig) -> Server:
    if config.target is not None:
        server = load_target(config.target)
        part = InstalledPart("target", tuple(server.tools.names()), dict(server.profiles))
    else:
        assert config.pack is not None
        from hubbub.assembly.pack_discovery import choose_packs, find_packs

        (pack,) = choose_packs((config.pack,), find_packs())
        server = Server(pack.name)
        part = install_pack(server, pack, config.pack_settings)
        server.profiles.update(part.profiles)
    if config.profile is not None and config.profile in part.profiles:
        use_profile(server, config.profile, [part])
    return server


def _check_profile(profile: str | None, hub: Gateway) -> None:
    """Refuse a profile that no upstream in this process has."""
    if profile is None:
        return
    local_upstreams = [upstream for upstream in hub.upstreams.values() if isinstance(upstream, LocalUpstream)]
    known = {name for upstream in local_upstreams for name in upstream.server.profiles}
    if profile not in known:
        raise SettingsError(f"--tool-profile: unknown profile {profile!r}{format_suggestion(profile, known)}")
