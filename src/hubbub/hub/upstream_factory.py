"""Makes the upstream that a config describes."""

from __future__ import annotations

from hubbub import bounds
from hubbub.client.known_eras import DEFAULT_KNOWN_ERAS, KnownEras
from hubbub.errors import DefinitionError
from hubbub.hub.config import UpstreamConfig
from hubbub.hub.local import LocalUpstream
from hubbub.hub.remote import RemoteUpstream
from hubbub.hub.upstream import Upstream, UpstreamOptions
from hubbub.ports import Sealer
from hubbub.settings.hub import HubSettings


def make_upstream(
    config: UpstreamConfig, settings: HubSettings, sealer: Sealer, *, known_eras: KnownEras = DEFAULT_KNOWN_ERAS
) -> Upstream:
    """Make the upstream that a config describes; packs and programs must have been loaded into `server`.

    Raises:
        DefinitionError: the config names no server.
        SettingsError: users cannot log in at a server that has `per_user`.
    """
    timeout_s = config.timeout_s if config.remote is None else config.remote.timeout_s
    options = UpstreamOptions(
        timeout_s=bounds.UPSTREAM_CALL_TIMEOUT_S if timeout_s is None else timeout_s,
        list_s=settings.list_s,
        max_calls=config.max_calls,
        sessions=config.sessions,
        max_sessions=config.max_sessions,
        breaker_failures=settings.breaker_failures,
        per_user=config.per_user,
    )
    if config.remote is not None:
        return RemoteUpstream(config.remote, options, sealer, known_eras=known_eras)
    if config.server is not None:
        return LocalUpstream(config.id, config.server, options)
    raise DefinitionError(f"the server {config.id!r} cannot be reached: its UpstreamConfig needs `remote` or `server`")
