"""What `hubbub serve` does once its flags are known. Free of click, for a quick start."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hubbub.assembly.assemble import assemble, needs_hub
from hubbub.assembly.checking import check_sources
from hubbub.cli.failing import say
from hubbub.observe import configure_logging
from hubbub.security.redact import redact
from hubbub.settings import ServeSettings, gather, read_settings

if TYPE_CHECKING:
    from hubbub.server.server import Server


def serve(flags: Mapping[str, Any]) -> int:
    """Serve until the client goes away or a signal comes; return the exit code.

    Raises:
        HubbubError: something is wrong with what was given.
    """
    sources = gather(flags)
    settings = read_settings(ServeSettings, sources)
    check_sources(sources)
    configure_logging(settings.log_level, settings.log_format, redact=redact)
    server = assemble(settings, sources, told=say)
    from hubbub.app import serve_http, serve_stdio

    gc.freeze()  # What is loaded by now stays: no collection need look at it.
    gc.enable()  # A quick start had turned it off.
    if settings.transport == "stdio":
        for useless in settings.useless_on_stdio:
            say(f"{useless} does nothing with --transport stdio: its one client is whoever started it")
        return serve_stdio(server, limit=settings.max_message_bytes)
    is_hub = needs_hub(settings, sources)
    return serve_http(server, settings, started=lambda url: _announce(url, server, is_hub=is_hub))


def _announce(url: str, server: Server, *, is_hub: bool) -> None:
    """Where to point a client, for the person who started the server."""
    say(f"{server.info.name} serves {url}/mcp")
    if is_hub:
        from hubbub.cli.hub_lines import hub_lines
        from hubbub.hub.front import Front

        assert isinstance(server, Front)
        for line in hub_lines(server, url):
            say(line)
    say(f"  WebSocket {url.replace('http', 'ws', 1)}/mcp-ws · health {url}/health · Ctrl+C stops it")
