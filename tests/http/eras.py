"""Requests of each era: sessions of the legacy era, headers and `_meta` of the modern era."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.http.raw_http import EventStream, Response, Site, request

META_PREFIX = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
NEWEST_LEGACY = "2025-11-25"
BOTH_MEDIA_TYPES = "application/json, text/event-stream"
ALL_CAPABILITIES: dict[str, Any] = {"sampling": {}, "elicitation": {}, "roots": {}}


def initialize_request(version: str = NEWEST_LEGACY, capabilities: Any = None) -> dict[str, Any]:
    params = {
        "protocolVersion": version,
        "capabilities": {} if capabilities is None else capabilities,
        "clientInfo": {"name": "test", "version": "1"},
    }
    return request("initialize", params)


class Session:
    """A legacy client after its handshake."""

    def __init__(self, site: Site, id: str, version: str, more: Mapping[str, str]) -> None:
        self.site = site
        self.id = id
        self.headers = {"Mcp-Session-Id": id, "MCP-Protocol-Version": version, "Accept": BOTH_MEDIA_TYPES, **more}

    async def post(self, body: Any, headers: Mapping[str, str] | None = None) -> Response:
        return await self.site.post(body, self.headers | dict(headers or {}))

    @asynccontextmanager
    async def call(self, body: Any, headers: Mapping[str, str] | None = None) -> AsyncIterator[EventStream]:
        async with self.site.stream("POST", "/mcp", self.headers | dict(headers or {}), body) as stream:
            yield stream

    @asynccontextmanager
    async def listen(self, last_event_id: str | None = None) -> AsyncIterator[EventStream]:
        more = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        async with self.site.stream("GET", "/mcp", self.headers | more) as stream:
            yield stream

    async def end(self) -> Response:
        return await self.site.request("DELETE", "/mcp", self.headers)


async def open_session(
    site: Site, version: str = NEWEST_LEGACY, capabilities: Any = None, headers: Mapping[str, str] | None = None
) -> Session:
    """Complete the handshake; the response may be JSON or a stream."""
    more = dict(headers or {})
    answer = await site.post(initialize_request(version, capabilities), {"Accept": BOTH_MEDIA_TYPES, **more})
    assert answer.status == 200, answer
    session = Session(site, str(answer.header("mcp-session-id")), version, more)
    done = await session.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (done.status, done.body) == (202, b"")
    return session


def modern_meta(capabilities: Any = None, version: str = MODERN, **more: Any) -> dict[str, Any]:
    return {
        f"{META_PREFIX}protocolVersion": version,
        f"{META_PREFIX}clientCapabilities": {} if capabilities is None else capabilities,
        f"{META_PREFIX}clientInfo": {"name": "test", "version": "1"},
        **more,
    }


def modern_request(
    method: str, params: Mapping[str, Any] | None = None, *, id: Any = 1, capabilities: Any = None, **meta: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the body of a modern request and its matching headers."""
    params = dict(params or {})
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Accept": BOTH_MEDIA_TYPES}
    name = params.get("uri") if method == "resources/read" else params.get("name")
    if method in ("tools/call", "prompts/get", "resources/read"):
        headers["Mcp-Name"] = encode_header(str(name))
    return request(method, params | {"_meta": modern_meta(capabilities, **meta)}, id), headers


def encode_header(text: str) -> str:
    """Encode a header value, in base64 if it is not plain ASCII."""
    is_plain = text.isascii() and text.isprintable() and text == text.strip()
    return text if is_plain else f"=?base64?{base64.b64encode(text.encode()).decode()}?="
