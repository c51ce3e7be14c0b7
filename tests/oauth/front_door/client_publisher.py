"""A web site that publishes the document of a client, and its keys."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.oauth.front_door.door_site import App, Door, open_door
from tests.oauth.split_dns import issue_trusted

from hubbub.net.egress_rules import EgressRules


class Publisher:
    """A web site with a document."""

    def __init__(self, port: int) -> None:
        self.url = f"https://localhost:{port}/client.json"
        self.document: dict[str, Any] = {
            "client_id": self.url,
            "client_name": "Published app",
            "redirect_uris": ["https://app.example/callback"],
        }
        self.keys: dict[str, Any] = {"keys": []}
        """The keys of the client, at the path `/keys`."""
        self.keys_url = f"https://localhost:{port}/keys"
        self.key_requests = 0
        self.head = "200 OK\r\nContent-Type: application/json"
        self.requests = 0
        self.is_down = False
        self.hangs = False


@asynccontextmanager
async def publish(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Publisher]:
    """Publish a document over TLS, at an address of this machine that the egress guard takes for a public one."""
    tls = issue_trusted(folder, monkeypatch, "localhost")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asks_keys = head.startswith(b"GET /keys ")
        publisher.requests += not asks_keys
        publisher.key_requests += asks_keys
        if publisher.hangs:
            await reader.read()
        if publisher.is_down or publisher.hangs:
            writer.close()
            return
        body = json.dumps(publisher.keys if asks_keys else publisher.document).encode()
        writer.write(f"HTTP/1.1 {publisher.head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    publisher = Publisher(server.sockets[0].getsockname()[1])
    async with server:
        yield publisher


def make_app(door: Door, publisher: Publisher) -> App:
    return App(door, publisher.url, redirect_uri="https://app.example/callback")


def allow(publisher: Publisher) -> dict[str, Any]:
    rules = EgressRules.parse([publisher.url.split("/")[2]])
    return {"rules": lambda: rules}


@asynccontextmanager
async def publish_to_door(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Publisher, Door]]:
    """Publish a document, which the front door may fetch."""
    async with publish(folder, monkeypatch) as publisher, open_door(folder, **allow(publisher)) as door:
        yield publisher, door
