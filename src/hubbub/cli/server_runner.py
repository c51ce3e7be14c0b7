"""Runs `hubbub serve` after its flags are parsed. Does not import click, so that it starts quickly."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hubbub.assembly.assemble import assemble, needs_hub
from hubbub.assembly.serve_settings import add_pack_aliases, read_serve_settings
from hubbub.cli.errors import print_message
from hubbub.observe import configure_logging
from hubbub.security.redact import redact
from hubbub.settings import ServeSettings, Sources, collect_sources, read_settings

if TYPE_CHECKING:
    from hubbub.hub.config import HubConfig, UpstreamConfig
    from hubbub.server.server import Server


def serve(flags: Mapping[str, Any]) -> int:
    """Serve until the client disconnects or a signal arrives; return the exit code.

    Raises:
        HubbubError: a flag or setting is invalid, or a part of the server cannot be loaded.
    """
    sources = collect_sources(flags, ignore_untrusted=True)
    if sources.refused and _offer_trust(sources):
        sources = collect_sources(flags, ignore_untrusted=True)
    sources = add_pack_aliases(sources)
    settings = read_serve_settings(sources, print_message)
    configure_logging(settings.log_level, settings.log_format, redact=redact)
    server = assemble(settings, sources, report=print_message)
    from hubbub.app import serve_http, serve_stdio

    gc.freeze()  # What is loaded by now stays, so collections need not examine it.
    gc.enable()  # A quick start had turned it off.
    if settings.transport == "stdio":
        return serve_stdio(server, limit=settings.max_message_bytes)
    is_hub = needs_hub(settings, sources)
    return serve_http(server, settings, on_started=lambda url: _announce(url, server, settings, is_hub=is_hub))


def _offer_trust(sources: Sources) -> bool:
    """Ask for trust at a terminal, for a server over HTTP; on stdio, stdin belongs to the protocol."""
    from hubbub.cli.terminal import is_interactive

    if not is_interactive() or read_settings(ServeSettings, sources).transport == "stdio":
        return False
    from hubbub.cli.trust import ask_for_trust
    from hubbub.settings.trust import read_folder_file

    return ask_for_trust(read_folder_file(str(sources.config), is_to_be_trusted=True))


def _announce(url: str, server: Server, settings: ServeSettings, *, is_hub: bool) -> None:
    """Print the addresses of the server, for the person who started it.

    With OAuth it is the public URL, because clients request tokens for that one only.
    """
    listening = url
    if server.oauth is not None and server.oauth.public_url:
        url = server.oauth.public_url.rstrip("/")
    print_message(f"{server.info.name} serves {url}/mcp{settings.unix_socket_note}")
    if is_hub:
        from hubbub.hub.front import Front

        assert isinstance(server, Front)
        for line in _hub_lines(server.hub.config, url):
            print_message(line)
    print_message(f"  WebSocket {url.replace('http', 'ws', 1)}/mcp-ws · health {listening}/health · Ctrl+C stops it")


def _hub_lines(config: HubConfig, url: str) -> Iterator[str]:
    """One line for each server behind the hub, then one for each view."""
    for upstream in config.upstreams:
        yield f"server {upstream.id}: {_describe_upstream(upstream)}"
    for name in config.views:
        yield f"view {name}: {url}/mcp/{name}"


def _describe_upstream(upstream: UpstreamConfig) -> str:
    """Describe how a server is reached, without secrets."""
    if upstream.remote is not None:
        return f"{upstream.remote.transport} {upstream.remote.target}"
    return f"pack {upstream.pack}" if upstream.pack is not None else f"program {upstream.target}"
