"""An MCP server over HTTP that says which session, connection and cookie each call came with, in both eras."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from tests.stream_server import stream_server

LEGACY, MODERN = "2025-11-25", "2026-07-28"
TOOL = {"name": "probe", "description": "Describe this call.", "inputSchema": {"type": "object"}}


class CountingUpstream:
    """Its address, and what it has seen so far."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.url = ""
        self.initialized: list[str] = []
        """The sessions that were opened."""
        self.ended: list[str] = []
        self.calls: Counter[str] = Counter()
        """Calls of each session."""
        self.cookies: list[str] = []
        """The `Cookie` headers of all requests."""
        self.keys: list[str] = []
        """The `X-Key` headers of calls."""
        self.refused_starts = 0
        """How many sessions are refused before the next one is opened."""
        self._ids = count(1)

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    def answer(self, message: dict[str, Any], headers: dict[str, str], connection: int) -> tuple[dict[str, Any], str]:
        """The result or error of a request, and the session that it opens."""
        session = headers.get("mcp-session-id", "")
        match message["method"]:
            case "server/discover" if self.is_modern:
                return {"result": {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}}, ""
            case "initialize" if not self.is_modern:
                if self.refused_starts:
                    self.refused_starts -= 1
                    return {"error": {"code": -32000, "message": "not now"}}, ""
                session = f"session-{next(self._ids)}"
                self.initialized.append(session)
                info = {"serverInfo": {"name": "counting", "version": "1"}, "capabilities": {"tools": {}}}
                return {"result": {"protocolVersion": LEGACY, **info}}, session
            case "tools/list":
                return {"result": {"tools": [TOOL]}}, ""
            case "tools/call":
                self.calls[session] += 1
                self.keys.append(headers.get("x-key", ""))
                said = {
                    "session": session,
                    "connection": connection,
                    "count": self.calls[session],
                    "cookie": headers.get("cookie", ""),
                    "key": headers.get("x-key", ""),
                }
                return {"result": {"content": [{"type": "text", "text": json.dumps(said)}]}}, ""
        return {"error": {"code": -32601, "message": "unknown method"}}, ""


@asynccontextmanager
async def run_counting_upstream(version: str) -> AsyncIterator[CountingUpstream]:
    """Serve it on a free port."""
    upstream = CountingUpstream(version)
    connections = count(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = next(connections)
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            upstream.cookies.append(headers.get("cookie", ""))
            if first.startswith("DELETE"):
                upstream.ended.append(headers["mcp-session-id"])
            if not first.startswith("POST"):
                writer.write(_encode(405))
            elif "id" not in (message := json.loads(body)):
                writer.write(_encode(202))
            else:
                answer, session = upstream.answer(message, headers, connection)
                reply = {"jsonrpc": "2.0", "id": message["id"], **answer}
                writer.write(_encode(200, json.dumps(reply).encode(), session))
            await writer.drain()

    async with stream_server(serve) as port:
        upstream.url = f"http://127.0.0.1:{port}/mcp"
        yield upstream


def _encode(status: int, body: bytes = b"", session: str = "") -> bytes:
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Set-Cookie": "jar=secret; Path=/"}
    if session:
        fields["Mcp-Session-Id"] = session
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
