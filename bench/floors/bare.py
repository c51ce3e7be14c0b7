"""Responses of both bare servers: a handshake of either era, one tool, and calls of it.

They validate and store nothing, so that the measurement is about the caller.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

IS_MODERN = "modern" in sys.argv
_INFO = {"name": "bare", "version": "1"}
_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_CACHE_FIELDS = {"ttlMs": 60_000, "cacheScope": "private"}


class Arguments(msgspec.Struct, frozen=True):
    """Arguments of `echo`."""

    text: str = ""


class Params(msgspec.Struct, frozen=True):
    """The parameters that are used."""

    arguments: Arguments = Arguments()


class Message(msgspec.Struct):
    """The parts of a message that are used."""

    method: str = ""
    id: int | str | None = None
    params: Params = Params()


_decode = msgspec.json.Decoder(Message).decode
_encode = msgspec.json.Encoder().encode


def answer(body: bytes) -> bytes:
    """Return the response to a message; empty for a notification."""
    message = _decode(body)
    if message.id is None:
        return b""
    if message.method == "tools/call":
        result: dict[str, Any] = {"content": [{"type": "text", "text": message.params.arguments.text}]}
    elif message.method in _ANSWERS:
        result = _ANSWERS[message.method]
    else:
        error = {"code": -32601, "message": "Method not found"}
        return _encode({"jsonrpc": "2.0", "id": message.id, "error": error})
    if IS_MODERN:
        result = {"resultType": "complete", **result}
    return _encode({"jsonrpc": "2.0", "id": message.id, "result": result})


TOOLS: dict[str, list[dict[str, Any]]] = {
    "tools": [{"name": "echo", "description": "Return the text.", "inputSchema": _SCHEMA}]
}
_LEGACY: dict[str, Any] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": _INFO},
    "tools/list": TOOLS,
}
_MODERN: dict[str, Any] = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": _INFO},
        **_CACHE_FIELDS,
    },
    "tools/list": {**TOOLS, **_CACHE_FIELDS},
}
_ANSWERS = _MODERN if IS_MODERN else _LEGACY
