"""An upstream that is reached through a client: a command, an address."""

from __future__ import annotations

from hubbub.client.config import ServerConfig
from hubbub.hub.upstream import UpstreamOptions
from hubbub.ports import Sealer


class RemoteUpstream:
    """A server elsewhere."""

    def __init__(self, config: ServerConfig, options: UpstreamOptions, sealer: Sealer) -> None:
        self.id = config.id
