"""Finds names of servers in the settings that no server has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hubbub.errors import SettingsError
from hubbub.hub.config import HUB_ID, HubConfig
from hubbub.settings import format_suggestion
from hubbub.settings.governance import POLICY, QUOTAS, TENANTS, PolicyRule, QuotaSettings
from hubbub.settings.governance_reader import has_wildcard
from hubbub.settings.sources import SERVERS, Key, Sources


def find_unknown_servers(config: HubConfig, sources: Sources) -> tuple[str, ...]:
    """Return a warning for each pattern of a rule or a quota that names a server which does not exist.

    It is not an error, because a later change of `mcp.json` may add the server.

    Raises: SettingsError, if a tenant may use a server that does not exist.
    """
    file = sources.file
    if file is None:
        return ()
    names = {upstream.id for upstream in config.upstreams} | {HUB_ID, *file.table((SERVERS,))}
    names |= {key[1] for key in sources.refused if key[0] == SERVERS and len(key) > 1}
    for index, tenant in enumerate(config.governance.tenants):
        for number, server in enumerate(tenant.servers or ()):
            if server not in names:
                place = file.locate((TENANTS, str(index), "servers", str(number)))
                raise SettingsError(f"{place}: {_describe(server, names)}")
    return tuple(
        f"{file.locate(path)}: {_describe(server, names)}; this pattern matches nothing"
        for path, server in _find_named_servers(config)
        if server not in names
    )


def _describe(server: str, names: Collection[str]) -> str:
    return f"unknown server {server!r}{format_suggestion(server, names)}"


def _find_named_servers(config: HubConfig) -> Iterator[tuple[Key, str]]:
    """Yield the name of each server that a pattern without wildcards names, and where."""
    tables: list[tuple[Key, PolicyRule | QuotaSettings]] = []
    tables += [((POLICY, "rules", str(index)), rule) for index, rule in enumerate(config.governance.policy.rules)]
    tables += [((QUOTAS, str(index)), quota) for index, quota in enumerate(config.governance.quotas)]
    for path, table in tables:
        for number, pattern in enumerate(table.servers):
            if not has_wildcard(pattern):
                yield (*path, "servers", str(number)), pattern
        for number, pattern in enumerate(table.tools):
            server, slash, _ = pattern.partition("/")
            if slash and ":" not in server and not has_wildcard(server):  # a URI has a colon
                yield (*path, "tools", str(number)), server
