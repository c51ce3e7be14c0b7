"""An upstream in this process: a pack, a server written in Python."""

from __future__ import annotations

from hubbub.hub.upstream import UpstreamOptions
from hubbub.server.server import Server


class LocalUpstream:
    """A server in this process; it is entered (`running`) when it starts and left when it closes."""

    def __init__(self, id: str, server: Server, options: UpstreamOptions) -> None:
        self.id = id
