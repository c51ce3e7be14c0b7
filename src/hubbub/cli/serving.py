"""What `hubbub serve` does once its flags are known. Free of click, for a quick start."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from hubbub.assembly import assemble, check_sources
from hubbub.cli.failing import say
from hubbub.settings import ServeSettings, gather, read_settings


def serve(flags: Mapping[str, Any]) -> int:
    """Serve until the client goes away or a signal comes; return the exit code.

    Raises:
        HubbubError: something is wrong with what was given.
    """
    sources = gather(flags)
    settings = read_settings(ServeSettings, sources)
    check_sources(sources)
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    server = assemble(settings, sources)
    settings = stdio_until_http_exists(settings)

    from hubbub.app import serve_stdio

    return serve_stdio(server, limit=settings.max_message_bytes)


def stdio_until_http_exists(settings: ServeSettings) -> ServeSettings:
    """HTTP is the default and is still to come; until then, say so and serve on stdio."""
    if settings.transport == "stdio":
        return settings
    say("HTTP is not built yet; serving on stdio instead. `--transport stdio` says so without this notice.")
    return msgspec.structs.replace(settings, transport="stdio")
