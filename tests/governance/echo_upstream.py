"""An MCP server over HTTP that repeats the headers and paths of requests in everything that it sends."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from tests.stream_server import stream_server

LEGACY = "2025-11-25"


class EchoUpstream:
    """Its address, and the headers of each request that it got."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, str]] = []
        self.answers_with_status = 0

    @property
    def values(self) -> list[str]:
        """The values of `X-Key` so far."""
        return [headers["x-key"] for headers in self.requests if "x-key" in headers]

    def answer(self, message: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """The answer to a request, with the values of its headers wherever a server can put text."""
        said = " ".join(f"{name}={value}" for name, value in headers.items())
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": LEGACY,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": f"echo {said}", "version": said},
                    "instructions": said,
                }
            case "tools/list":
                schema = {"type": "object", "properties": {"x": {"type": "string", "description": said}}}
                return {"tools": [{"name": "echo", "description": said, "inputSchema": schema}]}
            case "tools/call":
                encoded = base64.b64encode(f"user:{said}".encode()).decode()
                forms = [said, quote(said, safe=""), encoded, json.dumps(said)]
                return {"content": [{"type": "text", "text": form} for form in forms]}
        return {}


@asynccontextmanager
async def run_echo_upstream() -> AsyncIterator[EchoUpstream]:
    """Serve it on a free port."""
    upstream = EchoUpstream()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            headers[":path"] = first.split()[1]
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            upstream.requests.append(headers)
            message = json.loads(body) if first.startswith("POST") else {}
            writer.write(_make_response(upstream, message, headers, body))
            await writer.drain()

    async with stream_server(serve) as port:
        upstream.url = f"http://127.0.0.1:{port}/mcp"
        yield upstream


def _make_response(upstream: EchoUpstream, message: dict[str, Any], headers: dict[str, str], body: bytes) -> bytes:
    if upstream.answers_with_status:
        text = json.dumps({"error": str(headers)}).encode()
        return _encode(upstream.answers_with_status, text)
    if not message:
        return _encode(405, b"")
    if "id" not in message:
        return _encode(202, b"")
    if message["method"] == "server/discover":
        error = {"code": -32601, "message": f"unknown method, {headers}"}
        return _encode(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
    if (message.get("params") or {}).get("name") == "fail":
        error = {"code": -32000, "message": str(headers), "data": headers}
        return _encode(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
    result = upstream.answer(message, headers)
    return _encode(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


def _encode(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )
