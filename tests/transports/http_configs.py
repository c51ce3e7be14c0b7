"""Helpers for tests with a scripted HTTP server: client configuration, and a handler for one method."""

from typing import Any

from tests.client.scripted_server import Handler, ScriptedRequest, ScriptedServer

from hubbub import ServerConfig


def make_config(server: ScriptedServer, **fields: Any) -> ServerConfig:
    pinned = {"protocol_version": "2025-11-25"}
    return ServerConfig(**{"id": "s", "transport": "http", "url": server.url, **pinned, **fields})


def handle_method(name: str, handler: Handler) -> Handler:
    """Use this handler for one method and the default for the others."""

    async def handle(request: ScriptedRequest) -> None:
        if request.rpc != name:
            raise NotImplementedError
        await handler(request)

    return handle
