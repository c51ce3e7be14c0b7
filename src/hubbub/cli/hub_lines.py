"""What `hubbub serve` says of a hub when it starts: its servers and views, a line for each."""

from __future__ import annotations

from collections.abc import Iterator

from hubbub.hub.config import UpstreamConfig
from hubbub.hub.front import Front


def hub_lines(front: Front, url: str) -> Iterator[str]:
    """One line for each server behind the hub, then one for each view."""
    config = front.hub.config
    for upstream in config.upstreams:
        yield f"server {upstream.id}: {_reached(upstream)}"
    for name in config.views:
        yield f"view {name}: {url}/mcp/{name}"


def _reached(upstream: UpstreamConfig) -> str:
    """How a server is reached, without what may be secret."""
    if upstream.remote is not None:
        return f"{upstream.remote.transport} {upstream.remote.target}"
    return f"pack {upstream.pack}" if upstream.pack is not None else f"program {upstream.target}"
