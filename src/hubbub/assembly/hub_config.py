"""Converts the settings to the config of a hub: its servers, and how they are shown.

Reads the files and finds the packs, but starts nothing. Called when `hubbub serve` starts, and whenever one of the
files has changed.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from hubbub import __version__, bounds
from hubbub.assembly.server_config import make_server_config
from hubbub.assembly.settings_checks import check_identification, read_server_rules, refuse_foreign_flags
from hubbub.assembly.tenants import load_governance
from hubbub.client.mcp_json import read_mcp_json
from hubbub.errors import SettingsError
from hubbub.hub.config import (
    HUB_ID,
    HubConfig,
    UpstreamConfig,
    check_view_count,
    check_view_name,
    check_view_servers,
    without_nested_hub,
)
from hubbub.protocol.host_origin import is_loopback
from hubbub.settings import format_suggestion
from hubbub.settings.governance import NO_GOVERNANCE
from hubbub.settings.hub import HubSettings, ViewSettings
from hubbub.settings.read import read_settings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.servers import ServerSettings
from hubbub.settings.sources import HUB, SERVERS, VIEWS, Sources

if TYPE_CHECKING:
    from hubbub.assembly.server_rules import ServerRules
    from hubbub.client.config import ServerConfig
    from hubbub.server.pack import Pack

logger = logging.getLogger("hubbub.hub")

_ANY_ADDRESS: Final = ("0.0.0.0", "::")
_HUB_FIELDS: Final = (
    "max_calls",
    "sessions",
    "max_sessions",
    "prefix",
    "prefix_text",
    "include",
    "exclude",
    "read_only",
    "tools",
)
"""Settings of a section that concern the hub, not the connection to the server."""


def hub_config(settings: ServeSettings, sources: Sources) -> HubConfig:
    """Build the config of the hub that the settings describe.

    Raises:
        SettingsError: a name or value is invalid; the message says where.
        PackUnavailable: a pack that was asked for cannot run.
    """
    if settings.alone and settings.mcp_json is not None:
        raise SettingsError(
            "--mcp-json cannot be combined with --alone. A hub sets HUBBUB_ALONE=true for the servers that it starts, "
            "so that it does not start itself; to run a hub behind a hub, set HUBBUB_ALONE=false in that server's env"
        )
    packs, rules = _Packs(sources), read_server_rules(sources)
    file_upstreams = [] if settings.alone else list(_file_upstreams(settings, sources, packs, rules))
    has_others = bool(file_upstreams) or settings.mcp_json is not None
    upstreams = [
        *file_upstreams,
        *_mcp_json_upstreams(settings.mcp_json, rules),
        *_pack_upstreams(settings, packs, has_others=has_others),
    ]
    refuse_foreign_flags(sources, packs.used)
    _refuse_duplicates(upstreams)
    upstreams = [upstream for upstream in upstreams if not _is_this_hub(upstream, settings)]
    views = _views(sources, {upstream.id for upstream in upstreams})
    if settings.view is not None and settings.view not in views:
        raise SettingsError(f"--view: unknown view {settings.view!r}{format_suggestion(settings.view, views)}")
    if settings.view is not None and settings.transport != "stdio":
        raise SettingsError(
            f"--view needs --transport stdio; over HTTP, clients use the path of the view: /mcp/{settings.view}"
        )
    governance = load_governance(sources) or NO_GOVERNANCE
    return HubConfig(
        version=__version__,
        upstreams=tuple(upstreams),
        hub=read_settings(HubSettings, sources, (HUB,)),
        views=views,
        governance=governance,
        policy_digest=_digest_file(governance.policy.file),
        lists_safe_names=settings.tool_names == "safe",
    )


def _digest_file(path: str | None) -> str:
    """The digest of a file; empty for one that cannot be read, which is reported when it is used."""
    if path is None:
        return ""
    try:
        with Path(path).expanduser().open("rb") as file:
            return hashlib.sha256(file.read(bounds.SETTINGS_FILE_BYTES + 1)).hexdigest()
    except OSError:
        return ""


class _Packs:
    """The installed packs, found at the first use."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._known: dict[str, Any] | None = None
        self.used: list[Pack] = []

    def choose(self, names: tuple[str, ...]) -> Iterator[tuple[Pack, Any]]:
        """Yield the packs of these names, or all that can run, each with its settings."""
        from hubbub.assembly.assemble import read_pack_settings
        from hubbub.assembly.pack_discovery import choose_packs, find_packs

        if self._known is None:
            self._known = find_packs()
        for pack in choose_packs(names, self._known):
            self.used.append(pack)
            yield pack, read_pack_settings(pack, self._sources)


def _file_upstreams(
    serve: ServeSettings, sources: Sources, packs: _Packs, rules: ServerRules | None
) -> Iterator[UpstreamConfig]:
    for name in sources.file.table((SERVERS,)) if sources.file is not None else {}:
        assert sources.file is not None
        section = (SERVERS, name)
        settings = read_settings(ServerSettings, sources, section)
        if not settings.enabled:
            continue
        hub_fields = {field: getattr(settings, field) for field in _HUB_FIELDS}
        config = UpstreamConfig(id=name, origin=sources.file.locate(section), **hub_fields)
        if settings.pack is not None:
            ((_, values),) = packs.choose((settings.pack,))
            yield replace(config, pack=settings.pack, pack_settings=values, timeout_s=settings.timeout_s)
        elif settings.target is not None:
            yield replace(config, target=settings.target, timeout_s=settings.timeout_s)
        else:
            remote = _make_remote(name, settings, rules, config.origin)
            per_user = settings.oauth is not None and settings.oauth.per_user
            if per_user:
                check_identification(serve, sources, name)
                from hubbub.assembly.upstream_login_store import choose_store

                remote = choose_store(remote, serve, sources)
            yield replace(config, remote=remote, per_user=per_user)


def _make_remote(name: str, settings: ServerSettings, rules: ServerRules | None, origin: str) -> ServerConfig:
    try:
        return make_server_config(name, settings, rules=rules)
    except SettingsError as error:  # its prefix is for callers without a file
        raise SettingsError(f"{origin}: {error.message.removeprefix(f'server {name!r}: ')}") from None


def _mcp_json_upstreams(path: str | None, rules: ServerRules | None) -> Iterator[UpstreamConfig]:
    if path is not None:
        for config in read_mcp_json(Path(path).expanduser(), secret_names=() if rules is None else rules.secrets):
            remote = replace(without_nested_hub(config), timeout_s=bounds.COMMAND_TIMEOUT_S)
            if rules is not None:
                rules.check_config(config)
                remote = rules.apply(remote)
            yield UpstreamConfig(id=config.id, remote=remote, origin=f"{path}: {config.id}")


def _pack_upstreams(settings: ServeSettings, packs: _Packs, *, has_others: bool) -> Iterator[UpstreamConfig]:
    """What `serve` would serve without a hub: its target, the packs it names, or all packs if nothing is named."""
    if settings.target is not None:
        place = settings.target.rpartition(":")[0] or settings.target
        name = re.sub(r"\W+", "_", Path(place.removesuffix(".py")).name.rpartition(".")[2])
        yield UpstreamConfig(id=name, target=settings.target, profile=settings.tool_profile, origin="TARGET")
    if settings.packs or (settings.target is None and not has_others):
        for pack, values in packs.choose(settings.packs):
            yield UpstreamConfig(
                id=pack.name, pack=pack.name, pack_settings=values, profile=settings.tool_profile, origin="--pack"
            )


def _is_this_hub(upstream: UpstreamConfig, settings: ServeSettings) -> bool:
    """Whether a server is this hub: users register a hub in the same file that it serves."""
    if upstream.remote is None or upstream.remote.url is None or settings.transport != "http":
        return False
    if settings.unix_socket is not None:
        return False
    host, port = settings.address
    url = urlsplit(upstream.remote.url)
    is_here = url.hostname == host or (is_loopback(url.hostname or "") and (is_loopback(host) or host in _ANY_ADDRESS))
    if not is_here or url.port != port:
        return False
    logger.warning("server_skipped", extra={"origin": upstream.origin, "reason": "it is this hub itself"})
    return True


def _refuse_duplicates(upstreams: Iterable[UpstreamConfig]) -> None:
    upstreams_by_id: dict[str, UpstreamConfig] = {}
    for upstream in upstreams:
        if upstream.id == HUB_ID:
            raise SettingsError(f"{upstream.origin}: the server name {HUB_ID!r} is reserved; choose another name")
        other = upstreams_by_id.setdefault(upstream.id, upstream)
        if other is not upstream:
            raise SettingsError(f"{upstream.origin}: another server already has this name ({other.origin}); rename one")


def _views(sources: Sources, servers: set[str]) -> dict[str, ViewSettings]:
    views: dict[str, ViewSettings] = {}
    untrusted = {key[1] for key in sources.refused if key[0] == SERVERS and len(key) > 1}
    for name in sources.file.table((VIEWS,)) if sources.file is not None else {}:
        assert sources.file is not None
        check_view_name(name, sources.file.locate((VIEWS, name)))
        view = views[name] = read_settings(ViewSettings, sources, (VIEWS, name))
        named = [server for server in view.servers or () if server not in untrusted]
        check_view_servers(named, servers, sources.file.locate((VIEWS, name, "servers")))
    check_view_count(views)
    return views
