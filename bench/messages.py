"""Requests of the HTTP generator, of a legacy and a modern client, as bytes.

The headers are those that the official client sends. There is no `Origin`: only browsers send it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

TEXT = b"a text of 20 letters"
FIRST_ID = 1_000_000
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
PATH = "/mcp"
_USER_AGENT = b"user-agent: bench\r\n"
_CLIENT = {"name": "bench", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}


@dataclass(frozen=True)
class CallForm:
    """A call of `echo`, split at its id. All ids have the same length, so the head does not change."""

    before: bytes
    after: bytes

    def request(self, identifier: int) -> bytes:
        """Return the complete request with this id."""
        return b"%b%d%b" % (self.before, identifier, self.after)

    def authorized(self, token: str) -> CallForm:
        """Return the same call with a bearer token."""
        return CallForm(authorized(self.before, token), self.after)


def initialize(path: str = PATH) -> bytes:
    """Return the request that opens a session."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
    return _post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, path=path)


def initialized(session: str, path: str = PATH) -> bytes:
    """Return the notification that ends the handshake."""
    return _post({"jsonrpc": "2.0", "method": "notifications/initialized"}, legacy_headers(session), path)


def list_tools(session: str, cursor: str | None = None, path: str = PATH) -> bytes:
    """Return a request for one page of tools."""
    params = {} if cursor is None else {"cursor": cursor}
    message = {"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": params}
    return _post(message, legacy_headers(session), path)


def call(session: str, tool: str, path: str = PATH) -> bytes:
    """Return a call of any tool."""
    message = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": tool, "arguments": {"id": "1"}}}
    return _post(message, legacy_headers(session), path)


def legacy_call(session: str) -> CallForm:
    """Return calls of `echo` in one session."""
    return _call({}, legacy_headers(session))


def modern_call() -> CallForm:
    """Return calls of `echo` without a session."""
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "echo"}
    return _call({"_meta": META}, headers)


def authorized(request: bytes, token: str) -> bytes:
    """Return a request with a bearer token; the same request if the token is empty."""
    if not token:
        return request
    return request.replace(_USER_AGENT, b"%bauthorization: Bearer %b\r\n" % (_USER_AGENT, token.encode()), 1)


def legacy_headers(session: str) -> dict[str, str]:
    """Return the headers of a request in a session."""
    return {"mcp-session-id": session, "mcp-protocol-version": LEGACY}


def _call(more: dict[str, Any], headers: dict[str, str]) -> CallForm:
    params = {"name": "echo", "arguments": {"text": TEXT.decode()}, **more}
    request = _post({"jsonrpc": "2.0", "id": FIRST_ID, "method": "tools/call", "params": params}, headers)
    before, _, after = request.partition(b"%d" % FIRST_ID)
    return CallForm(before, after)


def _post(message: dict[str, Any], headers: dict[str, str] | None = None, path: str = PATH) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    fields = {
        "host": "127.0.0.1:3000",
        "accept": "application/json, text/event-stream",
        "accept-encoding": "gzip, deflate",
        "connection": "keep-alive",
        "user-agent": "bench",
        **(headers or {}),
        "content-length": str(len(body)),
        "content-type": "application/json",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body
