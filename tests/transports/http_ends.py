"""The way to a scripted HTTP server: how a client is configured for it, and what is special about one method."""

from typing import Any

from tests.client.scripted import Asked, Handler, Scripted

from hubbub import ServerConfig


def config(server: Scripted, **fields: Any) -> ServerConfig:
    pinned = {"protocol_version": "2025-11-25"}
    return ServerConfig(**{"id": "s", "transport": "http", "url": server.url, **pinned, **fields})


def on(name: str, handler: Handler) -> Handler:
    """This handler for one method, and the usual for the rest."""

    async def handle(asked: Asked) -> None:
        if asked.rpc != name:
            raise NotImplementedError
        await handler(asked)

    return handle
