"""Requests as bytes, with any mistake that a test wants to make."""

import json
import re
from typing import Any

HOST = b"Host: 127.0.0.1"
CLOSE = b"Connection: close"
JSON_TYPE = b"Content-Type: application/json"
CHUNKED = b"Transfer-Encoding: chunked"
HANDSHAKE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")


def message(method: str, params: Any = None, id: Any = 1) -> bytes:
    found = {"jsonrpc": "2.0", "id": id, "method": method}
    return json.dumps(found if params is None else found | {"params": params}).encode()


PING = message("ping")


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    """Encode a request from its first line and header lines, without any check."""
    return b"".join(part + b"\r\n" for part in (line, *headers)) + b"\r\n" + body


def get(path: bytes = b"/health", *headers: bytes) -> bytes:
    return request(b"GET %b HTTP/1.1" % path, HOST, *headers)


def post(*headers: bytes, body: bytes = b"") -> bytes:
    """Encode a request to `/mcp` whose framing is in `headers`."""
    return request(b"POST /mcp HTTP/1.1", HOST, JSON_TYPE, *headers, body=body)


def length(body: bytes) -> bytes:
    return b"Content-Length: %d" % len(body)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked(body: bytes, trailers: bytes = b"") -> bytes:
    """Encode a body as one chunk and the last chunk."""
    return chunk(body) + b"0\r\n" + trailers + b"\r\n"


def read_statuses(received: bytes) -> list[int]:
    """Return the statuses of all final responses in these bytes."""
    return [status for found in _STATUS.findall(received) if (status := int(found)) >= 200 or status == 101]
