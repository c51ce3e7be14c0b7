"""One upstream from its config, for servers that need nothing loaded."""

from __future__ import annotations

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.hub.config import UpstreamConfig
from hubbub.hub.local import LocalUpstream
from hubbub.hub.remote import RemoteUpstream
from hubbub.hub.upstream import Upstream, UpstreamOptions
from hubbub.ports import Sealer
from hubbub.settings.hub import HubSettings


def make_upstream(config: UpstreamConfig, settings: HubSettings, sealer: Sealer) -> Upstream:
    """The upstream that a config describes; packs and programs must have been loaded into `server`.

    Raises:
        DefinitionError: there is nothing that it could reach.
    """
    timeout_s = config.timeout_s if config.remote is None else config.remote.timeout_s
    options = UpstreamOptions(
        timeout_s=bounds.UPSTREAM_CALL_S if timeout_s is None else timeout_s,
        list_s=settings.list_s,
        max_calls=config.max_calls,
        sessions=config.sessions,
        max_sessions=config.max_sessions,
        breaker_failures=settings.breaker_failures,
    )
    if config.remote is not None:
        return RemoteUpstream(config.remote, options, sealer)
    if config.server is not None:
        return LocalUpstream(config.id, config.server, options)
    raise DefinitionError(f"the server {config.id!r} has neither an address, a command nor a program")
